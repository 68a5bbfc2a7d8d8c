"""Indexes out of the interest of 100 000 listeners in 10 000 threads, beside indexes drawn by lot."""

from __future__ import annotations

import time

from benchmarks.pipeline.figures import Figure
from gossamer.pipeline.clusters import cluster_listeners, hierarchy, purity
from gossamer.pipeline.session import session
from tests.pipeline.interests import planted

LISTENERS, THREADS, COMMUNITIES, WANTS = 100_000, 10_000, 50, 20
NOISE = 0.1
CLUSTERS = (50, 64, 100)


def measure(rounds: int) -> list[Figure]:
    """Clusterings with as many clusters as communities and with more, and a hierarchy of indexes."""
    spark = session("local[2]")
    wants, known = planted(LISTENERS, THREADS, COMMUNITIES, WANTS, NOISE)
    interest = spark.createDataFrame(wants).cache()
    communities = spark.createDataFrame(known).cache()
    figures = [
        Figure("clusters", "pairs of listener and thread", interest.count()),
        Figure("clusters", "communities planted", COMMUNITIES),
    ]
    communities.count()
    for count in CLUSTERS:
        took, pure = [], []
        for seed in range(1, rounds + 1):
            begun = time.perf_counter()
            clustered = cluster_listeners(interest, count, seed)
            took.append(time.perf_counter() - begun)
            pure.append(purity(clustered, communities))
        figures += [
            Figure("clusters", f"{count} clusters", sorted(took)[rounds // 2], "s", most=30.0),
            Figure("clusters", f"{count} clusters, lowest purity of {rounds} seeds", min(pure), least=0.85),
        ]
    begun = time.perf_counter()
    levels = hierarchy(interest, indexes=64, fanout=8)
    figures.append(
        Figure("clusters", "whole hierarchy, 64 indexes at most", time.perf_counter() - begun, "s")
    )
    for level in levels:
        for name, cost in (("", level.cost), (", drawn by lot", level.random)):
            head = f"level {level.number}, {cost.indexes} indexes{name}"
            figures.append(Figure("clusters", f"{head}: per listener", cost.per_listener))
            figures.append(Figure("clusters", f"{head}: per listener", cost.bytes_per_listener, "bytes"))
    spark.stop()
    return figures
