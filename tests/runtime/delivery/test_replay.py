"""History over real nodes: asked for by place and time, as fast as the subscriber takes it, and archived."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from gossamer import Channel, Node, Role, connect
from gossamer.core.effect import Append, Read, Retain, Trim
from gossamer.core.errors import StorageError
from gossamer.core.names import nanoseconds
from gossamer.core.wire import encode
from gossamer.errors import BadEnvelope, ConfigError, NoAnswer, UnsupportedQoS
from gossamer.runtime.storage import Storage
from gossamer.storage.archive import Archive
from gossamer.storage.log import Log
from gossamer.testing.fake import parcel
from tests.runtime.parties import ANY_PORT, SOON, client, take, turns, until

QUICK = {"seats": 3, "heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}


@asynccontextmanager
async def backbone(folder: Path, count: int = 3) -> AsyncIterator[list[Node]]:
    """Nodes in a line, each with a state folder."""
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(count):
            at = [nodes[0].addresses[0]] if nodes else []
            node = connect(
                *at, name=f"b{number}", role=Role.BACKBONE, listen=ANY_PORT, state=folder / f"b{number}"
            )
            nodes.append(await stack.enter_async_context(node))
        yield nodes


async def fill(channel: Channel, first: int, end: int) -> None:
    """Publish numbers, a parcel each, until they are acknowledged."""
    for number in range(first, end):
        receipt = await channel.publish(b"%d" % number)
        channel.flush()
    await channel.acknowledged(receipt, SOON)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_a_client_that_comes_late_gets_the_history_and_goes_on_live(tmp_path: Path) -> None:
    async with backbone(tmp_path) as nodes:
        ours = await nodes[1].channel("log", template="persistent", settings=QUICK)
        await fill(ours, 0, 150)
        between = time.time()
        await fill(ours, 150, 200)
        async with client(nodes[2], "late") as late:
            theirs = await late.channel("log")
            async with theirs.subscribe(from_offset=0) as events:
                await fill(ours, 200, 220)
                assert await take(events, 220) == numbers(0, 220)
            async with theirs.subscribe(from_offset=170) as events:
                assert await take(events, 50) == numbers(170, 220)
            moment = datetime.fromtimestamp(between, UTC)
            async with theirs.subscribe(from_time=moment) as events:
                assert await take(events, 70) == numbers(150, 220)


async def test_a_slow_subscriber_is_not_flooded_with_history(tmp_path: Path) -> None:
    async with backbone(tmp_path, 1) as (node,):
        channel = await node.channel("log", template="persistent", settings={**QUICK, "seats": 1})
        await fill(channel, 0, 400)
        async with channel.subscribe(from_offset=0, max_pending=10) as events:
            await until(lambda: events.pending >= 10)
            await turns(200)
            assert events.pending <= 2 * 64
            assert await take(events, 400) == numbers(0, 400)


async def test_history_of_a_template_that_keeps_none_is_refused() -> None:
    async with connect() as node:
        channel = await node.channel("news", template="reliable")
        with pytest.raises(UnsupportedQoS, match="persistent"):
            channel.subscribe(from_offset=0)


@pytest.mark.parametrize("start", [{"from_offset": -1}, {"from_time": -1.0}, {"from_time": 1e12}])
async def test_a_history_that_cannot_be_is_refused(start: dict[str, float]) -> None:
    async with connect() as node:
        channel = await node.channel("log", template="persistent")
        with pytest.raises(BadEnvelope, match="history"):
            channel.subscribe(**start)  # type: ignore[arg-type]


async def test_an_acknowledgement_that_does_not_come_is_said_to_be_missing() -> None:
    async with connect() as node:
        channel = await node.channel("news", template="reliable")
        with pytest.raises(NoAnswer, match="acknowledgement of event 7 on 'news'"):
            await channel.acknowledged(7, timeout=0.01)


# the archive


async def test_sealed_segments_go_to_the_archive_and_failures_are_made_good(tmp_path: Path) -> None:
    archive, failing = Archive(tmp_path / "archive", "n"), [True]
    done: list[int] = []

    def put(channel: str, log: Log) -> None:
        if failing:
            raise StorageError("archive", "not there")
        archive.put(channel, log)

    storage = Storage(
        tmp_path,
        lambda _: "log",
        lambda channel, report: done.append(report.ticket),
        open_log=lambda folder: Log(folder, segment_bytes=200),
        archive=put,
    )
    for ticket in range(20):
        storage.request(Append(1, ticket, (encode(parcel("a", ticket + 1)),)))
        await until(lambda: done[-1:] == [ticket])  # noqa: B023
        if ticket == 10:
            assert storage.failed > 0
            failing.clear()
    await storage.close(SOON)
    with Log(next((tmp_path / "logs").iterdir())) as log:
        end = log.sealed[-1][1]
    rows = ds.dataset(tmp_path / "archive", partitioning="hive").to_table().sort_by("position")
    assert rows["position"].to_pylist() == list(range(end))
    assert end > 15


async def test_a_node_archives_where_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.runtime.storage._on_disk", partial(Log, segment_bytes=2000))
    async with connect(name="n", state=tmp_path / "state", archive=tmp_path / "archive") as node:
        channel = await node.channel("log", template="persistent", settings={**QUICK, "seats": 1})
        for first in range(0, 100, 10):
            await fill(channel, first, first + 10)
            await node.drain()  # what waits for the disk goes to one segment, however large
    rows = ds.dataset(tmp_path / "archive", partitioning="hive").to_table().sort_by("position")
    assert rows["payload"].to_pylist() == numbers(0, rows.num_rows)
    assert set(rows["node"].to_pylist()) == {"n"}
    assert rows.num_rows > 50
    assert node.drops == {}


async def test_an_archive_without_a_state_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="state folder"):
        async with connect(archive=tmp_path):
            pass


async def test_an_archive_of_an_encrypted_folder_is_refused(tmp_path: Path) -> None:
    """Archives are plain: the events would leave the folder that somebody wanted encrypted."""
    with pytest.raises(ConfigError, match="encrypted"):
        async with connect(state=tmp_path / "state", archive=tmp_path / "archive", storage_key="ab" * 32):
            pass


def holding(folder: Path, text: bytes) -> list[str]:
    """Files in which a text stands."""
    return [each.name for each in folder.rglob("*") if each.is_file() and text in each.read_bytes()]


async def test_a_node_with_another_key_is_refused(tmp_path: Path) -> None:
    async with connect(name="n", state=tmp_path, storage_key="ab" * 32) as node:
        await node.registry.set("secret/word", b"swordfish")
        channel = await node.channel("log", template="persistent", settings={**QUICK, "seats": 1})
        await fill(channel, 0, 3)
        await node.drain()
    assert not holding(tmp_path, b"swordfish")
    for key in ("cd" * 32, ""):
        with pytest.raises(StorageError, match="key"):
            async with connect(name="n", state=tmp_path, storage_key=key):
                pass
    async with connect(name="n", state=tmp_path, storage_key="ab" * 32) as node:
        assert (await node.registry.get("secret/word")) is not None


# retention


def retaining(folder: Path, done: list[int], clock: list[int], **more: Any) -> Storage:
    return Storage(
        folder,
        lambda _: "log",
        lambda channel, report: done.append(report.ticket),
        open_log=lambda where: Log(where, clock=lambda: clock[0]),
        **more,
    )


async def appended(storage: Storage, done: list[int], ticket: int) -> None:
    storage.request(Append(1, ticket, (encode(parcel("a", ticket + 1)),)))
    await until(lambda: done[-1:] == [ticket])


async def retained(storage: Storage, done: list[int]) -> None:
    """Trim what is older than a minute, and wait until that is done."""
    storage.request(Retain(1, 60.0, 0))
    storage.request(Read(1, 99, 0, 0))
    await until(lambda: done[-1:] == [99])


async def test_old_records_go_though_a_segment_is_neither_full_nor_an_hour_old(tmp_path: Path) -> None:
    done: list[int] = []
    clock = [nanoseconds(1_000_000)]
    storage = retaining(tmp_path, done, clock)
    for ticket in range(10):
        await appended(storage, done, ticket)
        clock[0] += nanoseconds(20)
        await retained(storage, done)
    clock[0] += nanoseconds(61)
    await appended(storage, done, 10)
    await retained(storage, done)
    await storage.close(SOON)
    with Log(next((tmp_path / "logs").iterdir())) as log:
        assert (log.begin, log.end) == (10, 11)


async def test_what_is_not_archived_yet_is_not_trimmed(tmp_path: Path) -> None:
    done: list[int] = []
    clock = [nanoseconds(1_000_000)]

    def put(channel: str, log: Log) -> None:
        raise StorageError("archive", "not there")

    storage = retaining(tmp_path, done, clock, archive=put)
    for ticket in range(4):
        await appended(storage, done, ticket)
        clock[0] += nanoseconds(1000)
        await retained(storage, done)
    storage.request(Trim(1, 3))
    await storage.close(SOON)
    with Log(next((tmp_path / "logs").iterdir())) as log:
        assert (log.begin, log.end) == (0, 4)


async def test_a_channel_keeps_its_history_as_long_as_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, int]] = []

    def expired(self: Log, seconds: float, size: int) -> int:
        asked.append((seconds, size))
        return 0

    monkeypatch.setattr(Log, "expired", expired)
    async with connect(name="n", state=tmp_path) as node:
        settings = {**QUICK, "seats": 1, "keep_seconds": 1.0, "keep_bytes": 1_000_000}
        channel = await node.channel("log", template="persistent", settings=settings)
        await fill(channel, 0, 3)
        await until(lambda: bool(asked))
    assert asked[0] == (1.0, 1_000_000)
