"""``format("gossamer")`` as Spark sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from gossamer.core.errors import ConfigError, StorageError
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.file import Channel, Publish, Scenario, Subscribe
from gossamer.simulator.scenario.run import run
from gossamer.storage import archive
from gossamer.storage.archive import SCHEMA, Archive
from gossamer.storage.log import Log
from gossamer.traces.writer import read
from pyspark_gossamer import DefaultSource
from pyspark_gossamer.source import HISTORY, MANIFEST
from pyspark_gossamer.traces import TASK_BYTES, shares
from tests.pipeline.stories import STORIES
from tests.pyspark_gossamer.frames import CHANNEL, Source, folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path)


def source(**options: str) -> DefaultSource:
    return DefaultSource(options)


def numbers(events: DataFrame) -> list[int]:
    return sorted(int(row.payload) for row in events.select("payload").collect())


# without Java


def test_a_stream_is_cut_into_batches_of_so_many_events(folder: Path) -> None:
    with Log(folder) as log:
        log.append(Source().parcels(10, events=2))
        opened = source(path=str(folder), maxRows="6")
        reader = opened.streamReader(opened.schema())
        start = reader.initialOffset()
        assert start == {"position": 0}
        assert reader.getDefaultReadLimit() == ReadMaxRows(6)
        assert reader.latestOffset(start, ReadMaxRows(6)) == {"position": 3}
        assert reader.latestOffset({"position": 3}, ReadMaxRows(1)) == {"position": 4}
        assert reader.latestOffset(start, ReadAllAvailable()) == {"position": 10}
        assert reader.latestOffset({"position": 10}, ReadMaxRows(6)) == {"position": 10}
        assert reader.partitions({"position": 4}, {"position": 4}) == []


def test_what_comes_after_available_now_was_said_is_not_part_of_it(folder: Path) -> None:
    with Log(folder) as log:
        parcels = Source()
        log.append(parcels.parcels(3))
        opened = source(path=str(folder))
        reader = opened.streamReader(opened.schema())
        reader.prepareForTriggerAvailableNow()
        log.append(parcels.parcels(3))
        assert reader.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 3}
        assert reader.latestOffset({"position": 3}, ReadAllAvailable()) == {"position": 3}
        assert reader.latestOffset({"position": 5}, ReadAllAvailable()) == {"position": 5}


@pytest.mark.parametrize(("start", "position"), [("earliest", 0), ("latest", 3), ("2", 2)])
def test_a_stream_begins_where_one_says(folder: Path, start: str, position: int) -> None:
    with Log(folder) as log:
        log.append(Source().parcels(3))
        opened = source(path=str(folder), start=start)
        assert opened.streamReader(opened.schema()).initialOffset() == {"position": position}


def test_a_checkpoint_of_another_log_is_noticed(folder: Path) -> None:
    with Log(folder) as log:
        log.append(Source().parcels(3))
        opened = source(path=str(folder))
        with pytest.raises(StorageError, match="not the log that the checkpoint is about"):
            opened.streamReader(opened.schema()).latestOffset({"position": 9}, ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "path"),
        ({"kind": "tables"}, "kind"),
        ({"missing": "ignore"}, "missing"),
        ({"maxRows": "-1"}, "maxRows"),
        ({"partitionRecords": "0"}, "partitionRecords"),
        ({"start": "now"}, "start"),
    ],
)
def test_an_option_that_cannot_be_is_named(folder: Path, options: dict[str, str], key: str) -> None:
    with Log(folder):
        path = {} if key == "path" else {"path": str(folder)}
        opened = source(**path, **options)
        with pytest.raises(ConfigError) as caught:
            opened.streamReader(StructType())
    assert caught.value.key == key


@pytest.mark.parametrize(("size", "tasks"), [(1, 2), (TASK_BYTES // 20, 2), (TASK_BYTES // 4, 10)])
def test_every_core_gets_as_many_tasks_of_traces_that_take_alike(size: int, tasks: int) -> None:
    files = [(f"{number}", size) for number in range(40)]
    found = shares(files, cores=2)
    assert [len(share) for share in found] == [40 // tasks] * tasks
    assert [name for share in found for name in share] == [name for name, _ in files]


def test_no_task_of_traces_is_empty() -> None:
    assert shares([], cores=2) == []
    assert shares([("a", 5)], cores=8) == [["a"]]
    assert shares([("a", 0)], cores=2) == [["a"]], "it cannot be read, and whoever tries says so"
    assert shares([("a", 0), ("b", 9 * TASK_BYTES), ("c", 0)], cores=2) == [["a", "b"], ["c"]]


def test_looking_for_it_and_planning_with_it_imports_nothing_of_gossamer(tmp_path: Path) -> None:
    """Spark starts processes for that, every time."""
    log, traces = tmp_path / "log", tmp_path / "traces"
    (traces / "run=x").mkdir(parents=True)
    (traces / "run=x" / "w-000001.parquet").touch()
    with Log(log):
        pass
    program = """
import sys
from pyspark.sql.types import StructType
from pyspark_gossamer import DefaultSource
print("pyarrow" in sys.modules)
log, *traces = sys.argv[1:]
for place in traces:
    print(len(DefaultSource({"path": place}).reader(StructType()).partitions()))
follower = DefaultSource({"path": log})
follower.streamReader(follower.schema())
sink = DefaultSource({"address": "x", "channel": "x", "manifest": "x"})
sink.streamWriter(StructType().add("payload", "string"), False)
print("gossamer" in sys.modules)
"""
    command = [sys.executable, "-c", program, *map(str, (log, traces, traces / "run=x"))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "1", "1", "False"]


def test_what_is_empty_has_no_rows(folder: Path, tmp_path: Path) -> None:
    """Where there is nothing to read, Spark makes a partition without a value, and reads that."""
    (tmp_path / "run=x").mkdir()
    with Log(folder):
        for place in (folder, tmp_path / "run=x"):
            opened = source(path=str(place))
            reader = opened.reader(opened.schema())
            assert list(reader.partitions()) == []
            assert list(reader.read(InputPartition(None))) == []


def test_what_the_source_says_itself_is_what_archives_say() -> None:
    assert from_arrow_schema(SCHEMA) == HISTORY
    assert MANIFEST == archive.MANIFEST


def test_a_trace_is_promised_to_have_every_value_and_one_that_has_not_is_refused(tmp_path: Path) -> None:
    table = STORIES["gap"].table()
    (tmp_path / "run=x").mkdir()
    file = tmp_path / "run=x" / "w-000001.parquet"
    opened = source(path=str(tmp_path))
    assert not any(field.nullable for field in opened.schema().fields)
    reader = opened.reader(opened.schema())
    pq.write_table(table, file)
    assert sum(batch.num_rows for batch in reader.read(InputPartition([str(file)]))) == table.num_rows
    torn = table.set_column(0, table.field(0), pa.nulls(table.num_rows, table.field(0).type))
    pq.write_table(torn, file)
    with pytest.raises(StorageError, match="without a value"):
        list(reader.read(InputPartition([str(file)])))


# with Spark


def test_a_history_is_read_without_registering_anything(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    with Log(folder) as log:
        parcels = Source()
        for _ in range(2):
            log.append(parcels.parcels(5, events=3))
            log.seal()
        place = Path(Archive(tmp_path / "archive", "b1").put(CHANNEL, log)[0]).parent
        log.trim(5)
        log.append(parcels.parcels(1))
        events = spark.read.format("gossamer").option("archive", str(place)).load(str(folder))
        assert numbers(events) == list(range(1, 32))
        assert events.filter("position >= 5").count() == 16
        assert {row.channel for row in events.select("channel").distinct().collect()} == {CHANNEL}
        assert spark.read.format("gossamer").load(str(place)).count() == 30


def test_traces_are_what_the_writer_wrote(spark: SparkSession, tmp_path: Path) -> None:
    scenario = Scenario(
        Network("line", nodes=2),
        2.0,
        name="small",
        channel=(Channel("news", "multicast"),),
        publish=(Publish("news", 20.0),),
        subscribe=(Subscribe("news"),),
    )
    result = run(scenario, 1, tmp_path)
    rows = spark.read.format("gossamer").load(str(tmp_path))
    assert rows.count() == result.rows
    assert {row.run for row in rows.select("run").distinct().collect()} == {"small-1"}
    want = read(tmp_path).to_pylist()
    assert [row.asDict() for row in rows.drop("run").orderBy("node", "position").collect()] == sorted(
        want, key=lambda row: (row["node"], row["position"])
    )
