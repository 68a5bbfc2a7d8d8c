"""How a batch of a sink goes out: written down, published, seen to arrive, committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from gossamer.core.errors import NoAnswer, UnknownChannel
from gossamer.core.event import Criteria, Envelope
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.node import Node, connect, run
from pyspark_gossamer.history import History, batches
from pyspark_gossamer.manifest import Progress, SinkManifest
from pyspark_gossamer.sink import BATCH, NAMES, PARTITION, QUERY, ROW, Rows, Sink

REPEAT = 2.0
"""Seconds without any arrival after which what is missing is published again."""
_EVENTS = pa.schema(
    [("partition", pa.int64()), ("row", pa.int64()), ("payload", pa.binary()), ("attributes", pa.string())]
)

Name = tuple[int, int]
"""Partition and row."""


def commit(sink: Sink, messages: Sequence[Rows], batch: int) -> None:
    """Publish what the tasks of a batch brought, unless that was done before."""
    rows = sorted(messages, key=lambda each: each.partition)
    if not rows:
        return
    with SinkManifest(sink.folder, rows[0].query) as manifest:
        if batch <= manifest.committed.batch:
            return
        events = manifest.prepared(batch)
        if events is None:
            events = numbered(rows)
            manifest.prepare(batch, events, History(sink.history).end if sink.history else 0)
        _publish(sink, manifest, rows[0].query, batch, events)
        manifest.commit(batch, events.num_rows)


def _publish(sink: Sink, manifest: SinkManifest, query: str, batch: int, events: pa.Table) -> None:
    progress = manifest.progress(batch)
    there = arrived(sink.history, query, batch, progress.position) if sink.history else set()
    left = [
        (name, payload, attributes)
        for name, payload, attributes in named(events.slice(progress.confirmed), query, batch)
        if name not in there
    ]
    done = events.num_rows - len(left)

    def confirmed(count: int) -> None:
        # what was left out before is not in order: only a plain rest can be counted on
        if not there:
            manifest.advance(Progress(batch, done + count, progress.position))

    if left:
        run(publish(sink, query, batch, left, confirmed))


Item = tuple[Name, bytes, dict[str, Any]]


def named(events: pa.Table, query: str, batch: int) -> Iterator[Item]:
    """Name, payload and attributes of each event of a batch."""
    columns = [events.column(name).to_pylist() for name in ("partition", "row", "payload", "attributes")]
    for partition, row, payload, attributes in zip(*columns, strict=True):
        own = dict(zip(NAMES, (query, batch, partition, row), strict=True))
        yield (
            (partition, row),
            payload,
            {**msgspec.json.decode(attributes or "{}", type=dict[str, Any]), **own},
        )


def arrived(history: str, query: str, batch: int, position: int) -> set[Name]:
    """Which events of a batch a channel's log has."""
    opened = History(history)
    found: set[Name] = set()
    for piece in opened.pieces(position, opened.end, skip=True):
        for rows in batches(opened.channel, piece):
            for text in rows.column("attributes").to_pylist():
                attributes = msgspec.json.decode(text)
                if attributes.get(QUERY) == query and attributes.get(BATCH) == batch:
                    found.add((attributes[PARTITION], attributes[ROW]))
    return found


async def publish(
    sink: Sink, query: str, batch: int, items: Sequence[Item], confirmed: Callable[[int], None]
) -> None:
    """Publish events, some at a time, and wait until a second client of the node has received each."""
    async with connect(sink.address) as node, connect(sink.address) as witness:
        channel = await _open(node, sink.channel, sink.template)
        back = await _open(witness, sink.channel, sink.template)
        wanted = Criteria((QUERY, "=", query), (BATCH, "=", batch))
        async with back.subscribe(wanted, max_pending=2 * sink.chunk) as seen:
            await channel.wait_for_subscribers(sink.timeout)
            for first in range(0, len(items), sink.chunk):
                missing: dict[Any, Item] = {item[0]: item for item in items[first : first + sink.chunk]}
                await _go_out(channel, missing)
                silent = 0.0
                while missing:
                    try:
                        event = await seen.next(timeout=REPEAT)
                    except NoAnswer:
                        silent += REPEAT
                        if silent >= sink.timeout:
                            raise NoAnswer(
                                f"{len(missing)} events of batch {batch} on {sink.channel!r}", silent
                            ) from None
                        await _go_out(channel, missing)
                        continue
                    name = (event.attributes[PARTITION], event.attributes[ROW])
                    if missing.pop(name, None) is not None:
                        silent = 0.0
                confirmed(min(first + sink.chunk, len(items)))


async def _go_out(channel: Channel, items: Mapping[Name, Item]) -> None:
    for _, payload, attributes in items.values():
        await channel.publish(payload, Envelope(attributes))
    await channel.drain()


async def _open(node: Node, name: str, template: str) -> Channel:
    try:
        return await node.channel(name)
    except UnknownChannel:
        if not template:
            raise
        return await node.channel(name, template)


def packed(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    if batches:
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def numbered(messages: Sequence[Rows]) -> pa.Table:
    """All rows of a batch with their names, attributes as JSON and payloads as bytes."""
    tables = [_EVENTS.empty_table()]
    for message in messages:
        if not message.data:
            continue
        table = pa.ipc.open_stream(pa.BufferReader(message.data)).read_all()
        attributes: list[str | None] = [None] * table.num_rows
        if "attributes" in table.column_names:
            attributes = [_json(each) for each in table.column("attributes").to_pylist()]
        tables.append(
            pa.Table.from_arrays(
                [
                    pa.array([message.partition] * table.num_rows, pa.int64()),
                    pa.array(range(table.num_rows), pa.int64()),
                    table.column("payload").cast(pa.binary()).fill_null(b""),
                    pa.array(attributes, pa.string()),
                ],
                schema=_EVENTS,
            )
        )
    return pa.concat_tables(tables).combine_chunks()


def _json(attributes: Any) -> str | None:
    """Attributes as a column has them: JSON, or the pairs of a map."""
    if attributes is None or isinstance(attributes, str):
        return attributes
    return msgspec.json.encode(dict(attributes)).decode()
