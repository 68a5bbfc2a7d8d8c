"""Everything that the pipeline is held to, in one table: ratios between two ways in one run, medians.

::

    python -m benchmarks.pipeline                             # all parts: some fifteen minutes
    python -m benchmarks.pipeline audit --rows 1 10           # one part, smaller
    python -m benchmarks.pipeline sweep tiny --json           # for programs

Both sides of a ratio have two threads, processes or tasks, and take turns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline import audits, clusters, sources, sweeps, writing
from benchmarks.pipeline.figures import Figure

PARTS: dict[str, Callable[[argparse.Namespace], list[Figure]]] = {
    "writing": lambda given: writing.measure(given.rounds),
    "source": lambda given: sources.measure(given.rounds),
    "tiny": lambda given: sweeps.tiny(given.rounds),
    "sweep": lambda given: sweeps.measure(given.rounds),
    "clusters": lambda given: clusters.measure(given.rounds),
    "audit": lambda given: audits.measure(given.rows, given.rounds),
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
    figures: list[Figure] = []
    loads = []
    for name in given.parts or PARTS:
        loads.append(os.getloadavg()[0])
        console.print(f"measuring {name}; load of the machine before it {loads[-1]:.1f}")
        found = PARTS[name](given)
        figures += found
        for each in found:  # whoever stops it has what was measured so far
            console.print(f"  {each.what}: {each.said}")
    if given.json:
        rows = [{**msgspec.structs.asdict(each), "verdict": each.verdict} for each in figures]
        print(msgspec.json.encode(rows).decode())
    else:
        Console(highlight=False).print(_table(figures, max(loads)))


def _table(figures: list[Figure], load: float) -> Table:
    said = f"{os.cpu_count()} cores, load of the machine before a part at most {load:.1f}"
    table = Table("part", "what", "figure", "target", "", caption=said)
    table.columns[2].justify = "right"
    last = ""
    for each in figures:
        style = "bold red" if each.verdict == "missed" else ""
        part = each.part if each.part != last else ""
        last = each.part
        table.add_row(part, each.what, each.said, each.target, each.verdict, style=style)
    return table


if __name__ == "__main__":
    main()
