"""Sweeps, sources and clusters on Spark, each against something plain in the same run; medians.

``python benchmarks/pipeline_sweep.py [sweep] [tiny] [source] [clusters] [--rounds 3]``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from gossamer.pipeline.clusters import cluster_listeners, hierarchy, purity
from gossamer.pipeline.session import session
from gossamer.pipeline.simulations import Simulation
from gossamer.pipeline.sweep import grid, run_sweep, task
from gossamer.simulator.scenario import run
from gossamer.simulator.script import Channel, Publish, Scenario, Subscribe
from gossamer.simulator.topology import Network
from gossamer.traces.writer import FORM, SCHEMA, TraceWriter
from pyspark_gossamer.source import DefaultSource, TraceReader

RUNS = 24
ROWS = 1_000_000


def scenario(seconds: float) -> Scenario:
    return Scenario(
        Network("tree", nodes=15),
        seconds,
        name="bench",
        channel=(Channel("news", "reliable"),),
        publish=(Publish("news", 20.0, nodes=("n01",)),),
        subscribe=(Subscribe("news"),),
    )


def seconds(action: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def medians(rounds: int, **actions: Callable[[], Any]) -> dict[str, float]:
    """The median of each action's seconds; they take turns, so that a noisy minute hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(seconds(action))
    return {name: statistics.median(each) for name, each in found.items()}


# sweeps


def bare(simulation: Simulation, settings: dict[str, Any]) -> dict[str, Any]:
    """A run as a process pool would do it: no row, no trace."""
    one = task(settings, simulation, 0)
    return {"hash": run(simulation.vary(settings), one.seed).trace_hash}


def sweeps(spark: SparkSession, rounds: int) -> dict[str, Any]:
    simulation = Simulation(scenario(30.0), traces=False)
    alone = min(seconds(lambda: bare(simulation, {"replicate": 0})) for _ in range(3))
    simulation = Simulation(scenario(max(30.0, 30.0 * 0.25 / alone)), traces=False)
    configurations = grid({"replicate": range(RUNS)})

    def swept(partitions: int) -> Callable[[], Any]:
        def action() -> None:
            with tempfile.TemporaryDirectory() as out:
                done = run_sweep(spark, configurations, simulation, out, partitions=partitions)
                assert done.ran == RUNS

        return action

    with ProcessPoolExecutor(2) as pool:

        def pooled() -> None:
            list(pool.map(bare, [simulation] * RUNS, configurations))

        pooled()
        swept(8)()
        took = medians(rounds, one=swept(1), two=swept(8), pool=pooled)
    return {
        "runs": RUNS,
        "seconds a run": round(took["one"] / RUNS, 3),
        "one worker s": round(took["one"], 2),
        "two workers s": round(took["two"], 2),
        "process pool s": round(took["pool"], 2),
        "two against one": round(took["one"] / took["two"], 2),
        "over a process pool": f"{took['two'] / took['pool'] - 1:+.1%}",
    }


def nothing(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    return {"seed_again": seed}


def tiny(spark: SparkSession, rounds: int) -> dict[str, Any]:
    configurations = grid({"number": range(200)})

    def action() -> None:
        with tempfile.TemporaryDirectory() as out:
            run_sweep(spark, configurations, nothing, out)

    action()
    return {"200 tiny runs s": round(medians(max(rounds, 5), tiny=action)["tiny"], 2)}


# sources


class TupleReader(TraceReader):
    """The same rows, one tuple each."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TupleSource(DefaultSource):
    """``format("gossamer-tuples")``."""

    @classmethod
    def name(cls) -> str:
        return "gossamer-tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(self.options["path"], schema)


def sources(spark: SparkSession, rounds: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    try:
        _traces(folder)
        spark.dataSource.register(TupleSource)

        def consume(format: str) -> Callable[[], Any]:
            rows = spark.read.format(format).load(str(folder))
            # every column is looked at: a source of Python knows nothing of columns that nobody wants
            return lambda: rows.write.format("noop").mode("overwrite").save()

        actions = {name: consume(name) for name in ("gossamer", "gossamer-tuples", "parquet")}
        for action in actions.values():
            action()
        took = medians(rounds, **actions)
    finally:
        shutil.rmtree(folder)
    return {
        "rows": ROWS,
        **{f"{name} M rows/s": round(ROWS / took[name] / 1e6, 2) for name in took},
        "arrow against tuples": round(took["gossamer-tuples"] / took["gossamer"], 2),
        "arrow against native Parquet": round(took["parquet"] / took["gossamer"], 2),
    }


def _traces(folder: Path) -> None:
    """Rows like those of a run, in as many segments as a writer would make."""
    begun = TraceWriter(folder, "bench", "world").folder
    size = 50_000
    names = np.array([f"n{number:03d}" for number in range(50)])
    dice = np.random.default_rng(1)
    for number in range(ROWS // size):
        first = number * size
        columns: dict[str, Any] = {}
        for field in SCHEMA:
            if field.type == pa.string():
                columns[field.name] = names[dice.integers(50, size=size)]
            else:
                columns[field.name] = np.arange(first, first + size)
        table = pa.Table.from_pydict(columns, schema=SCHEMA)
        pq.write_table(table, begun / f"world-{number + 1:06d}.parquet", **FORM)


# clusters


def planted(
    listeners: int, threads: int, communities: int, wants: int, noise: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Who wants what, and who belongs where: a thread of one's own community, or with ``noise`` any."""
    dice = np.random.default_rng(seed)
    community = dice.integers(communities, size=listeners)
    share = threads // communities
    own = community[:, None] * share + dice.integers(share, size=(listeners, wants))
    anywhere = dice.integers(threads, size=(listeners, wants))
    drawn = np.where(dice.random((listeners, wants)) < noise, anywhere, own)
    listener = np.repeat(np.arange(listeners), wants)
    interest = pd.DataFrame({"listener": listener, "thread": drawn.ravel()}).drop_duplicates()
    interest["thread"] = "t" + interest["thread"].astype(str)
    return interest, pd.DataFrame({"listener": np.arange(listeners), "community": community})


def clusters(spark: SparkSession, rounds: int) -> dict[str, Any]:
    wants, known = planted(100_000, 10_000, communities=50, wants=20, noise=0.1, seed=1)
    interest = spark.createDataFrame(wants).cache()
    communities = spark.createDataFrame(known).cache()
    told: dict[str, Any] = {"pairs": interest.count(), "listeners": communities.count(), "communities": 50}
    for count in (50, 64, 100):
        took, found = [], []
        for seed in range(1, rounds + 1):
            begun = time.perf_counter()
            clustered = cluster_listeners(interest, count, seed)
            took.append(time.perf_counter() - begun)
            found.append(round(purity(clustered, communities), 3))
        told[f"{count} clusters s"] = round(statistics.median(took), 1)
        told[f"{count} clusters purity, by seed"] = found
    begun = time.perf_counter()
    levels = hierarchy(interest, indexes=64, fanout=8)
    told["hierarchy s"] = round(time.perf_counter() - begun, 1)
    for level in levels:
        told[f"level {level.number}"] = {
            "indexes": level.cost.indexes,
            "per listener": round(level.cost.per_listener, 2),
            "per listener by lot": round(level.random.per_listener, 2),
            "bytes per listener": round(level.cost.bytes_per_listener),
            "bytes per listener by lot": round(level.random.bytes_per_listener),
        }
    return told


PARTS = {"sweep": sweeps, "tiny": tiny, "source": sources, "clusters": clusters}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if none are named")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spark = session("local[2]", settings={"spark.sql.shuffle.partitions": "4"})
    try:
        for name in given.parts or PARTS:
            before = os.getloadavg()[0]
            told = PARTS[name](spark, given.rounds)
            print(
                json.dumps({"part": name, "cores": os.cpu_count(), "load before": round(before, 1), **told})
            )
            sys.stdout.flush()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
