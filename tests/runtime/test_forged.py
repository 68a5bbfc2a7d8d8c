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
from gossamer.consensus.messages import Ask, Copied, Copy, Entry, Founded, Letter, Stranger, Vote, Welcome
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


Forge = Callable[[tuple[Any, ...], Any], Letter]
"""Makes a letter from its first fields and the council that gets it."""


def later(council: Any, now: int) -> tuple[int, str]:
    return (now + HOUR, "zz")


def same(council: Any, now: int) -> tuple[int, str]:
    return council.history  # type: ignore[no-any-return]


def _last(council: Any) -> int:
    return int(council.record.last)


SEATS = (("stranger", 1),)
FORGED: dict[str, Forge] = {
    "stranger": lambda head, council: Stranger(*head),
    "copy": lambda head, council: Copy(*head, _last(council), 1, (), 2**62, 2**62),
    "copy of entries": lambda head, council: Copy(
        *head, _last(council), council.term, (Entry(1, seats=SEATS),), 2**62, 2**62
    ),
    "ask": lambda head, council: Ask(*head, _last(council) + 1000, 1000, True),
    "vote": lambda head, council: Vote(*head, True),
    "copied": lambda head, council: Copied(*head, _last(council), _last(council), True),
    "founded": lambda head, council: Founded(*head, True, head[3], _last(council), SEATS, ("stranger",)),
    "welcome": lambda head, council: Welcome(*head, _last(council) + 1, 1, SEATS, (), 3),
    "a number": lambda head, council: Welcome(*head, _last(council) + 1, 1, (council.seats[0],), (), 2**62),
}


def forge(channel: Channel, letter: Callable[[Any, int], list[Letter]]) -> None:
    """A neighbour says letters to the node of a channel, as they are and for another node to pass on."""
    host = channel._host
    template: Any = host.engine.instance("log").template
    for each in letter(template.council, host.now()):
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
    def letters(council: Any, now: int) -> list[Letter]:
        head = ("keeper", origin, now // 10**6, when(council, now), council.term + term)
        return [FORGED[kind](head, council)]

    async with asyncio.timeout(4 * SOON):
        async with single(tmp_path) as channel:
            await fill(channel, 0, 10)
            forge(channel, letters)
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
            council, now = instance.template.council, channel._host.now()
            if not after:  # as if its record were gone
                await logged(channel, 40)
                council.record = None
            council.found(instance.context, (now + after, "zz"))
            await fill(channel, 40, 45)
            assert await history(channel, 45) == numbers(0, 45)
        async with single(tmp_path) as channel:
            await fill(channel, 45, 48)
            assert await history(channel, 48) == numbers(0, 48)


async def test_a_letter_inside_another_message_is_checked_like_any_other(tmp_path: Path) -> None:
    async with single(tmp_path) as channel:
        await fill(channel, 0, 1)
        host = channel._host
        council = host.engine.instance("log").template.council  # type: ignore[attr-defined]
        forged = Stranger("keeper", "a", 2**62, council.history, council.term)
        (drop,) = host.engine.receive(host.now(), "stranger", Control(channel_id("log"), Relay(1, forged)))
        assert isinstance(drop, Drop)
        assert drop.reason.endswith(SENSELESS)
        assert "a" not in council.lives
