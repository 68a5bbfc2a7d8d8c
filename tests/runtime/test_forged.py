"""Letters of a council that a stranger forged, with numbers that could be true: nothing acknowledged is lost,
publishing goes on, and the history is whole after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gossamer import Channel, GossamerError
from gossamer.consensus.messages import (
    AppendEntries,
    AppendEntriesReply,
    BootstrapReply,
    Entry,
    InstallSnapshot,
    NoSuchLog,
    RaftMessage,
    RequestVote,
    RequestVoteReply,
)
from gossamer.core.control import Control
from gossamer.core.effect import SENSELESS, Drop
from gossamer.core.names import channel_id
from gossamer.templates.total_order.forwarding import Relay
from tests.runtime.damages import fill, history, logged, numbers, single, small_segments
from tests.runtime.parties import SOON

HOUR = 3600 * 10**9


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with small_segments():
        yield


Forge = Callable[[tuple[Any, ...], Any], RaftMessage]
"""Makes a letter from its first fields and the council that gets it."""


def later(raft: Any, now: int) -> tuple[int, str]:
    return (now + HOUR, "zz")


def same(raft: Any, now: int) -> tuple[int, str]:
    return raft.history  # type: ignore[no-any-return]


def _last(raft: Any) -> int:
    return int(raft.record.last)


SEATS = (("stranger", 1),)
FORGED: dict[str, Forge] = {
    "stranger": lambda head, raft: NoSuchLog(*head),
    "copy": lambda head, raft: AppendEntries(*head, _last(raft), 1, (), 2**62, 2**62),
    "copy of entries": lambda head, raft: AppendEntries(
        *head, _last(raft), raft.term, (Entry(1, seats=SEATS),), 2**62, 2**62
    ),
    "ask": lambda head, raft: RequestVote(*head, _last(raft) + 1000, 1000, True),
    "vote": lambda head, raft: RequestVoteReply(*head, True),
    "copied": lambda head, raft: AppendEntriesReply(*head, _last(raft), _last(raft), True),
    "founded": lambda head, raft: BootstrapReply(*head, True, head[3], _last(raft), SEATS, ("stranger",)),
    "welcome": lambda head, raft: InstallSnapshot(*head, _last(raft) + 1, 1, SEATS, (), 3),
    "a number": lambda head, raft: InstallSnapshot(*head, _last(raft) + 1, 1, (raft.seats[0],), (), 2**62),
}


def forge(channel: Channel, message: Callable[[Any, int], list[RaftMessage]]) -> None:
    """A neighbour says letters to the node of a channel, as they are and for another node to pass on."""
    host = channel._host
    template: Any = host.engine.instance("log").template
    for each in message(template.raft, host.now()):
        for message in (each, Relay(1, each)):  # type: ignore[arg-type]
            with suppress(GossamerError):
                control = Control(channel_id(channel.name), message)
                host.do(host.engine.receive(host.now(), "stranger", control))


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("when", [later, same])
@pytest.mark.parametrize(("origin", "term"), [("stranger", 0), ("stranger", 7), ("keeper", 0)])
async def test_nothing_acknowledged_is_lost_by_a_forged_letter(
    tmp_path: Path, kind: str, when: Callable[[Any, int], tuple[int, str]], origin: str, term: int
) -> None:
    def messages(raft: Any, now: int) -> list[RaftMessage]:
        head = ("keeper", origin, now // 10**6, when(raft, now), raft.term + term)
        return [FORGED[kind](head, raft)]

    async with asyncio.timeout(4 * SOON):
        async with single(tmp_path) as channel:
            await fill(channel, 0, 10)
            forge(channel, messages)
            await fill(channel, 10, 15)
        async with single(tmp_path) as channel:
            await fill(channel, 15, 18)
            assert await history(channel, 18) == numbers(0, 18)


@pytest.mark.parametrize("after", [0, HOUR])
async def test_a_council_that_is_founded_again_in_the_same_life_keeps_what_is_acknowledged(
    tmp_path: Path, after: int
) -> None:
    async with asyncio.timeout(4 * SOON):
        async with single(tmp_path) as channel:
            await fill(channel, 0, 40)
            instance: Any = channel._host.engine.instance("log")
            raft, now = instance.template.raft, channel._host.now()
            if not after:  # as if its record were gone
                await logged(channel, 40)
                raft.record = None
            raft.found(instance.context, (now + after, "zz"))
            await fill(channel, 40, 45)
            assert await history(channel, 45) == numbers(0, 45)
        async with single(tmp_path) as channel:
            await fill(channel, 45, 48)
            assert await history(channel, 48) == numbers(0, 48)


async def test_a_letter_inside_another_message_is_checked_like_any_other(tmp_path: Path) -> None:
    async with single(tmp_path) as channel:
        await fill(channel, 0, 1)
        host = channel._host
        raft = host.engine.instance("log").template.raft  # type: ignore[attr-defined]
        forged = NoSuchLog("keeper", "a", 2**62, raft.history, raft.term)
        (drop,) = host.engine.receive(host.now(), "stranger", Control(channel_id("log"), Relay(1, forged)))
        assert isinstance(drop, Drop)
        assert drop.reason.endswith(SENSELESS)
        assert "a" not in raft.lives
