"""Storage of a node: off the event loop, in order, bounded, on disk if there is a state folder."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gossamer import connect
from gossamer.core.context import Context
from gossamer.core.effect import Append, Appended, History, Read, Report, Trim
from gossamer.core.errors import DiskFull
from gossamer.core.names import channel_id
from gossamer.core.template import Settings, Template
from gossamer.runtime.storage import Storage
from gossamer.storage.log import Log
from gossamer.storage.memory import MemoryLog
from gossamer.storage.segment import MAX_RECORD


class Desk:
    """Takes reports and waits for them."""

    def __init__(self, folder: str | Path = "", **options: Any) -> None:
        self.reports: list[tuple[int, Report]] = []
        self.threads: set[int] = set()
        self._came = asyncio.Event()
        self.storage = Storage(folder, lambda channel: f"name/{channel}", self.take, **options)

    def take(self, channel: int, report: Report) -> None:
        self.reports.append((channel, report))
        self.threads.add(threading.get_ident())
        self._came.set()

    async def have(self, count: int) -> list[Report]:
        while len(self.reports) < count:
            self._came.clear()
            await self._came.wait()
        return [report for _, report in self.reports]

    async def close(self) -> None:
        await self.storage.close(10)


class Gated(MemoryLog):
    """A log whose disk does nothing until the gate opens; notes what reaches it, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.groups: list[int] = []
        self.threads: set[int] = set()
        self.failure: Exception | None = None
        self.closed = False

    def append(self, records: Iterable[bytes]) -> int:
        self.entered.set()
        self.gate.wait()
        self.threads.add(threading.get_ident())
        found = list(records)
        if self.failure is not None:
            raise self.failure
        self.groups.append(len(found))
        return super().append(found)

    def close(self) -> None:
        self.closed = True


async def test_reports_come_on_the_loop_in_the_order_of_the_requests() -> None:
    desk = Desk()
    desk.storage.request(Append(1, 10, (b"a", b"b")))
    desk.storage.request(Append(2, 11, (b"x",)))
    desk.storage.request(Read(1, 12, 0, 9))
    desk.storage.request(Append(1, 13, (b"c",)))
    desk.storage.request(Trim(1, 2))
    desk.storage.request(Read(1, 14, 0, 9))
    assert desk.reports == []
    assert await desk.have(5) == [
        Appended(10, 2),
        Appended(11, 1),
        History(12, 0, (b"a", b"b"), 0, 2),
        Appended(13, 3),
        History(14, 2, (b"c",), 2, 3),
    ]
    assert [channel for channel, _ in desk.reports] == [1, 2, 1, 1, 1]
    assert desk.threads == {threading.get_ident()}
    await desk.close()


async def test_the_loop_turns_while_the_disk_hangs_and_what_waits_shares_one_append() -> None:
    gated = Gated()
    desk = Desk("unused", open_log=lambda folder: gated)
    desk.storage.request(Append(1, 0, (b"first",)))
    await asyncio.to_thread(gated.entered.wait)
    for ticket in range(1, 51):
        desk.storage.request(Append(1, ticket, (b"x", b"y")))
    await asyncio.sleep(0)
    assert desk.reports == []
    assert desk.storage.waiting == len(b"first") + 100
    gated.gate.set()
    reports = await desk.have(51)
    assert reports == [Appended(0, 1), *(Appended(ticket, 1 + 2 * ticket) for ticket in range(1, 51))]
    assert gated.groups == [1, 100]
    assert threading.get_ident() not in gated.threads
    assert desk.storage.waiting == 0
    await desk.close()


async def test_an_append_that_finds_no_room_is_reported_in_its_turn_and_not_carried_out() -> None:
    gated = Gated()
    desk = Desk("unused", open_log=lambda folder: gated, max_bytes=10)
    desk.storage.request(Append(1, 0, (b"123456789012",)))
    desk.storage.request(Append(1, 1, (b"x",)))
    gated.gate.set()
    first, second = await desk.have(2)
    assert first == Appended(0, 1)
    assert isinstance(second, Appended)
    assert second.ticket == 1
    assert "full (limit 10)" in second.error
    desk.storage.request(Append(1, 2, (b"y",)))
    assert (await desk.have(3))[2] == Appended(2, 2)
    await desk.close()


async def test_too_many_requests_are_refused_too() -> None:
    gated = Gated()
    desk = Desk("unused", open_log=lambda folder: gated, max_requests=2)
    desk.storage.request(Append(1, 0, (b"x",)))
    await asyncio.to_thread(gated.entered.wait)
    for ticket in (1, 2, 3):
        desk.storage.request(Append(1, ticket, (b"x",)))
    desk.storage.request(Read(1, 4, 0, 9))
    gated.gate.set()
    reports = await desk.have(5)
    assert [report.ticket for report in reports] == [0, 1, 2, 3, 4]
    assert [bool(report.error) for report in reports] == [False, False, False, True, True]
    await desk.close()


async def test_a_failed_append_is_reported_with_its_reason_and_the_position_that_is_still_free(
    caplog,
) -> None:
    gated = Gated()
    gated.gate.set()
    desk = Desk("unused", open_log=lambda folder: gated)
    desk.storage.request(Append(1, 0, (b"x",)))
    await desk.have(1)
    gated.failure = DiskFull("00.log", "writing failed")
    with caplog.at_level(logging.CRITICAL, "gossamer"):
        desk.storage.request(Append(1, 1, (b"y",)))
        assert (await desk.have(2))[1] == Appended(1, 1, str(gated.failure), gated.failure)
        gated.failure = RuntimeError("a bug")
        desk.storage.request(Append(1, 2, (b"y",)))
        assert (await desk.have(3))[2] == Appended(2, 1, "RuntimeError('a bug')")
    gated.failure = None
    desk.storage.request(Append(1, 3, (b"y",)))
    assert (await desk.have(4))[3] == Appended(3, 2)
    await desk.close()


async def test_a_record_over_the_limit_fails_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.storage.request(Append(1, 0, (b"x",)))
    desk.storage.request(Append(1, 1, (bytes(MAX_RECORD + 1),)))
    desk.storage.request(Append(1, 2, (b"y",)))
    first, second, third = await desk.have(3)
    assert (first, third) == (Appended(0, 1), Appended(2, 2))
    assert isinstance(second, Appended)
    assert "limit" in second.error
    await desk.close()


async def test_closing_finishes_and_reports_what_waits_and_takes_nothing_more() -> None:
    gated = Gated()
    desk = Desk("unused", open_log=lambda folder: gated)
    for ticket in range(10):
        desk.storage.request(Append(1, ticket, (b"x",)))
    closing = asyncio.ensure_future(desk.close())
    await asyncio.sleep(0)
    desk.storage.request(Append(1, 99, (b"late",)))
    gated.gate.set()
    await closing
    assert [report.ticket for _, report in desk.reports] == list(range(10))
    assert gated.closed
    assert gated.end == 10


async def test_closing_does_not_wait_for_ever_for_a_disk_that_hangs(caplog) -> None:
    gated = Gated()
    desk = Desk("unused", open_log=lambda folder: gated)
    desk.storage.request(Append(1, 0, (b"x",)))
    with caplog.at_level(logging.CRITICAL, "gossamer"):
        await desk.storage.close(0.01)
    assert desk.reports == []
    gated.gate.set()
    await desk.have(1)


async def test_a_node_that_stores_nothing_has_no_thread(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.close()
    assert desk.storage._thread is None
    assert os.listdir(tmp_path) == []


async def test_the_folder_of_a_channel_says_its_name_and_number(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.storage.request(Append(255, 0, (b"x",)))
    await desk.have(1)
    await desk.close()
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["name_255-00000000000000ff"]
    with Log(tmp_path / "logs" / "name_255-00000000000000ff") as log:
        assert log.read(0, 9) == (0, [b"x"])


async def test_a_folder_that_another_node_uses_is_an_error_report(tmp_path: Path, caplog) -> None:
    one, other = Desk(tmp_path), Desk(tmp_path)
    one.storage.request(Append(1, 0, (b"x",)))
    await one.have(1)
    with caplog.at_level(logging.CRITICAL, "gossamer"):
        other.storage.request(Append(1, 0, (b"x",)))
        other.storage.request(Read(1, 1, 0, 9))
        reports = await other.have(2)
    assert all("another folder" in report.error for report in reports)
    await one.close()
    other.storage.request(Read(1, 2, 0, 9))
    assert (await other.have(3))[2] == History(2, 0, (b"x",), 0, 1)
    await other.close()


class Keeper(Template[Settings]):
    """Asks its log for what it is called for, and replies with the report."""

    name = "keeper"

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if isinstance(request, bytes):
            ctx.append(call, [request])
        else:
            ctx.read(call, request, 100)

    def on_report(self, ctx: Context, report: Report) -> None:
        ctx.reply(report.ticket, report)


async def test_a_node_finds_its_log_again_after_a_restart(tmp_path: Path) -> None:
    for life in range(3):
        node = connect(name="n", state=tmp_path / "state")
        node.templates = {**node.templates, "keeper": Keeper}
        async with node:
            await node.channel("c", "keeper")
            host = node._host
            assert host is not None
            appended = await host.ask("c", b"life %d" % life)
            assert (appended.position, appended.error) == (life + 1, "")
            history = await host.ask("c", 0)
        assert history.records == tuple(b"life %d" % each for each in range(life + 1))
    assert [path.name for path in (tmp_path / "state" / "logs").iterdir()] == [f"c-{channel_id('c'):016x}"]


async def test_without_a_state_folder_a_log_works_and_ends_with_its_node() -> None:
    for _ in range(2):
        node = connect(name="n")
        node.templates = {**node.templates, "keeper": Keeper}
        async with node:
            await node.channel("c", "keeper")
            assert node._host is not None
            await node._host.ask("c", b"x")
            assert (await node._host.ask("c", 0)).records == (b"x",)


async def test_an_append_that_waited_while_its_log_was_repaired_is_refused() -> None:
    desk = Desk()
    desk.storage.request(Append(1, 0, (b"a", b"b"), 0))
    desk.storage.request(Append(1, 1, (b"x",), 7))
    desk.storage.request(Append(1, 2, (b"c",), 2))
    reports = await desk.have(3)
    assert [(each.position, bool(each.error)) for each in reports] == [(2, False), (2, True), (3, False)]
    await desk.close()
