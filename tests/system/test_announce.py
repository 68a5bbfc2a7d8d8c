"""Announcements between real processes, over real IP multicast on the loopback interface."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.system.programs import Program, gossamer

FAST = ("--interval", "0.05", "--join", "0.5", "--refresh", "0.5")


@pytest.fixture
def meeting() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return f"multicast://239.255.75.0:{sock.getsockname()[1]}?interface=127.0.0.1"


def listener(meeting: str, *arguments: str) -> Program:
    program = gossamer("listen", *arguments, "--meeting", meeting, "--timeout", "60", "--patience", "30")
    assert program.error_line().startswith("listening for")
    return program


def announcer(meeting: str, name: str) -> Program:
    return gossamer("announce", name, "--meeting", meeting, "--json", *FAST, stdin=subprocess.PIPE)


def test_what_one_process_announces_others_hear(meeting: str) -> None:
    with (
        announcer(meeting, "weather/oslo") as weather,
        announcer(meeting, "stocks/acme") as stocks,
        listener(meeting, "weather/oslo", "--count", "3") as one,
        listener(meeting, "weather/oslo", "stocks/acme", "--count", "4", "--json") as both,
    ):
        for text in ("rain", "snow", "x" * 20_000):
            weather.write(text + "\n")
            assert one.line() == text
        stocks.write("12\n")
        told = [both.json() for _ in range(4)]
        assert sorted(each["payload"] for each in told) == ["12", "rain", "snow", "x" * 20_000]
        versions = {each["version"]: each["payload"] for each in told if each["name"] == "weather/oslo"}
        assert versions == {1: "rain", 2: "snow", 3: "x" * 20_000}, (
            "in any order: who lost one hears it again"
        )
        assert len({each["thread"] for each in told}) == 2, "two announcers that never talked"
        for program in (weather, stocks):
            program.end_input()
            assert program.end() == 0
        assert (one.end(), both.end()) == (0, 0)
        assert (one.errors(), both.errors()) == ("", "")


def test_an_index_process_serves_applications_that_know_nothing_of_it(meeting: str) -> None:
    with gossamer("index", "--meeting", meeting, "--json", *FAST) as indexer:
        assert indexer.json()["meeting"] == meeting
        with (
            announcer(meeting, "weather/oslo") as weather,
            listener(meeting, "weather/oslo", "--depth", "1", "--count", "1") as one,
        ):
            weather.write("rain\n")
            assert one.line() == "rain"
            assert one.end() == 0
        assert indexer.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("listen", "a", "--meeting", "tcp://127.0.0.1:1"), "multicast://"),
        (("announce", "a", "b", "--reliability", "prayer"), "erasure, repetition"),
    ],
)
def test_what_cannot_be_is_one_clear_line(arguments: tuple[str, ...], says: str) -> None:
    with gossamer(*arguments) as program:
        assert program.end() != 0
        lines = program.errors().splitlines()
    assert len(lines) == 1
    assert says in lines[0]
