"""The command line, as people and scripts use it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.programs import PATIENCE, Program, address_of, gossamer, listening

STOPS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    """A node that all tests of this module may use, each with channels of its own."""
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json") as node:
        yield address_of(node)
        assert node.stop() == 0


def sub(at: str, channel: str, *options: str) -> Program:
    return listening(gossamer("sub", channel, "--at", at, *options))


# what the verbs do


def test_what_is_published_is_shown(at: str) -> None:
    with sub(at, "verbs", "--count", "2") as reader:
        with gossamer("pub", "verbs", "one", "two", "--at", at, "--json") as writer:
            assert writer.json() == {
                "channel": "verbs",
                "published": 2,
                "taken_over": True,
                "subscribers": True,
            }
            assert writer.end() == 0
        assert reader.lines(2) == ["one", "two"]
        assert reader.end() == 0
        assert (reader.rest(), reader.errors()) == ("", "")


def test_who_comes_later_sees_the_last_value(at: str) -> None:
    with gossamer("pub", "weather", "rain", "sun", "--at", at, "--retain", "--wait", "0") as writer:
        assert writer.end() == 0
    with gossamer("sub", "weather", "--at", at, "--retained", "--count", "1", "--timeout", "30") as reader:
        assert reader.lines(1) == ["sun"]
        assert reader.end() == 0


def test_who_comes_back_at_another_server_sees_what_came_meanwhile() -> None:
    up = ("up", "--listen", "tcp://127.0.0.1:0", "--json")
    with gossamer(*up) as first, gossamer(*up, "--connect", (at := address_of(first))) as other:
        kept = ("mail", "--template", "dispatch", "--durable", "ann", "--timeout", "30")
        with listening(gossamer("sub", *kept, "--at", at, "--count", "1")) as reader:
            with gossamer("pub", "mail", "one", "two", "--at", at, "--wait", "30") as writer:
                assert writer.end() == 0
            assert reader.lines(1) == ["one"]
            assert reader.end() == 0
        with gossamer("pub", "mail", "three", "--at", at, "--wait", "30") as writer:
            assert writer.end() == 0
        with gossamer("sub", *kept, "--at", address_of(other), "--count", "2") as reader:
            assert reader.lines(2) == ["two", "three"]
            assert reader.end() == 0


def test_an_event_of_the_papers_meets_its_filter(at: str) -> None:
    dispatched = ("--template", "dispatch", "--connect", at)
    wanted = ("--template", "dispatch", "--where", "*(Editor, *, Win*)", "--count", "1")
    events = {"SoftwareReleased(Shell, 1.3, WinNT)": "no", "SoftwareReleased(Editor, 1.3, WinNT)": "yes"}
    with sub(at, "releases", *wanted) as reader:
        for event, payload in events.items():
            with gossamer("pub", "releases", payload, *dispatched, "--event", event) as writer:
                assert writer.end() == 0
        assert reader.lines(1) == ["yes"]


def test_settings_and_advertisements_are_given_on_the_command_line(at: str) -> None:
    made = ("--template", "dispatch", "--setting", "propagation=advertisement")
    offered = ("pub", "offers", "x", "--connect", at, *made, "--advertise", "price>10", "--wait", "0")
    with gossamer(*offered, "-a", "price=12") as writer:
        assert writer.end() == 0
    with gossamer(*offered, "-a", "price=2") as writer:
        assert writer.end() == 1
        assert "advertise such" in writer.errors()
    with gossamer("pub", "others", "x", "--connect", at, "--setting", "speed") as writer:
        assert writer.end() == 2
        assert "NAME=VALUE" in writer.errors()


def test_a_history_is_read_from_an_offset(tmp_path: Path) -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--state", str(tmp_path), "--json") as node:
        there = ("log", "--template", "persistent", "--connect", address_of(node))
        for text in ("one", "two", "three"):
            with gossamer("pub", there[0], text, *there[1:], "--wait", "0") as writer:
                assert writer.end() == 0
        with gossamer("sub", *there, "--from-offset", "1", "--count", "2", "--timeout", "30") as reader:
            assert reader.lines(2) == ["two", "three"]
            assert reader.end() == 0


def test_json_tells_all_about_an_event(at: str) -> None:
    with gossamer("sub", "prices", "--at", at, "--count", "1", "--json", "--where", "price>10") as reader:
        envelope = ("-a", "symbol=ACME", "-a", "price=12.5", "--priority", "7")
        with gossamer("pub", "prices", "cheap", "--at", at, "-a", "price=1", "--wait", "30") as writer:
            assert writer.end() == 0
        with gossamer("pub", "prices", "dear", "--at", at, "--wait", "30", *envelope) as writer:
            assert writer.end() == 0
        event = reader.json()
        assert reader.end() == 0
    assert event.pop("sent_ns") > 0
    assert event.pop("offset") is None
    assert event.pop("source").startswith("node-")
    attributes = {"symbol": "ACME", "price": 12.5}
    assert event == {"channel": "prices", "number": 1, "attributes": attributes, "payload": "dear"}


def test_lines_of_a_file_are_events(at: str, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(5000)]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines))
    with sub(at, "file", "--count", "5000") as reader, path.open() as file:
        with gossamer("pub", "file", "--at", at, stdin=file) as writer:
            assert writer.end() == 0
        assert reader.lines(5000) == lines
        assert reader.end() == 0


def test_lines_of_a_pipe_are_events_as_soon_as_they_come(at: str) -> None:
    with sub(at, "pipe") as reader, gossamer("pub", "pipe", "--at", at, stdin=subprocess.PIPE) as writer:
        for word in ("first", "zweite", "třetí", ""):
            writer.write(f"{word}\n")
            assert reader.line() == word
        writer.write("without an end")
        writer.end_input()
        assert reader.line() == "without an end"
        assert writer.end() == 0


def test_a_request_shows_the_answer(at: str) -> None:
    with sub(at, "questions", "--reply", "42", "--count", "1") as oracle:
        with gossamer("request", "questions", "meaning?", "--at", at) as asker:
            assert asker.line() == "42"
            assert asker.end() == 0
        assert oracle.line() == "meaning?"
        assert oracle.end() == 0


def test_a_request_that_nobody_hears_fails_in_one_line(at: str) -> None:
    with gossamer("request", "void", "hello?", "--at", at, "--timeout", "0.2") as asker:
        assert asker.end() == 1
        assert asker.errors() == "error: no answer to waiting for subscribers of 'void' within 0.2 s"


def test_publishing_where_nobody_listens_says_so(at: str) -> None:
    with gossamer("pub", "silence", "x", "--at", at, "--wait", "0") as writer:
        assert writer.end() == 0
        assert writer.errors() == "published 1, but nobody listens on 'silence'"


@pytest.mark.parametrize(
    ("template", "reason"), [("reliable", "confirmation that events"), ("dispatch", "no neighbour any more")]
)
def test_events_that_a_server_did_not_take_before_it_died_are_no_success(template: str, reason: str) -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json") as node:
        at = address_of(node)
        given = ("--at", at, "--template", template, "--timeout", "4", "--json", "--wait", "30")
        with (
            sub(at, "dying", "--template", template) as reader,
            gossamer("pub", "dying", *given, stdin=subprocess.PIPE) as writer,
        ):
            writer.write("first\n")
            assert reader.line() == "first"
            node.process.send_signal(signal.SIGSTOP)
            writer.write("never taken\n")
            writer.end_input()
            assert writer.line_within(1.0) is None
            node.process.kill()
            told = writer.json()
            assert (told["published"], told["taken_over"]) == (2, False)
            assert writer.end() == 1
            assert reason in writer.errors()


BEST_EFFORT = ["multicast", "single-source", "ringtree"]


@pytest.mark.parametrize("template", BEST_EFFORT)
def test_events_that_a_stopped_server_never_read_are_not_taken_over(template: str) -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json") as node:
        given = ("--at", address_of(node), "--template", template, "--timeout", "3", "--json", "--wait", "30")
        with (
            sub(given[1], "stopped", "--template", template) as reader,
            gossamer("pub", "stopped", *given, stdin=subprocess.PIPE) as writer,
        ):
            writer.write("first\n")
            assert reader.line() == "first"
            node.process.send_signal(signal.SIGSTOP)
            writer.write("never read\n")
            writer.end_input()
            told = writer.json()
            assert (told["published"], told["taken_over"]) == (2, False)
            assert writer.end() == 1
            assert "confirmation that events" in writer.errors()


def test_a_server_that_goes_on_in_time_has_taken_the_events_over() -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json") as node:
        at = address_of(node)
        with (
            sub(at, "paused") as reader,
            gossamer("pub", "paused", "--at", at, "--json", "--wait", "30", stdin=subprocess.PIPE) as writer,
        ):
            writer.write("first\n")
            assert reader.line() == "first"
            node.process.send_signal(signal.SIGSTOP)
            writer.write("late\n")
            writer.end_input()
            assert writer.line_within(1.0) is None
            node.process.send_signal(signal.SIGCONT)
            assert writer.json()["taken_over"] is True
            assert writer.end() == 0
            assert reader.line() == "late"


def test_channels_are_listed_with_what_they_are_made_of(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(
        """\
        name = "hub"
        listen = ["tcp://127.0.0.1:0"]
        [[channel]]
        name = "news"
        template = "multicast"
        settings = { window = 9 }
        """
    )
    with gossamer("up", str(config), "--json") as node:
        up = node.json()
        assert (up["node"], up["role"]) == ("hub", "backbone")
        with gossamer("channels", "--at", up["listen"][0], "--json") as channels:
            assert channels.json() == [{"name": "news", "template": "multicast", "settings": {"window": 9}}]
            assert channels.end() == 0
        assert node.stop() == 0


def test_templates_are_listed_with_promise_cost_and_needs() -> None:
    with gossamer("templates", "--json") as templates:
        listed = {each["name"]: each for each in templates.json()}
        assert (templates.end(), templates.errors()) == (0, "")
    assert {"loop", "multicast"} <= set(listed)
    defaults = {"retry": 0.5, "merge": 0.1, "refresh": 30.0, "window": 4096}
    assert listed["multicast"]["settings"] == defaults
    for each in listed.values():
        assert each["promises"]
        assert each["costs"]
        assert each["needs"]


# stopping


@pytest.mark.parametrize("number", STOPS)
def test_a_node_stops_cleanly(number: int) -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json", "--name", "n") as node:
        address_of(node)
        assert node.stop(number) == 0
        assert json.loads(node.rest()) == {"node": "n", "stopped": True, "dropped": {}}
        assert node.errors() == ""


@pytest.mark.parametrize("number", STOPS)
def test_a_subscriber_stops_cleanly(at: str, number: int) -> None:
    with sub(at, f"stop-{number}") as reader:
        with gossamer("pub", f"stop-{number}", "x", "--at", at) as writer:
            assert writer.end() == 0
        assert reader.line() == "x"
        assert reader.stop(number) == 0
        assert (reader.rest(), reader.errors()) == ("", "")


@pytest.mark.parametrize("number", STOPS)
def test_what_a_stopped_publisher_had_accepted_arrives(at: str, number: int) -> None:
    name = f"accepted-{number}"
    with (
        sub(at, name) as reader,
        gossamer("pub", name, "--at", at, "--json", stdin=subprocess.PIPE) as writer,
    ):
        writer.write("".join(f"{line}\n" for line in range(20_000)))
        assert reader.line() == "0"
        assert writer.stop(number) == 130
        published = json.loads(writer.rest())["published"]
        assert 0 < published <= 20_000
        assert reader.lines(published - 1) == [str(line) for line in range(1, published)]
        assert reader.stop() == 0
        assert reader.rest() == ""


def test_a_reader_that_goes_away_ends_a_subscriber_quietly(at: str) -> None:
    command = [sys.executable, "-m", "gossamer.cli.main", "sub", "head", "--at", at]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader,
        gossamer("pub", "head", "--at", at, "--wait", "30", stdin=subprocess.PIPE) as writer,
    ):
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stderr.readline().startswith(b"listening")
        writer.write("first\n")
        assert reader.stdout.readline() == b"first\n"
        reader.stdout.close()
        writer.write("second\n")
        assert reader.wait(PATIENCE) == 0
        assert reader.stderr.read() == b""
        writer.end_input()
        assert writer.end() == 0


# what is wrong is said in one line


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("pub wrong x --at AT --template multicats", 1, "no template 'multicats'; did you mean 'multicast'?"),
        ("up --listen AT", 1, "is in use: stop what listens there, or choose another port"),
        ("up --listen nonsense", 1, "cannot use address 'nonsense': expected scheme://host:port"),
        ("up --connect pigeon://coop:1", 1, "no transport for 'pigeon'; known: "),
        ("up --connect tcp://127.0.0.1", 1, "cannot use address 'tcp://127.0.0.1'"),
        ("sub news --at tcp://127.0.0.1", 1, "cannot use address 'tcp://127.0.0.1'"),
        ("sub news --at NOBODY", 1, "is one running there? `gossamer up` starts one"),
        ("channels --at NOBODY", 1, "is one running there? `gossamer up` starts one"),
        ("pub two^words x --at AT", 1, "'two words' is not a valid channel name"),
        ("up --name two^words", 1, "'two words' is not a valid node name"),
        ("sub news --at AT --where price~10", 1, "filter 'price~10', position 6"),
        ("pub news x --at AT -a price", 1, "event's attribute is 'price': expected NAME=VALUE"),
        ("pub news x --at AT --priority 99", 1, "event's QoS 'priority' is 99"),
        ("sub news --at AT --on-full explode", 1, "one of block, drop_oldest"),
        ("up absent.toml", 2, "absent.toml: cannot be read: No such file"),
    ],
)
def test_bad_input_is_answered_in_one_line(at: str, arguments: str, code: int, told: str) -> None:
    nobody = f"tcp://127.0.0.1:{free_port()}"
    words = [word.replace("AT", at) if word == "AT" else word for word in arguments.split()]
    words = [word.replace("NOBODY", nobody).replace("^", " ") for word in words]
    with gossamer(*words) as program:
        assert program.end() == code
        errors = program.errors()
    assert told in errors
    assert errors.startswith("error: ")
    assert len(errors.splitlines()) == 1
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('name = "a"\nlisten = 7\n', "node.toml, line 2, key 'listen': Expected"),
        ('name = "a"\n\n[limits]\npatience = -1\n', "node.toml, line 4, key 'limits.patience': Expected"),
        ('name = "a"\nrole = \n', "node.toml, line 2, key 'role': Invalid value"),
        ('[[channel]]\nname = "x"\ntemplate = "nope"\n', "there is no template 'nope'; known: "),
        (
            '[[channel]]\nname = "x"\ntemplate = "multicast"\nsettings = { retry = 0 }\n',
            "key 'retry': Expected",
        ),
        ('tree = [["a", "b"], ["b", "c"], ["c", "a"]]\n', "the edges do not form a tree"),
    ],
)
def test_a_bad_settings_file_is_answered_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "node.toml").write_text(text)
    with gossamer("up", str(tmp_path / "node.toml")) as program:
        assert program.end() in (1, 2)
        errors = program.errors()
    assert told in errors
    assert errors.startswith("error: ")
    assert len(errors.splitlines()) == 1
