"""A persistent channel whose node is killed again and again: nothing acknowledged is missing, order kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

from gossamer import connect
from tests.system.persistent_lives import SETTINGS
from tests.system.programs import HERE, Program

KILLS = 200
Event = tuple[int, int]
"""Life and number."""


def lives(folder: Path, kills: int, seed: int) -> list[Event]:
    """Kill life after life, each at some instant; what they said was acknowledged."""
    dice = random.Random(seed)
    told: list[Event] = []
    with Program(str(HERE / "persistent_lives.py"), str(folder), stdin=subprocess.PIPE) as nursery:
        for life in range(kills):
            nursery.write(f"{life}\n")
            word, pid = nursery.line().split()
            assert word == "pid"
            try:
                # while it starts, while it takes its seat again, and most often while it publishes
                for _ in range(dice.choice((0, 1, 2, *(dice.randrange(2, 20) for _ in range(4))))):
                    hear(nursery.line(), told)
                for _ in range(dice.choice((10_000, 100_000, 1_000_000)) * dice.randrange(100) // 100):
                    pass  # some way into what it does next
            finally:  # or it would outlive its parent
                os.kill(int(pid), signal.SIGKILL)
            while (line := nursery.line()) != "dead":
                hear(line, told)
    return told


def hear(line: str, told: list[Event]) -> None:
    if line != "open":
        life, number = map(int, line.split())
        told.append((life, number))


async def history(folder: Path) -> list[tuple[int, Event]]:
    """The place, life and number of every event, as a subscriber that comes last gets them."""
    found: list[tuple[int, Event]] = []
    async with connect(name="keeper", role="backbone", listen=["local://keeper"], state=folder) as node:
        channel = await node.channel("log", template="persistent", settings=SETTINGS)
        async with channel.subscribe(from_offset=0) as events:
            await channel.publish(b"end")
            while (event := await events.next(timeout=60)).payload != b"end":
                life, number = map(int, event.payload.split())
                assert event.offset is not None
                found.append((event.offset, (life, number)))
    return found


def check(told: list[Event], found: list[tuple[int, Event]]) -> None:
    events = [event for _, event in found]
    assert set(told) <= set(events), f"acknowledged and missing: {sorted(set(told) - set(events))[:5]}"
    assert events == sorted(set(events)), "out of order, or twice"
    numbers: dict[int, list[int]] = defaultdict(list)
    for life, number in events:
        numbers[life].append(number)
    for life, each in numbers.items():
        assert each == list(range(len(each))), f"a hole in life {life}"
    places = [place for place, _ in found]
    assert places == sorted(places), "places go back"
    assert set(places) == set(range(len(set(places)))), "a place is missing"


async def test_two_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    told = lives(tmp_path / "state", KILLS, seed=5)
    assert len({life for life, _ in told}) > KILLS // 2, "too many lives ended before they could say anything"
    check(told, await history(tmp_path / "state"))
