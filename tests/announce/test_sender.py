"""A sender spaces rounds, keeps to its rate, and refuses more than it can hold."""

from __future__ import annotations

import pytest

from gossamer.announce.assembly import Assembler
from gossamer.announce.header import Code, decode
from gossamer.announce.reliability import Repetition
from gossamer.announce.sender import CATCH_UP, Pace, Packet, Sender
from gossamer.core.errors import ConfigError, Full, TooLarge
from gossamer.core.names import NANOSECONDS, nanoseconds

THREAD, OTHER = bytes(16), bytes([1] * 16)


def drained(sender: Sender, now: int = 0) -> list[tuple[float, Packet]]:
    """Everything with the second at which it left."""
    left: list[tuple[float, Packet]] = []
    while sender.wake is not None:
        now = max(now, sender.wake)
        left += [(now / NANOSECONDS, packet) for packet in sender.due(now)]
    return left


def test_rounds_leave_an_interval_apart_and_cover_the_time_of_a_join() -> None:
    sender = Sender(Pace(interval=0.5, join=1.0))
    sender.announce(0, "a", THREAD, 1, b"rain")
    times = [at for at, _ in drained(sender)]
    assert times == [0.5 * i for i in range(8 + 2)]
    assert sender.backlog == 0


def test_no_channel_gets_more_than_its_rate() -> None:
    sender = Sender(Pace(rate=10_000, join=0), Repetition(0.0001, 0.99))
    sender.announce(0, "a", THREAD, 1, bytes(50_000))
    left = drained(sender)
    for at, _ in left:
        sent = sum(len(packet.data) for then, packet in left if then <= at)
        assert sent <= 10_000 * (at + CATCH_UP / NANOSECONDS) + 1400
    assert 5 < left[-1][0] < 6


def test_channels_do_not_wait_for_each_other() -> None:
    sender = Sender(Pace(rate=1_000, join=0), Repetition(0.0001, 0.99))
    sender.announce(0, "busy", THREAD, 1, bytes(50_000))
    sender.announce(0, "idle", OTHER, 1, b"rain")
    assert {packet.channel for packet in sender.due(0)} == {"busy", "idle"}


def test_announcements_on_one_channel_take_turns() -> None:
    sender = Sender(Pace(rate=1_250_000, join=0))
    for version in (1, 2):
        sender.announce(0, "a", THREAD, version, b"rain")
    order = [decode(packet.data)[0].version for _, packet in drained(sender)]
    assert order[:4] == [1, 2, 1, 2]


def test_one_that_replaces_ends_the_earlier_ones() -> None:
    sender = Sender(Pace(join=0))
    sender.announce(0, "a", THREAD, 1, b"old", code=Code.INDEX, replace=True)
    sender.due(0)
    sender.announce(0, "a", THREAD, 2, b"new", code=Code.INDEX, replace=True)
    versions = [decode(packet.data)[0].version for _, packet in drained(sender)]
    assert versions == [2] * 8


def test_once_means_once() -> None:
    sender = Sender()
    sender.announce(0, "a", THREAD, 1, b"rain", once=True)
    assert len(drained(sender)) == 1


def test_what_left_is_heard() -> None:
    sender, assembler = Sender(), Assembler()
    sender.announce(0, "a", THREAD, 7, bytes(5_000))
    heard = [assembler.put(*decode(packet.data)) for _, packet in drained(sender)]
    (found,) = [each for each in heard if each]
    assert (found.thread, found.version, found.code, found.payload) == (THREAD, 7, Code.DATA, bytes(5_000))


def test_a_backlog_over_its_limit_is_refused_and_nothing_of_it_is_sent() -> None:
    sender = Sender(Pace(backlog=1_000, join=0))
    sender.announce(0, "a", THREAD, 1, b"x" * 50)
    with pytest.raises(Full):
        sender.announce(0, "a", THREAD, 2, b"x" * 100)
    assert {decode(packet.data)[0].version for _, packet in drained(sender)} == {1}
    sender.announce(0, "a", THREAD, 2, b"x" * 90)


@pytest.mark.parametrize("change", [{"interval": 0}, {"join": -1}, {"rate": 0}, {"mtu": 63}, {"backlog": 0}])
def test_a_pace_that_cannot_be_names_its_key(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        Sender(Pace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 2**32])
def test_versions_count_from_one_and_end(version: int) -> None:
    with pytest.raises(TooLarge):
        Sender().announce(nanoseconds(1), "a", THREAD, version, b"")
