"""Proof: every template that has a scenario of its name keeps its promises, seed by seed.

    python benchmarks/proof.py --seeds 20 --out proof.json

runs ``scenarios/TEMPLATE.toml`` with seeds 1 to 20 for all installed templates, as many at a time as there
are cores, seed by seed, prints a line per run and a table, and ends with 1 if a promise was broken, printing
the command that replays it.
``--all`` runs every scenario that is shipped; ``--nodes 20 --duration 900`` runs smaller and faster variants
of the same scenarios.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from gossamer.catalog import templates
from gossamer.simulator.scenario.run import ChannelResult, Result, load, run
from gossamer.simulator.scenario.shrink import smaller

SCENARIOS = Path(__file__).parents[1] / "scenarios"


class Run(msgspec.Struct):
    """One run: what came of it, what it took, or why it came to nothing."""

    scenario: str
    seed: int
    seconds: float
    megabytes: int
    result: Result | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        return self.result is not None and self.result.passed and not self.result.unjudged


def one(path: str, seed: int, nodes: int | None, duration: float | None) -> Run:
    """Run a scenario with a seed; never raises, so that one bug does not hide the other runs."""
    began = time.process_time()
    result, error = None, ""
    try:
        scenario = load(path)
        if nodes is not None or duration is not None:
            pace = scenario.duration / (duration or scenario.duration)
            scenario = smaller(scenario, nodes or scenario.network.nodes, pace)
        result = run(scenario, seed, traced=False)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught} {' '.join(getattr(caught, '__notes__', ()))}"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Run(name_of(Path(path)), seed, time.process_time() - began, used, result, error)


def chosen(names: list[str], everything: bool = False) -> list[Path]:
    """The scenarios of these names, or of all templates that have one, or every one that is shipped."""
    if everything:
        return [path for path in sorted(SCENARIOS.rglob("*.toml")) if path.parent.name != "whatif"]
    return [SCENARIOS / f"{name}.toml" for name in names or sorted(templates()) if names or _has(name)]


def name_of(path: Path) -> str:
    """What a scenario is called on the command line."""
    return path.relative_to(SCENARIOS).with_suffix("").as_posix()


def _has(name: str) -> bool:
    return (SCENARIOS / f"{name}.toml").exists()


def line(one: Run) -> str:
    """A run in a line."""
    head = f"{one.scenario} seed {one.seed}: {one.seconds:.0f} s"
    if one.result is None:
        return f"{head}, {one.error}"
    found = one.result
    verdict = "kept" if one.passed else f"{found.violations} violations"
    if found.unjudged:
        verdict += f", nothing asked about {', '.join(found.unjudged)}"
    got = f"{found.delivered - found.earlier} of {found.expected} delivered"
    return f"{head}, {got}, {found.missed} told of gaps, {verdict}"


def table(runs: list[Run]) -> Table:
    """One row per channel of a scenario, over all its seeds."""
    shown = Table(title="proof")
    for column in (
        *("scenario", "seeds", "delivered", "of those who stayed", "twice", "told of gaps", "p50 s", "p99 s"),
        *("control / data bytes", "with watching", "repairs: source / on the way", "violations", "s", "MB"),
    ):
        shown.add_column(column, justify="left" if column == "scenario" else "right")
    for name in dict.fromkeys(each.scenario for each in runs):
        mine = [each for each in runs if each.scenario == name]
        results = [each.result for each in mine if each.result]
        for channel in dict.fromkeys(key for result in results for key in result.channels):
            found = [result.channels[channel] for result in results]
            cost = [f"{max(each.seconds for each in mine):.0f}", f"{max(each.megabytes for each in mine)}"]
            shown.add_row(name, *_cells(mine, results, found), *cost)
    return shown


def _cells(mine: list[Run], results: list[Result], found: list[ChannelResult]) -> list[str]:
    def total(*path: str) -> int:
        values: list[Any] = list(found)
        for step in path:
            values = [getattr(value, step) for value in values]
        return sum(values)

    data = total("traffic", "data_bytes")
    own = total("traffic", "control_bytes")
    watching = sum(each.control_bytes for result in results for each in result.services.values())
    source, way = (
        sum(each.figures.get(name, 0) for each in found)
        for name in ("repaired_by_source", "repaired_on_the_way")
    )
    return [
        f"{sum(each.passed for each in mine)} of {len(mine)}",
        _share(total("delivered") - total("earlier"), total("expected")),
        _share(total("stayed", "delivered"), total("stayed", "expected")),
        f"{total('duplicates')}",
        f"{total('missed')}",
        f"{max(each.latency_p50 for each in found):.2f}",
        f"{max(each.latency_p99 for each in found):.1f}",
        _share(own, data),
        _share(own + watching, data),
        f"{source} / {way}",
        f"{total('violations')}",
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "–"


def reason(run: Run) -> str:
    """Why a run did not pass."""
    if run.result is None:
        return run.error
    unjudged = [promise for promise, times in run.result.judged.items() if not times]
    return next(iter(run.result.examples), f"never judged: {', '.join(unjudged)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="*", help="names without .toml; all templates that have one")
    parser.add_argument("--all", action="store_true", help="every scenario that is shipped")
    parser.add_argument("--seeds", type=int, default=20, help="runs seeds 1 to this")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=None, help="runs at a time; as many as there are cores")
    parser.add_argument("--nodes", type=int, default=None, help="backbone nodes instead of the scenario's")
    parser.add_argument("--duration", type=float, default=None, help="seconds; all goes so much faster")
    parser.add_argument("--out", type=Path, default=None, help="file for all figures as JSON")
    options = parser.parse_args(arguments)
    runs: list[Run] = []
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        jobs = {
            pool.submit(one, str(path), seed, options.nodes, options.duration): (name_of(path), seed)
            for seed in range(options.first, options.seeds + 1)
            for path in chosen(options.scenario, options.all)
        }
        for job in as_completed(jobs):
            try:
                runs.append(job.result())
            except BrokenProcessPool as error:  # killed, or out of memory
                runs.append(Run(*jobs[job], 0.0, 0, error=str(error)))
            print(line(runs[-1]), flush=True)
            runs.sort(key=lambda each: (each.scenario, each.seed))
            if options.out is not None:  # after every run: who stops in between has what was done
                options.out.write_bytes(msgspec.json.format(msgspec.json.encode(runs)))
    Console(width=200).print(table(runs))
    broken = [each for each in runs if not each.passed]
    for each in broken:
        what = reason(each)
        again = f"benchmarks/proof.py {each.scenario} --first {each.seed} --seeds {each.seed}"
        again += f" --nodes {options.nodes}" if options.nodes else ""
        again += f" --duration {options.duration:g}" if options.duration else ""
        same = options.nodes is None and options.duration is None
        replay = each.result.replay if each.result and same else f"python {again}"
        print(f"{each.scenario}, seed {each.seed}: {what}\n  replay with: {replay}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
