"""The sink, with a real node to publish to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StringType, StructField, StructType

from gossamer.core.errors import CannotConnect, ConfigError, StorageError, UnknownChannel
from gossamer.storage.log import Log
from pyspark_gossamer.manifest import Progress, SinkManifest
from pyspark_gossamer.publishing import numbered, packed
from pyspark_gossamer.sink import Rows, Sink, once
from tests.pyspark_gossamer.frames import Source, folder_of
from tests.pyspark_gossamer.station import CHANNEL, Station

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {"binary": BinaryType(), "string": StringType(), "int": IntegerType(), "double": DoubleType()}


def shape(columns: str) -> StructType:
    """``payload binary, price double``."""
    pairs = [each.split() for each in columns.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in pairs])


SCHEMA = shape("payload binary")


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    with Station(tmp_path / "station") as running:
        yield running


def sink(station: Station, tmp_path: Path, **options: str) -> Sink:
    given = {"address": station.address, "channel": CHANNEL, "manifest": str(tmp_path / "manifest")}
    return Sink({**given, **options}, SCHEMA)


def rows(partition: int, *payloads: bytes, query: str = "q") -> Rows:
    return Rows(query, partition, packed([pa.RecordBatch.from_pydict({"payload": list(payloads)})]))


def expected(batch: int, *partitions: list[bytes], query: str = "q") -> list[tuple[tuple[Any, ...], bytes]]:
    return [
        ((query, batch, partition, row), payload)
        for partition, payloads in enumerate(partitions)
        for row, payload in enumerate(payloads)
    ]


# without Java


def test_a_batch_goes_out_in_order_and_every_event_has_a_name(station: Station, tmp_path: Path) -> None:
    sink(station, tmp_path).commit([rows(1, b"c"), rows(0, b"a", b"b"), None], 0)
    assert station.heard() == expected(0, [b"a", b"b"], [b"c"])


def test_a_batch_that_comes_again_goes_out_once(station: Station, tmp_path: Path) -> None:
    for batch in (0, 0, 1, 0, 1):
        sink(station, tmp_path).commit([rows(0, b"%d" % batch)], batch)
    assert station.heard() == [*expected(0, [b"0"]), *expected(1, [b"1"])]


def test_a_batch_that_was_cut_short_is_finished_as_it_was_begun(station: Station, tmp_path: Path) -> None:
    with SinkManifest(tmp_path / "manifest", "q") as manifest:
        manifest.prepare(0, numbered([rows(0, b"a", b"b", b"c")]), 0)
        manifest.advance(Progress(0, 1, 0))
    sink(station, tmp_path).commit([rows(0, b"c", b"a", b"b")], 0)
    assert station.heard() == expected(0, [b"a", b"b", b"c"])[1:]


def test_what_the_channels_log_has_already_is_not_repeated(station: Station, tmp_path: Path) -> None:
    sink(station, tmp_path).commit([rows(0, b"a", b"b")], 0)
    with SinkManifest(tmp_path / "manifest", "q") as manifest:
        manifest.commit(-1, 0)  # as if it had been killed before it could commit
        manifest.prepare(0, numbered([rows(0, b"a", b"b", b"c")]), 0)
    sink(station, tmp_path, history=str(station.folder)).commit([rows(0, b"x")], 0)
    assert station.heard() == expected(0, [b"a", b"b", b"c"])


def test_more_than_a_chunk_takes_several(station: Station, tmp_path: Path) -> None:
    payloads = [b"%d" % number for number in range(25)]
    sink(station, tmp_path, chunk="10").commit([rows(0, *payloads)], 0)
    assert station.heard() == expected(0, payloads)
    with SinkManifest(tmp_path / "manifest", "q") as manifest:
        assert manifest.committed.events == 25
        assert manifest.progress(0).confirmed == 25


def test_attributes_are_json_or_a_map(station: Station, tmp_path: Path) -> None:
    table = pa.RecordBatch.from_pydict({"payload": [b"a"], "attributes": ['{"price": 1.5}']})
    pairs = pa.RecordBatch.from_arrays(
        [pa.array(["b"]), pa.array([[("kind", "x")]], pa.map_(pa.string(), pa.string()))],
        ["payload", "attributes"],
    )
    sink(station, tmp_path).commit([Rows("q", 0, packed([table])), Rows("q", 1, packed([pairs]))], 0)
    assert station.heard() == expected(0, [b"a"], [b"b"])


def test_a_batch_without_rows_is_a_batch(station: Station, tmp_path: Path) -> None:
    sink(station, tmp_path).commit([], 0)
    sink(station, tmp_path).commit([Rows("q", 0, b"")], 1)
    assert station.heard() == []
    with SinkManifest(tmp_path / "manifest", "q") as manifest:
        assert manifest.committed.batch == 1


def test_another_query_may_not_go_on_with_the_folder(station: Station, tmp_path: Path) -> None:
    sink(station, tmp_path).commit([rows(0, b"a")], 0)
    with pytest.raises(StorageError, match="belongs to query q"):
        sink(station, tmp_path).commit([rows(0, b"a", query="r")], 0)


def test_a_batch_that_cannot_be_published_is_not_committed(station: Station, tmp_path: Path) -> None:
    with pytest.raises(UnknownChannel):
        sink(station, tmp_path, channel="elsewhere").commit([rows(0, b"a")], 0)
    with pytest.raises(CannotConnect):
        sink(station, tmp_path, address="tcp://127.0.0.1:1").commit([rows(0, b"a")], 0)
    sink(station, tmp_path).commit([rows(0, b"a")], 0)
    assert station.heard() == expected(0, [b"a"])


@pytest.mark.parametrize(
    ("schema", "options", "key"),
    [
        ("payload binary", {"channel": ""}, "channel"),
        ("payload binary", {"address": ""}, "address"),
        ("payload binary", {"manifest": ""}, "manifest"),
        ("payload int", {}, "payload"),
        ("body binary", {}, "payload"),
        ("payload string, attributes int", {}, "attributes"),
        ("payload string, price double", {}, "price"),
    ],
)
def test_what_cannot_be_published_is_said_before_anything_runs(
    schema: str, options: dict[str, str], key: str
) -> None:
    given = {"address": "tcp://127.0.0.1:1", "channel": "x", "manifest": "m", **options}
    with pytest.raises(ConfigError) as caught:
        Sink(given, shape(schema))
    assert caught.value.key == key


def test_the_manifest_is_in_the_checkpoint_if_nobody_says_where(tmp_path: Path) -> None:
    given = {"address": "tcp://127.0.0.1:1", "channel": "x", "checkpointLocation": f"file:{tmp_path}"}
    assert Sink(given, SCHEMA).folder == f"{tmp_path}/gossamer"


# with Spark


def test_once_drops_what_a_sink_repeated_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    named = {"spark_query": "q", "spark_batch": 0, "spark_partition": 0}
    with Log(folder) as log:
        source = Source()
        for row in (0, 1, 1, 2, 0):
            log.append(source.parcel(b"%d" % row, attributes={**named, "spark_row": row}))
        log.append(source.parcel(b"other"))
        log.append(source.parcel(b"other"))
        events = spark.read.format("gossamer").load(str(folder))
        found = sorted(bytes(row.payload) for row in once(events).collect())
    assert found == [b"0", b"1", b"2", b"other", b"other"]
