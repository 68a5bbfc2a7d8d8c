"""Every damage to every file that a node keeps: refused by name, or repaired from the other voters.

What was acknowledged is never lost in silence: a node that starts has all of it, and what it acknowledges
afterwards is there too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gossamer import Channel, Damaged, Node, Role, StorageError, connect
from gossamer.storage.log import Log

from .parties import ANY_PORT, SOON, host_of, take

QUICK: dict[str, Any] = {"seats": 3, "heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}
SEGMENT = 900
COUNT = 60


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a record that is summed up often: else it would have all that a log may lose."""
    monkeypatch.setattr("gossamer.runtime.storage._on_disk", partial(Log, segment_bytes=SEGMENT))
    monkeypatch.setattr("gossamer.overlay.vault.STEP", 16)


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


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 4
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def delete(path: Path) -> None:
    path.unlink()


def zero(path: Path) -> None:
    data = path.read_bytes()
    start = max(0, len(data) // 2 // 512 * 512 - 512)
    path.write_bytes(data[:start] + bytes(min(4096, len(data) - start)) + data[start + 4096 :])


def swap(path: Path) -> None:
    """Put a file of the same kind of another node in its place."""
    raise NotImplementedError


KINDS: dict[str, Callable[[Path], None]] = {
    "flip": flip,
    "truncate": truncate,
    "delete": delete,
    "zero": zero,
    "swap": swap,
}


def apply(kind: str, file: str, folder: Path, other: Path) -> None:
    path = FILES[file](folder)
    if kind == "swap":
        shutil.copy(FILES[file](other), path)
    else:
        KINDS[kind](path)


def cases() -> Iterator[Any]:
    for file in FILES:
        for kind in KINDS:
            yield pytest.param(file, kind, id=f"{file}: {kind}")


# a single node


@asynccontextmanager
async def single(folder: Path) -> AsyncIterator[Channel]:
    async with connect(name="keeper", state=folder) as node:
        channel = await node.channel("log", template="persistent", settings={**QUICK, "seats": 1})
        yield channel


async def prepare(folder: Path, crashed: Path) -> None:
    """A folder with a log of several segments, and a copy of it as a killed process would leave it."""
    async with single(folder) as channel:
        await fill(channel, 0, COUNT)
        host = channel._host
        template: Any = host.engine.instance("log").template
        await soon(lambda: template._end == COUNT and template._written is None)
        await soon(lambda: not host._gates.channels)
        shutil.copytree(folder, crashed)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders of nodes that were killed."""
    folder = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gossamer.runtime.storage._on_disk", partial(Log, segment_bytes=SEGMENT))
        patch.setattr("gossamer.overlay.vault.STEP", 16)
        for name in ("one", "two"):
            asyncio.run(prepare(folder / f"{name}-closed", folder / name))
    return folder / "one", folder / "two"


async def history(channel: Channel, count: int) -> list[bytes]:
    async with channel.subscribe(from_place=0) as events:
        return await take(events, count)


async def test_a_folder_that_a_killed_process_left_is_whole(
    tmp_path: Path, originals: tuple[Path, Path]
) -> None:
    folder = tmp_path / "node"
    shutil.copytree(originals[0], folder)
    assert len(segments(folder)) >= 3
    async with single(folder) as channel:
        assert await history(channel, COUNT) == numbers(0, COUNT)
        await fill(channel, COUNT, COUNT + 3)
    async with single(folder) as channel:
        assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)


@pytest.mark.parametrize(("file", "kind"), list(cases()))
async def test_a_single_node_refuses_by_name_or_has_lost_nothing(
    tmp_path: Path, originals: tuple[Path, Path], file: str, kind: str
) -> None:
    folder = tmp_path / "node"
    shutil.copytree(originals[0], folder)
    apply(kind, file, folder, originals[1])
    before = {path: path.read_bytes() for path in segments(folder)}
    try:
        async with asyncio.timeout(SOON), single(folder) as channel:
            await fill(channel, COUNT, COUNT + 3)
            assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)
        async with asyncio.timeout(SOON), single(folder) as channel:
            assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)
    except StorageError as error:
        refusal = str(error)
        assert f"gossamer log repair {folder}" in refusal
        assert str(folder) in error.file  # noqa: PT017
        assert {path: path.read_bytes() for path in segments(folder)} == before, "refused, and changed"


async def test_a_removed_log_is_refused(tmp_path: Path, originals: tuple[Path, Path]) -> None:
    folder = tmp_path / "node"
    shutil.copytree(originals[0], folder)
    shutil.rmtree(next(folder.glob("logs/*")))
    with pytest.raises(Damaged, match="were synced, and no segment is here"):
        async with single(folder):
            pass


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
            template._ready and template.council.seated(ctx)
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


THREE_CASES = [
    ("first segment", "flip"),
    ("middle segment", "delete"),
    ("last segment", "truncate"),
    ("last segment", "delete"),
    ("last segment", "swap"),
    ("bounds", "delete"),
]


@pytest.mark.parametrize(("file", "kind"), THREE_CASES)
async def test_one_voter_of_three_refills_its_log_from_the_others(
    tmp_path: Path, originals: tuple[Path, Path], file: str, kind: str
) -> None:
    async with three(tmp_path) as nodes:
        channel = await nodes[0].channel("log")
        await fill(channel, 0, COUNT)
        await seated(nodes)
        await soon(lambda: all(recorded(each) == COUNT for each in nodes))
        await nodes[2].close()
        apply(kind, file, tmp_path / "b2", originals[1])
        async with node(tmp_path, 2, nodes[0].addresses[0]) as again:
            theirs = await again.channel("log", template="persistent", settings=QUICK)
            await fill(channel, COUNT, COUNT + 5)
            await soon(lambda: recorded(again) >= COUNT + 5)
            await seated([again])
            assert await history(theirs, COUNT + 5) == numbers(0, COUNT + 5)
            assert list((tmp_path / "b2").glob("logs/*/damaged"))
    (log,) = (tmp_path / "b2").glob("logs/log-*")
    assert sum(each.stat().st_size for each in log.glob("*.log")) > 0


async def test_a_voter_that_lost_its_folder_is_another_voter_and_refills(tmp_path: Path) -> None:
    async with three(tmp_path) as nodes:
        channel = await nodes[0].channel("log")
        await fill(channel, 0, COUNT)
        await seated(nodes)
        old = (
            host_of(nodes[2])
            .engine.instance("log")
            .template.council.life(  # type: ignore[attr-defined]
                host_of(nodes[2]).engine.instance("log").context
            )
        )
        await nodes[2].close()
        shutil.rmtree(tmp_path / "b2")
        async with node(tmp_path, 2, nodes[0].addresses[0]) as again:
            theirs = await again.channel("log", template="persistent", settings=QUICK)
            await fill(channel, COUNT, COUNT + 5)
            await seated([again])
            template: Any = host_of(again).engine.instance("log").template
            assert template.council.life(host_of(again).engine.instance("log").context) > old
            await soon(lambda: recorded(again) >= COUNT + 5)
            assert await history(theirs, COUNT + 5) == numbers(0, COUNT + 5)
