"""Processes killed without warning: the others go on, and what was written can be read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gossamer.traces.writer import read
from tests.system.programs import Program, address_of, gossamer, listening, script


class Net:
    """A server, two subscribers and a publisher, each a process."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.server = self.start(gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json"))
        self.at = address_of(self.server)
        self.readers = [self.start(gossamer("sub", "news", "--at", self.at)) for _ in range(2)]
        for reader in self.readers:
            listening(reader)
        self.writer = self.publisher()
        self.say(self.writer, "ready", *self.readers)

    def start(self, program: Program) -> Program:
        return self.stack.enter_context(program)

    def publisher(self) -> Program:
        """It publishes once it knows of a subscriber; both have been there for longer."""
        return self.start(gossamer("pub", "news", "--at", self.at, "--wait", "30", stdin=subprocess.PIPE))

    def say(self, writer: Program, word: str, *readers: Program) -> None:
        """What goes in at one process comes out at others."""
        writer.write(f"{word}\n")
        for reader in readers:
            assert reader.line() == word


@pytest.fixture
def net() -> Iterator[Net]:
    with ExitStack() as stack:
        yield Net(stack)


def test_a_killed_publisher_is_not_missed(net: Net) -> None:
    net.writer.write("".join(f"{number}\n" for number in range(5000)))
    assert net.readers[0].line() == "0"
    net.writer.kill()
    other = net.publisher()
    other.write("another\n")
    for reader in net.readers:
        expected = 1 if reader is net.readers[0] else 0
        while (line := reader.line()) != "another":
            assert line == str(expected)
            expected += 1
    other.end_input()
    assert other.end() == 0
    for program in (*net.readers, net.server):
        assert program.stop() == 0


def test_a_killed_subscriber_is_not_missed(net: Net) -> None:
    net.writer.write("".join(f"{number}\n" for number in range(5000)))
    assert net.readers[0].line() == "0"
    net.readers[0].kill()
    assert net.readers[1].lines(5000) == [str(number) for number in range(5000)]
    net.say(net.writer, "on", net.readers[1])
    net.writer.end_input()
    assert net.writer.end() == 0
    for program in (net.readers[1], net.server):
        assert program.stop() == 0


def test_a_killed_server_is_found_again_when_it_is_back(net: Net) -> None:
    net.server.kill()
    again = net.start(gossamer("up", "--listen", net.at, "--json"))
    assert address_of(again) == net.at
    for writer, word in ((net.publisher(), "a new publisher"), (net.writer, "the old publisher")):
        for reader in net.readers:
            # either may come back later than the other, and misses what was said until then
            while reader.line_within(0.1) != word:
                writer.write(f"{word}\n")
        writer.end_input()
        assert writer.end() == 0
    for program in (*net.readers, again):
        assert program.stop() == 0


def test_the_trace_of_a_killed_process_can_be_read(tmp_path: Path) -> None:
    with script("traced_publisher.py", tmp_path) as victim:
        while not list(tmp_path.rglob("[!.]*.parquet")):
            assert victim.line() == "a hundred"
        victim.kill()
    rows = read(tmp_path).to_pylist()
    assert [row["position"] for row in rows] == list(range(1, len(rows) + 1))
    published = [row["first"] for row in rows if row["action"] == "published"]
    assert published == list(range(1, len(published) + 1))
    assert len(published) > 0
    assert list(tmp_path.rglob("*.json")) == [], "only a clean end says that the trace is whole"


def test_the_trace_of_a_stopped_node_says_that_it_is_whole(tmp_path: Path) -> None:
    options = ("--listen", "tcp://127.0.0.1:0", "--json", "--trace", str(tmp_path))
    with gossamer("up", *options) as node:
        at = ("--at", address_of(node))
        with listening(gossamer("sub", "news", *at, "--count", "3")) as reader:
            with gossamer("pub", "news", "a", "b", "c", *at) as writer:
                assert writer.end() == 0
            assert reader.lines(3) == ["a", "b", "c"]
            assert reader.end() == 0
        assert node.stop() == 0
    rows = read(tmp_path).to_pylist()
    passed = [row["count"] for row in rows if (row["kind"], row["action"]) == ("parcel", "sent")]
    assert sum(passed) == 3
    assert len(list(tmp_path.rglob("*.json"))) == 1
