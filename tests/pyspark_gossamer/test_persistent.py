"""The history of a real persistent channel: read, followed, and held against what the channel promised."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gossamer import Role, connect
from gossamer.consensus import bootstrap as bootstrap
from gossamer.core import trace
from gossamer.pipeline.audit.auditing import audit
from gossamer.pipeline.reading import survey
from pyspark_gossamer.history import History
from tests.pyspark_gossamer.frames import folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANNEL, RUN = "orders", "kept"
SETTINGS = {"seats": 1, "heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}
PATIENCE = 30.0

pytestmark = pytest.mark.xdist_group("spark")  # one first life for all


async def life(folder: Path, first: int, end: int) -> None:
    """A node that publishes numbers on its persistent channel, hears them, and goes."""
    node = connect(
        name="keeper",
        role=Role.BACKBONE,
        listen="tcp://127.0.0.1:0",
        state=folder / "state",
        trace=folder / "traces",
        run=RUN,
    )
    async with node:
        channel = await node.channel(CHANNEL, template="persistent", settings=SETTINGS)
        async with channel.subscribe() as events:
            for number in range(first, end):
                receipt = await channel.publish(b"%d" % number)
                channel.flush()
            await channel.acknowledged(receipt, PATIENCE)
            heard = [int((await events.next(timeout=PATIENCE)).payload) for _ in range(first, end)]
    assert heard == list(range(first, end))


@pytest.fixture(scope="module")
def first_life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left of a life with twenty events."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "CALM", 0)  # there is nobody to wait for
        asyncio.run(life(folder, 1, 21))
    return folder


@pytest.fixture
def kept(first_life: Path, tmp_path: Path) -> Path:
    """The same, where others may follow."""
    return Path(shutil.copytree(first_life, tmp_path / "kept"))


def test_a_node_that_is_closed_leaves_a_whole_log(kept: Path) -> None:
    """Records are written one lot at a time, and closing waits for the last."""
    log = History(str(folder_of(kept / "state", CHANNEL)), "")
    assert (log.begin, log.end) == (0, 20)


def test_the_history_of_a_persistent_channel_is_read_and_followed_over_two_lives(
    spark: SparkSession, kept: Path, tmp_path: Path
) -> None:
    log = str(folder_of(kept / "state", CHANNEL))
    events = spark.read.format("gossamer").load(log)
    rows = events.orderBy("position", "first").collect()
    assert [int(row.payload) for row in rows] == list(range(1, 21))
    assert {(row.channel, row.source) for row in rows} == {(CHANNEL, "keeper")}

    def follow() -> list[int]:
        stream = spark.readStream.format("gossamer").option("maxRows", "12").load(log).select("payload")
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        assert max(progress["numInputRows"] for progress in query.recentProgress) <= 12
        return sorted(int(row.payload) for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert follow() == list(range(1, 21))
    asyncio.run(life(kept, 21, 26))
    assert follow() == list(range(1, 26))


def test_the_trace_of_a_persistent_channel_is_durable_until_a_delivery_is_taken_out(
    spark: SparkSession, kept: Path
) -> None:
    asyncio.run(life(kept, 21, 26))
    traces = kept / "traces"
    planted = traces / "run=planted"
    shutil.copytree(traces / f"run={RUN}", planted)
    lives = [_without_a_delivery(file) for file in planted.glob("*.parquet")]
    assert len(lives) == 2
    outcome = audit(spark, survey(str(traces)))
    judged = {(each.run, each.promise): (each.judged, each.violations) for each in outcome.verdicts}
    assert (outcome.complete, outcome.code) == (True, 1)
    assert {violations for (run, _), (_, violations) in judged.items() if run == RUN} == {0}
    assert judged[RUN, "durable"] == (True, 0)
    assert judged["planted", "durable"] == (True, len(lives))
    broken = [each for each in outcome.violations if each.promise == "durable"]
    assert len({each.incarnation for each in broken}) == len(broken) == len(lives), "one each"
    assert {(each.node, each.expected.split(" at ")[0]) for each in broken} == {("keeper", "the parcel")}


def _without_a_delivery(file: Path) -> None:
    """The third delivery becomes something that proves nothing, so that no row is missing."""
    table = pq.read_table(file, partitioning=None)
    delivered = pc.and_(
        pc.equal(table["action"], trace.DELIVERED), pc.equal(table["channel"], CHANNEL)
    ).to_pylist()
    third = [row for row, yes in enumerate(delivered) if yes][2]
    actions = table["action"].to_pylist()
    actions[third] = trace.RECEIVED
    index = table.schema.get_field_index("action")
    pq.write_table(table.set_column(index, "action", pa.array(actions)), file)
