"""The sink: micro-batches of a query as events of a channel of a running node.

::

    events.writeStream.format("gossamer").option("address", "tcp://…").option("channel", "orders")
        .option("checkpointLocation", …).start()

The rows need a column ``payload`` (binary or text) and may have ``attributes`` (JSON, or a map of texts).
Every event carries attributes of its own besides: ``spark_query``, ``spark_batch``, ``spark_partition`` and
``spark_row`` name it for ever.

Promises: tasks publish nothing, so that a task that is run twice changes nothing. When all tasks of a batch
are done, the driver writes the batch down, publishes it, waits until every event has come back to a second
client of the same node, publishes again what did not, and commits. A batch that was committed is skipped
when Spark comes with it again. If the driver is killed in between, the next one goes on behind the last event
that was seen to arrive, so at most ``chunk`` events can go out twice, with the same four attributes. With
``history`` it looks there first and repeats none that is there; ``once`` drops the others when they are read.

Options:

address, channel
    Where to. The channel must exist, or ``template`` says what to make it from.
manifest
    A folder for what must survive; inside the checkpoint if that is a local folder.
history
    The folder of the channel's log, if it is a persistent one and the driver can read it.
chunk
    Events on the way at a time, 1000 if not said.
timeout
    Seconds without any arrival after which a batch fails, 30 if not said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from gossamer.core.errors import ConfigError, NoAnswer, UnknownChannel
from gossamer.core.event import Criteria, Envelope
from gossamer.runtime.channel import Channel
from gossamer.runtime.node import Node, connect, run
from pyspark_gossamer.history import History, batches
from pyspark_gossamer.manifest import Progress, SinkManifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY, BATCH, PARTITION, ROW = NAMES = "spark_query", "spark_batch", "spark_partition", "spark_row"
"""Attributes that name an event."""

CHUNK = 1000
TIMEOUT = 30.0
REPEAT = 2.0
"""Seconds without any arrival after which what is missing is published again."""
_EVENTS = pa.schema(
    [("partition", pa.int64()), ("row", pa.int64()), ("payload", pa.binary()), ("attributes", pa.string())]
)
_QUERY_KEY = "sql.streaming.queryId"

Name = tuple[int, int]
"""Partition and row."""


class Rows(WriterCommitMessage):
    """What a task has to publish."""

    def __init__(self, query: str, partition: int, data: bytes) -> None:
        self.query, self.partition, self.data = query, partition, data


class Sink(DataSourceStreamArrowWriter):
    """Takes batches to a channel."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        _check(schema)
        self.address = _needed(options, "address")
        self.channel = _needed(options, "channel")
        self.template = options.get("template", "")
        self.history = options.get("history", "")
        self.folder = options.get("manifest", "") or _inside_checkpoint(options)
        self.chunk = int(options.get("chunk", CHUNK))
        self.timeout = float(options.get("timeout", TIMEOUT))

    # on the workers

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(_QUERY_KEY) or ""
        return Rows(query, context.partitionId(), _packed(list(iterator)))

    # on the driver

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        rows = sorted((each for each in messages if isinstance(each, Rows)), key=lambda each: each.partition)
        if not rows:
            return
        with SinkManifest(self.folder, rows[0].query) as manifest:
            if batchId <= manifest.committed.batch:
                return
            events = manifest.prepared(batchId)
            if events is None:
                events = _numbered(rows)
                manifest.prepare(batchId, events, self._look())
            self._publish(manifest, rows[0].query, batchId, events)
            manifest.commit(batchId, events.num_rows)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing has gone out."""

    def _look(self) -> int:
        return History(self.history).end if self.history else 0

    def _publish(self, manifest: SinkManifest, query: str, batch: int, events: pa.Table) -> None:
        progress = manifest.progress(batch)
        there = arrived(self.history, query, batch, progress.position) if self.history else set()
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
            run(publish(self, query, batch, left, confirmed))


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
            await channel.wait_matching(sink.timeout)
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


def once(events: DataFrame) -> DataFrame:
    """Events as they were read from a history, without those that a sink has published a second time.

    On a stream, Spark keeps the name of every event that a sink has published.
    """
    names = [f.get_json_object("attributes", f"$.{name}").alias(name) for name in NAMES]
    other = f.concat_ws("/", "source", "source_incarnation", "first")
    which = f.when(f.get_json_object("attributes", f"$.{QUERY}").isNull(), other).otherwise(
        f.concat_ws("/", *names)
    )
    return events.withColumn("_name", which).dropDuplicates(["_name"]).drop("_name")


# rows and options


def _packed(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    if batches:
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _numbered(messages: Sequence[Rows]) -> pa.Table:
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


def _check(schema: StructType) -> None:
    kinds = {field.name: field.dataType for field in schema.fields}
    text = MapType(StringType(), StringType())
    known: dict[str, tuple[Any, ...]] = {
        "payload": (BinaryType(), StringType()),
        "attributes": (StringType(), text, MapType(StringType(), StringType(), False)),
    }
    if "payload" not in kinds:
        raise ConfigError(f"there must be a column payload, not only {', '.join(kinds)}", key="payload")
    for name, kind in kinds.items():
        if name not in known:
            raise ConfigError("only payload and attributes are published: put it into one of them", key=name)
        if kind not in known[name]:
            told = " or ".join(each.simpleString() for each in known[name][:2])
            raise ConfigError(f"a column of {kind.simpleString()}; it must be {told}", key=name)


def _needed(options: Mapping[str, str], key: str) -> str:
    value = options.get(key, "")
    if not value:
        raise ConfigError(f"say it with .option({key!r}, …)", key=key)
    return value


def _inside_checkpoint(options: Mapping[str, str]) -> str:
    place = options.get("checkpointLocation", "").removeprefix("file:")
    if not place or "://" in place:
        raise ConfigError("name a local folder for what must survive the query", key="manifest")
    return f"{place}/gossamer"
