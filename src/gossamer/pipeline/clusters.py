"""From who listens to what, to a hierarchy of indexes for announcements.

An index names threads; a listener monitors the indexes that name a thread it wants. Threads that the same
people want belong into one index: then everybody monitors few. Listeners are clustered by the threads they
want (cosine distance, sparse vectors), each thread goes to the index of the cluster that most of its
listeners are in, and the indexes so made are the threads of the next level, until there are no more than
``fanout`` of them. Every level is clustered anew, because a flat clustering is all that Spark gives. An index
names only members of the level below, so there is no cycle.

``interest`` has one row per ``listener`` and ``thread``; what it means to want a thread is not known here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENTRY_BYTES = 20
"""Of a thread in an index: 16 for its identifier, 4 for its version."""
INDEX_BYTES = 46
"""Of an index without entries: a header, and the page that describes it."""
ITERATIONS = 5
"""Of each split; more cost as much each and change next to nothing."""


class Cost(msgspec.Struct, frozen=True):
    """What an assignment of threads to indexes costs those who listen.

    per_listener
        Indexes that a listener monitors, on average.
    bytes_per_listener
        Bytes of these indexes, each announced once, on average.
    """

    indexes: int
    threads: int
    per_listener: float
    bytes_per_listener: float


class Level(msgspec.Struct, frozen=True):
    """One level of a hierarchy.

    members
        Index of each member: of threads on level 1, of indexes of the level below on the others.
    cost, random
        What it costs, and what indexes of the same sizes cost whose members were drawn by lot.
    """

    number: int
    members: dict[str, str]
    cost: Cost
    random: Cost


def interest_of(spark: SparkSession, wants: Sequence[tuple[str, str]]) -> DataFrame:
    """Pairs of a listener and a thread, for Spark; by way of Arrow no process has to unpack them."""
    listeners, threads = (pa.array([pair[place] for pair in wants], pa.string()) for place in (0, 1))
    return spark.createDataFrame(pa.table({"listener": listeners, "thread": threads}))


def hierarchy(interest: DataFrame, indexes: int = 64, fanout: int = 8, seed: int = 1) -> list[Level]:
    """Levels from the threads upwards, each with about a ``fanout``-th of the indexes of the one below."""
    levels: list[Level] = []
    wanted, count = interest.select("listener", "thread").distinct().cache(), indexes
    while True:
        number = len(levels) + 1
        members = {
            thread: f"{number}-{cluster}"
            for thread, cluster in assign(wanted, cluster_listeners(wanted, count, seed)).items()
        }
        levels.append(Level(number, members, cost(wanted, members), cost(wanted, by_lot(members, seed))))
        above = replaced(wanted, members).cache()
        wanted.unpersist()
        wanted = above
        made = len(set(members.values()))
        if made <= fanout or made == len(members):
            wanted.unpersist()
            return levels
        count = -(-made // fanout)


def cluster_listeners(interest: DataFrame, clusters: int, seed: int = 1) -> DataFrame:
    """``listener`` and ``cluster``, at most so many of them.

    Ask for more than there can be communities, twice as many say: clusters are split in two, and a split that
    goes through a community is never mended, so that with none to spare another community stays undivided.
    """
    from pyspark.ml.clustering import BisectingKMeans  # imports pandas, which nothing else here needs
    from pyspark.ml.feature import CountVectorizerModel

    vocabulary = [row.thread for row in interest.select("thread").distinct().orderBy("thread").collect()]
    context = interest.sparkSession.sparkContext
    model = CountVectorizerModel.from_vocabulary(vocabulary, "threads", "features", binary=True)
    wants = interest.groupBy("listener").agg(f.collect_set("thread").alias("threads"))
    vectors = model.transform(wants).select("listener", "features")
    vectors = vectors.repartition(max(context.defaultParallelism, 1), "listener").cache()
    try:
        bisecting = BisectingKMeans(k=clusters, seed=seed, distanceMeasure="cosine", maxIter=ITERATIONS)
        found = bisecting.fit(vectors).transform(vectors)
        return found.select("listener", f.col("prediction").alias("cluster")).localCheckpoint()
    finally:
        vectors.unpersist()


def assign(interest: DataFrame, clusters: DataFrame) -> dict[str, int]:
    """The cluster of each thread: that of most of its listeners, the lowest if there are several."""
    counted = interest.join(clusters, "listener").groupBy("thread", "cluster").count()
    best = Window.partitionBy("thread").orderBy(f.desc("count"), "cluster")
    chosen = counted.withColumn("place", f.row_number().over(best)).filter("place = 1")
    return {row.thread: row.cluster for row in chosen.orderBy("thread").collect()}


def by_lot(members: Mapping[str, str], seed: int = 1) -> dict[str, str]:
    """The same threads and the same sizes of indexes, but no reason for who is where."""
    indexes = list(members.values())
    random.Random(seed).shuffle(indexes)
    return dict(zip(members, indexes, strict=True))


def replaced(interest: DataFrame, members: Mapping[str, str]) -> DataFrame:
    """Interest in indexes instead of their members."""
    table = _table(interest, "index", members)
    joined = interest.join(f.broadcast(table), "thread")
    return joined.select("listener", f.col("index").alias("thread")).distinct()


def cost(interest: DataFrame, members: Mapping[str, str]) -> Cost:
    """What listeners have to monitor if threads are in these indexes."""
    sizes: dict[str, int] = {}
    for index in members.values():
        sizes[index] = sizes.get(index, 0) + 1
    table = _table(
        interest, "bytes", {each: INDEX_BYTES + ENTRY_BYTES * size for each, size in sizes.items()}
    )
    monitored = replaced(interest, members).join(f.broadcast(table), "thread")
    total = monitored.agg(
        f.count("*").alias("indexes"),
        f.sum("bytes").alias("bytes"),
        f.countDistinct("listener").alias("listeners"),
    ).first()
    assert total is not None
    listeners = max(total.listeners, 1)
    return Cost(len(sizes), len(members), total.indexes / listeners, (total.bytes or 0) / listeners)


def purity(clusters: DataFrame, communities: DataFrame) -> float:
    """Share of the listeners whose cluster is mostly of their own community.

    communities
        ``listener`` and ``community``: what is known about them, if it is.
    """
    counted = clusters.join(communities, "listener").groupBy("cluster", "community").count()
    largest = counted.groupBy("cluster").agg(f.max("count").alias("most"), f.sum("count").alias("all"))
    total = largest.agg(f.sum("most").alias("most"), f.sum("all").alias("all")).first()
    assert total is not None
    return total.most / total.all if total.all else 0.0


def _table(interest: DataFrame, name: str, values: Mapping[str, str] | Mapping[str, int]) -> DataFrame:
    """Something said of threads, beside interest in them."""
    columns = {"thread": list(values), name: list(values.values())}
    return interest.sparkSession.createDataFrame(pa.table(columns))
