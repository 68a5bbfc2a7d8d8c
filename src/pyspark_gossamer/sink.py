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

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from pyspark_gossamer.source import refused

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

QUERY, BATCH, PARTITION, ROW = NAMES = "spark_query", "spark_batch", "spark_partition", "spark_row"
"""Attributes that name an event."""

CHUNK = 1000
TIMEOUT = 30.0
_QUERY_KEY = "sql.streaming.queryId"


class Rows(WriterCommitMessage):
    """What a task has to publish."""

    def __init__(self, query: str, partition: int, data: bytes) -> None:
        self.query, self.partition, self.data = query, partition, data


class Sink(DataSourceStreamArrowWriter):
    """Takes batches to a channel. Spark plans with it in a process of its own, which needs no node."""

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
        from pyspark_gossamer.publishing import packed

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(_QUERY_KEY) or ""
        return Rows(query, context.partitionId(), packed(list(iterator)))

    # on the driver

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        from pyspark_gossamer.publishing import commit

        commit(self, [each for each in messages if isinstance(each, Rows)], batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing has gone out."""


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


def _check(schema: StructType) -> None:
    kinds = {field.name: field.dataType for field in schema.fields}
    text = MapType(StringType(), StringType())
    known: dict[str, tuple[Any, ...]] = {
        "payload": (BinaryType(), StringType()),
        "attributes": (StringType(), text, MapType(StringType(), StringType(), False)),
    }
    if "payload" not in kinds:
        raise refused(f"there must be a column payload, not only {', '.join(kinds)}", key="payload")
    for name, kind in kinds.items():
        if name not in known:
            raise refused("only payload and attributes are published: put it into one of them", key=name)
        if kind not in known[name]:
            told = " or ".join(each.simpleString() for each in known[name][:2])
            raise refused(f"a column of {kind.simpleString()}; it must be {told}", key=name)


def _needed(options: Mapping[str, str], key: str) -> str:
    value = options.get(key, "")
    if not value:
        raise refused(f"say it with .option({key!r}, …)", key=key)
    return value


def _inside_checkpoint(options: Mapping[str, str]) -> str:
    place = options.get("checkpointLocation", "").removeprefix("file:")
    if not place or "://" in place:
        raise refused("name a local folder for what must survive the query", key="manifest")
    return f"{place}/gossamer"
