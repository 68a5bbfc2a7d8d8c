"""Everything that the pipeline is held to, in one table: ratios between two ways in one run, medians.

::

    python -m benchmarks.pipeline                             # all parts: some ten minutes
    python -m benchmarks.pipeline audit --rows 1 10           # one part, smaller
    python -m benchmarks.pipeline sweep tiny --json           # for programs

Both sides of a ratio have two threads, processes or tasks, and take turns. Each part has a process and a Java
of its own, so that none pays for the memory of another. Ends with 1 if a figure misses its target.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline import audits, clusters, sources, sweeps, writing
from benchmarks.pipeline.figures import MISSED, Figure

PARTS: dict[str, Callable[..., list[Figure]]] = {
    "writing": writing.measure,
    "source": sources.measure,
    "tiny": sweeps.tiny,
    "sweep": sweeps.measure,
    "clusters": clusters.measure,
    "audit": audits.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none are named")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100], help="millions, for the audit")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    console = Console(stderr=True, highlight=False)
    more = {"audit": (given.rows,)}
    figures: list[Figure] = []
    loads = []
    for name in given.parts or PARTS:
        loads.append(os.getloadavg()[0])
        console.print(f"measuring {name}; load of the machine before it {loads[-1]:.1f}")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            found = alone.submit(PARTS[name], given.rounds, *more.get(name, ())).result()
        figures += found
        for each in found:  # whoever stops it has what was measured so far
            console.print(f"  {each.what}: {each.said}")
    if given.json:
        rows = [{**msgspec.structs.asdict(each), "verdict": each.verdict} for each in figures]
        print(msgspec.json.encode(rows).decode())
    else:
        Console(highlight=False).print(_table(figures, max(loads)))
    sys.exit(any(each.verdict == MISSED for each in figures))


def _table(figures: list[Figure], load: float) -> Table:
    said = f"{os.cpu_count()} cores, load of the machine before a part at most {load:.1f}"
    table = Table("part", "what", "figure", "target", "", caption=said)
    table.columns[2].justify = "right"
    last = ""
    for each in figures:
        style = "bold red" if each.verdict == MISSED else ""
        part = each.part if each.part != last else ""
        last = each.part
        table.add_row(part, each.what, each.said, each.target, each.verdict, style=style)
    return table


if __name__ == "__main__":
    main()
