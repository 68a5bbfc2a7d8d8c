"""Nodes with persistent channels in small folders, and every damage that may come to the files in them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer import Channel, Node, Role, connect
from gossamer.storage.log import Log
from tests.runtime.parties import ANY_PORT, SOON, host_of, take

QUICK: dict[str, Any] = {"seats": 3, "heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}
SEGMENT = 900
COUNT = 60


@contextmanager
def small_segments() -> Iterator[None]:
    """Also a record that is summed up often: else it would have all that a log may lose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gossamer.runtime.storage._on_disk", partial(Log, segment_bytes=SEGMENT))
        patch.setattr("gossamer.consensus.disk_store.STEP", 16)
        patch.setattr("gossamer.consensus.bootstrap.TICK", 0.05)
        yield


async def fill(channel: Channel, first: int, end: int) -> None:
    """Publish numbers, a parcel each, until they are acknowledged."""
    for number in range(first, end):
        receipt = await channel.publish(b"%d" % number)
        channel.flush()
        if number % 10 == 9:  # else few batches would hold them all
            await channel.acknowledged(receipt, SOON)
    await channel.acknowledged(receipt, SOON)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def soon(condition: Callable[[], bool]) -> None:
    """Until something holds; between two looks the threads of the nodes have the processor."""
    async with asyncio.timeout(2 * SOON):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# damage


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("logs/*/*.log"))


FILES: dict[str, Callable[[Path], Path]] = {
    "database": lambda folder: folder / "state.db",
    "write-ahead log": lambda folder: folder / "state.db-wal",
    "identity": lambda folder: folder / "identity",
    "bounds": lambda folder: next(folder.glob("logs/*/bounds")),
    "first segment": lambda folder: segments(folder)[0],
    "middle segment": lambda folder: segments(folder)[1],
    "last segment": lambda folder: segments(folder)[-1],
}


def flip(path: Path, share: float) -> None:
    """Change one bit, at a share of the file's length."""
    data = bytearray(path.read_bytes())
    data[int((len(data) - 1) * share)] ^= 4
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def delete(path: Path) -> None:
    path.unlink()


def zero(path: Path) -> None:
    data = path.read_bytes()
    start = max(0, len(data) // 2 // 512 * 512 - 512)
    path.write_bytes(data[:start] + bytes(min(4096, len(data) - start)) + data[start + 4096 :])


PLAIN: dict[str, Callable[[Path], None]] = {
    "flip": partial(flip, share=2 / 3),
    "flip the first byte": partial(flip, share=0),
    "flip near the beginning": partial(flip, share=0.02),
    "flip the last byte": partial(flip, share=1),
    "truncate": truncate,
    "delete": delete,
    "zero": zero,
}
KINDS = [*PLAIN, "swap", "older"]
"""What may happen to a file: ``swap`` puts that of another node in its place, ``older`` an earlier copy."""


TOGETHER: dict[str, tuple[str, ...]] = {
    "identity and database": ("identity", "database", "write-ahead log"),
    "identity and bounds": ("identity", "bounds"),
    "identity and last segment": ("identity", "last segment"),
    "database and last segment": ("database", "write-ahead log", "last segment"),
    "bounds and last segment": ("bounds", "last segment"),
    "all but the logs' segments": ("identity", "database", "write-ahead log", "bounds"),
}
"""Files that a backup, or a disk, may lose or set back together."""
TOGETHER_KINDS = ["delete", "truncate", "swap", "older"]


class Originals(msgspec.Struct, frozen=True):
    """Folders as killed nodes leave them: one, another, and the first as it was earlier."""

    one: Path
    other: Path
    earlier: Path


def apply(kind: str, file: str, folder: Path, originals: Originals) -> None:
    """Damage a file of a folder."""
    path = FILES[file](folder)
    if kind == "swap":
        shutil.copy(FILES[file](originals.other), path)
    elif kind == "older":
        path.unlink()
        before = originals.earlier / path.relative_to(folder)
        if before.exists():
            shutil.copy(before, path)
    else:
        PLAIN[kind](path)


def contents(folder: Path, pattern: str = "*") -> dict[Path, bytes]:
    """All files of a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob(pattern) if path.is_file()}


# a single node


@asynccontextmanager
async def single(folder: Path) -> AsyncIterator[Channel]:
    async with connect(name="keeper", state=folder) as node:
        channel = await node.channel("log", template="persistent", settings={**QUICK, "seats": 1})
        yield channel


async def prepare(folder: Path, crashed: Path, earlier: Path) -> None:
    """A folder with a log of several segments, and copies of it as a killed process would leave it."""
    async with single(folder) as channel:
        for first, end, copy in ((0, COUNT - 10, earlier), (COUNT - 10, COUNT, crashed)):
            await fill(channel, first, end)
            await logged(channel, end)
            shutil.copytree(folder, copy)


async def logged(channel: Channel, count: int) -> None:
    """Until so many records are in the log of a channel, and nothing waits for the disk."""
    host = channel._host
    template: Any = host.engine.instance("log").template
    await soon(lambda: template._end == count and template._written is None)
    await soon(lambda: not host._gates.channels)


def prepared(folder: Path) -> Originals:
    """Folders to be damaged, each as a copy."""
    with small_segments():
        for name in ("one", "two"):
            asyncio.run(prepare(folder / f"{name}-closed", folder / name, folder / f"{name}-earlier"))
    return Originals(folder / "one", folder / "two", folder / "one-earlier")


async def history(channel: Channel, count: int) -> list[bytes]:
    async with channel.subscribe(from_offset=0) as events:
        return await take(events, count)


# one of three


def node(folder: Path, number: int, *at: str) -> Node:
    name = f"b{number}"
    return connect(*at, name=name, role=Role.BACKBONE, listen=ANY_PORT, state=folder / name)


def recorded(node: Node) -> int:
    """How many records the log of a node has, as its template knows."""
    template: Any = host_of(node).engine.instance("log").template
    return template._end or 0 if template._ready else 0


async def seated(nodes: list[Node]) -> None:
    """Until every node is a voter with a whole log."""
    templates: list[Any] = [host_of(each).engine.instance("log").template for each in nodes]
    contexts = [host_of(each).engine.instance("log").context for each in nodes]

    def done() -> bool:
        return all(
            template._ready and template.raft.seated(ctx)
            for template, ctx in zip(templates, contexts, strict=True)
        )

    await soon(done)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(3):
            at = [nodes[0].addresses[0]] if nodes else []
            nodes.append(await stack.enter_async_context(node(folder, number, *at)))
        for each in nodes:
            await each.channel("log", template="persistent", settings=QUICK)
        yield nodes
