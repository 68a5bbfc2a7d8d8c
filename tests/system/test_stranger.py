"""A stranger with valid frames and hostile numbers against a node that is a process of its own: its memory
stays bounded, channels of honest clients go on, and it stops when it is asked to.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gossamer
from gossamer.consensus.messages import AppendEntries, InstallSnapshot, NoSuchLog
from gossamer.core.control import Control, Message
from gossamer.core.effect import Effect, Send
from gossamer.core.names import channel_id
from gossamer.templates.reliable.messages import Have, Missing
from gossamer.testing.fake import parcel
from tests.system.programs import CLEAN_END, Program
from tests.system.programs import gossamer as command

HUGE = 2**62
MEMORY = 64 * 1024
"""Kilobytes by which a node may grow."""


def memory(node: Program) -> int:
    """Kilobytes that a process has in memory."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def started(state: Path) -> tuple[Program, str]:
    node = command("up", "--name", "b1", "--listen", "tcp://127.0.0.1:0", "--state", str(state), "--json")
    return node, node.json()["listen"][0]


async def honest(address: str, template: str, *numbers: int) -> None:
    """Publish and read: all of it comes, in order and once, and is acknowledged."""
    got: list[int] = []
    reader, writer = gossamer.connect(address), gossamer.connect(address)
    async with reader, writer:
        heard = await reader.channel("news", template=template)
        news = await writer.channel("news", template=template)
        async with heard.subscribe() as stream:
            await news.wait_for_subscribers(30)
            for number in numbers:
                await news.publish(b"%d" % number)
            async with asyncio.timeout(30):
                while numbers[-1] not in got:
                    got.append(int((await anext(stream)).payload))
            await news.acknowledged(len(numbers), timeout=30)
    assert [each for each in got if each >= numbers[0]] == list(numbers)


async def attack(address: str, template: str, messages: list[Message]) -> None:
    """Say all of it, and two parcels, as a client that takes part in the channel."""
    async with gossamer.connect(address, name="stranger") as stranger:
        channel = await stranger.channel("news", template=template)
        async with channel.subscribe():
            await asyncio.sleep(0.5)  # it has to be known as a member
            host = stranger._running
            life = host.engine.incarnation
            items = [Control(channel_id("news"), each) for each in messages]
            forged = [
                parcel("b1/stranger", number, 1, channel="news", incarnation=life) for number in (1, HUGE)
            ]
            effects: list[Effect] = [Send(("b1",), item) for item in (*items, *forged)]
            for effect in effects:
                try:
                    host.do([effect])
                    await asyncio.sleep(0.1)
                except gossamer.GossamerError:
                    break


def messages(template: str, life: int) -> list[Message]:
    own = [
        Have("b1/stranger", life, 1, HUGE),
        Have("b1/stranger", life, HUGE, HUGE),
        Missing("b1/stranger", life, ((1, HUGE),)),
        Have("b1/stranger", HUGE, 1, 1),
    ]
    last = (2**63 - 1, "stranger")
    letter = ("b1", "stranger", life, last, 1)
    forged: list[Message] = [
        InstallSnapshot(*letter, HUGE, 1, (("stranger", life),), (), HUGE),
        AppendEntries(*letter, HUGE, 1, (), HUGE, HUGE),
    ]
    soon = (life * 10**6 + 3600 * 10**9, "zz")  # an hour ahead: a history that could be true
    for history in (soon, (life * 10**6, "b1")):
        letter = ("b1", "stranger", life, history, 1)
        forged += [
            NoSuchLog(*letter),
            AppendEntries(*letter, life * 10**6, 1, (), HUGE, HUGE),
            InstallSnapshot(*letter, life * 10**6, 1, (("stranger", life),), (), 3),
        ]
    return [*own, *(forged if template in ("total-order", "persistent") else [])]


@pytest.fixture
async def life() -> AsyncIterator[int]:
    async with gossamer.connect(name="clock") as node:
        yield node._running.engine.incarnation


@pytest.mark.parametrize("template", ["reliable", "persistent"])
async def test_hostile_numbers_neither_freeze_a_process_nor_stop_its_channels(
    template: str, tmp_path: Path, life: int
) -> None:
    node, address = started(tmp_path)
    with node:
        await honest(address, template, *range(5))
        before = memory(node)
        await attack(address, template, messages(template, life))
        await honest(address, template, *range(5, 25))
        assert memory(node) < before + MEMORY
        assert node.stop(signal.SIGTERM) == 0
    node, address = started(tmp_path)
    with node:
        await honest(address, template, *range(25, 28))
        async with gossamer.connect(address) as reader:
            if template == "persistent":
                ledger = await reader.channel("news", template=template)
                async with ledger.subscribe(from_offset=0) as stream, asyncio.timeout(CLEAN_END + 25):
                    kept = [int((await anext(stream)).payload) for _ in range(28)]
                assert kept == list(range(28))
