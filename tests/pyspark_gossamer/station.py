"""A node with a channel, in a thread of its own, that keeps every parcel it hears in a log."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from gossamer import connect
from gossamer.core.parcel import Parcel, make_body
from gossamer.core.wire import encode
from gossamer.storage.log import Log
from pyspark_gossamer.history import History, batches
from pyspark_gossamer.sink import BATCH, PARTITION, QUERY, ROW

CHANNEL = "out"


class Station:
    """Use it with ``with``; ``address`` is where it listens."""

    def __init__(self, folder: Path, template: str = "reliable") -> None:
        self.folder = folder
        self.address = ""
        self._template = template
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="station")

    def __enter__(self) -> Station:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        with Log(self.folder) as log:
            async with connect(name="station", listen="tcp://127.0.0.1:0") as node:
                channel = await node.channel(CHANNEL, self._template)
                async with channel.subscribe() as events:
                    self.address = node.addresses[0]
                    self._ready.set()
                    keeping = asyncio.create_task(self._keep(events, log))
                    await self._stop.wait()
                    keeping.cancel()

    async def _keep(self, events: Any, log: Log) -> None:
        async for batch in events.batches():
            came = batch[0].parcel
            log.append([encode(Parcel(came.header, make_body(came.payloads, came.attributes)[0]))])

    def heard(self) -> list[tuple[tuple[Any, ...], bytes]]:
        """Name and payload of every event that has come, in order."""
        history = History(str(self.folder), channel=CHANNEL)
        found = []
        for piece in history.pieces(0, history.end):
            for batch in batches(CHANNEL, piece):
                for row in batch.to_pylist():
                    attributes = msgspec.json.decode(row["attributes"])
                    name = tuple(attributes.get(each) for each in (QUERY, BATCH, PARTITION, ROW))
                    found.append((name, row["payload"]))
        return found
