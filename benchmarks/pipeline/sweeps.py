"""Sweeps of simulations: two workers beside one, and beside a bare pool of processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.pipeline.figures import Figure, medians, seconds
from gossamer.pipeline.session import session
from gossamer.pipeline.simulations import Simulation
from gossamer.pipeline.sweep import grid, run_sweep, task
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.file import Channel, Publish, Scenario, Subscribe
from gossamer.simulator.scenario.run import run

RUNS = 24
TINY = 200
LEAST = 0.25
"""Seconds that a simulation takes at least."""


def measure(rounds: int) -> list[Figure]:
    simulation = Simulation(_long_enough(), traces=False)
    configurations = grid({"replicate": range(RUNS)})
    spark = session("local[2]", quick=True)  # as the command does

    def swept(workers: int) -> Callable[[], Any]:
        def action() -> None:
            with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as out:
                done = run_sweep(spark, configurations, simulation, out, workers=workers)
                assert done.ran == RUNS

        return action

    def pooled(pool: ProcessPoolExecutor) -> Callable[[], Any]:
        return lambda: list(pool.map(_bare, [simulation] * RUNS, configurations))

    with ProcessPoolExecutor(1) as alone, ProcessPoolExecutor(2) as both:
        for warm in (pooled(alone), pooled(both), swept(2)):
            warm()
        took = medians(rounds, one=swept(1), two=swept(2), pool=pooled(both), process=pooled(alone))
    spark.stop()
    over = 100 * (took["two"] / took["pool"] - 1)
    return [
        Figure("sweep", "one simulation", took["one"] / RUNS, "s", least=0.2),
        Figure("sweep", f"{RUNS} of them, one worker", took["one"], "s"),
        Figure("sweep", f"{RUNS} of them, two workers", took["two"], "s"),
        Figure("sweep", f"{RUNS} of them, bare pool of two processes", took["pool"], "s"),
        Figure("sweep", "two workers to one", took["one"] / took["two"], "×", least=1.8),
        Figure("sweep", "two bare processes to one", took["process"] / took["pool"], "×"),
        Figure("sweep", "over a bare pool of two processes", over, "%", most=15.0),
    ]


def tiny(rounds: int) -> list[Figure]:
    """Runs that do nothing, so that only what a sweep costs is left."""
    configurations = grid({"number": range(TINY)})
    spark = session("local[2]", quick=True)  # as the command does

    def action() -> None:
        with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as out:
            run_sweep(spark, configurations, _nothing, out)

    action()
    took = medians(max(rounds, 5), tiny=action)["tiny"]
    spark.stop()
    return [Figure("tiny", f"sweep of {TINY} runs that do nothing, once warm", took, "s", most=1.0)]


def _scenario(duration: float) -> Scenario:
    return Scenario(
        Network("tree", nodes=15),
        duration,
        name="bench",
        channel=(Channel("news", "reliable"),),
        publish=(Publish("news", 20.0, nodes=("n01",)),),
        subscribe=(Subscribe("news"),),
    )


def _long_enough() -> Scenario:
    simulation = Simulation(_scenario(30.0), traces=False)
    alone = min(seconds(lambda: _bare(simulation, {"replicate": 0})) for _ in range(3))
    return _scenario(max(30.0, 30.0 * LEAST / alone))


def _bare(simulation: Simulation, settings: dict[str, Any]) -> str:
    """A run as a pool of processes would do it: no row, no trace."""
    return run(simulation.vary(settings), task(settings, simulation, 0).seed).trace_hash


def _nothing(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    return {"seed_again": seed}
