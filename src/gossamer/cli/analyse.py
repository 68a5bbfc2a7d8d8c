"""``gossamer analyse``: loads, paths and reach by closed forms, before anything is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.table import Table

from gossamer.analysis import deployment, reach
from gossamer.analysis.dispatch import Traffic, loads
from gossamer.analysis.paths import paths
from gossamer.cli import announce_analysis
from gossamer.cli.node import Json
from gossamer.cli.screen import screen
from gossamer.core.errors import ConfigError

app = typer.Typer(
    add_completion=False,
    help="Load of dispatchers, length of paths, reach under failures.",
    no_args_is_help=True,
)

MOST_CELLS = 50_000_000
"""Nodes times trials of one question."""


@app.command("dispatch")
def dispatch(
    arity: Annotated[int, typer.Option(help="Dispatchers below each dispatcher.")] = 4,
    levels: Annotated[int, typer.Option(help="Levels, the root's included.")] = 3,
    tree: Annotated[Path | None, typer.Option(help=r"TOML file of \[\[dispatcher]] tables instead.")] = None,
    rate: Annotated[float, typer.Option(help="Events per second and dispatcher.")] = 1.0,
    window: Annotated[float, typer.Option(help="Seconds.")] = 1.0,
    spread: Annotated[float, typer.Option(help="Spreading coefficient, 0 to 1.")] = 0.5,
    objects: Annotated[int, typer.Option(help="Active objects of each dispatcher.")] = 10,
    listeners: Annotated[
        str, typer.Option(help="Listeners at one distance: a number, or probabilities of 1, 2, … as 0.7,0.3.")
    ] = "1",
    as_json: Json = False,
) -> None:
    """Events that each dispatcher receives, with subscriptions only and with advertisements."""
    found = _deployment(tree) if tree else deployment.balanced(arity, levels)
    traffic = Traffic(rate, window, spread, objects, _listeners(listeners))
    hierarchy = found.hierarchy
    load = loads(hierarchy, found.traffic(traffic))
    columns = zip(found.names, hierarchy.levels, load.subscription, load.advertisement, strict=True)
    rows = [
        {"name": name, "level": int(level), "subscription": float(sub), "advertisement": float(adv)}
        for name, level, sub, adv in columns
    ]
    if as_json:
        print(json.dumps(rows))
        return
    _table(
        f"events received in {window:g} s",
        ["level", "dispatchers", "subscription", "advertisement"],
        _alike(rows),
    )


@app.command("paths")
def paths_(
    nodes: Annotated[int, typer.Option(help="Nodes in the network.")] = 1000,
    arity: Annotated[int, typer.Option(help="Nodes below each node of the tree.")] = 2,
    ratio: Annotated[int, typer.Option(help="Times fewer nodes in each inner ring of the multi-ring.")] = 4,
    as_json: Json = False,
) -> None:
    """The longest path in a ring, a tree and a multi-ring."""
    found = paths(nodes, arity, ratio)
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    rows = [
        [each.topology, each.form, f"{each.longest:.1f}", _or_none(each.counted), _or_none(each.mean)]
        for each in found
    ]
    _table(f"hops between {nodes} nodes", ["topology", "form", "longest", "counted", "mean"], rows)


@app.command("reach")
def reach_(
    failed: Annotated[
        list[float] | None, typer.Option(help="Share of nodes that have failed; may be repeated.")
    ] = None,
    publishers: Annotated[int, typer.Option(help="Publishers; the first ring has log2 of it.")] = 16,
    ring: Annotated[int | None, typer.Option(help="Nodes of the first ring instead.")] = None,
    rings: Annotated[int, typer.Option(help="Rings, each twice as large as the one inside.")] = 5,
    trials: Annotated[int, typer.Option(min=1, help="Random failures to try.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same trials.")] = 1,
    as_json: Json = False,
) -> None:
    """The share of living nodes that rings with binary trees reach when others have failed."""
    first = reach.entry_points(publishers) if ring is None else ring
    sizes = reach.sizes(first, rings)
    if sum(sizes) * trials > MOST_CELLS:
        reason = f"{sum(sizes)} nodes times {trials} trials are more than {MOST_CELLS}: try fewer"
        raise ConfigError(reason, key="trials")
    dice = np.random.default_rng(seed)
    found = []
    for share in failed or (0.1, 0.3, 0.5):
        if not 0 <= share <= 1:
            raise ConfigError(f"{share:g}: a share, from 0 to 1", key="failed")
        alive = [dice.random((trials, size)) >= share for size in sizes]
        found.append(reach.tried(alive, share))
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    rows = [
        [
            f"{each.failed:.0%}",
            f"{each.reached:.1%} ± {2 * each.deviation:.1%}",
            f"{each.parents_only:.1%}",
            f"{each.copies:.2f}",
            f"{each.hops:.2f}",
        ]
        for each in found
    ]
    columns = ["failed", "all rules", "parents only", "copies sent", "hops"]
    _table(f"living nodes reached, of {sum(sizes)}", columns, rows)


def _deployment(file: Path) -> deployment.Deployment:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', error)}", file=str(file)) from None
    return deployment.read(text, str(file))


def _listeners(text: str) -> int | list[float]:
    try:
        return [float(each) for each in text.split(",")] if "," in text else int(text)
    except ValueError:
        raise ConfigError(f"{text!r}: a number, or probabilities such as 0.7,0.3", key="listeners") from None


def _alike(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One line for all that are at one level and have the same load."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        key = (f"{row['level']}", f"{row['subscription']:.1f}", f"{row['advertisement']:.1f}")
        alike.setdefault(key, []).append(row["name"])
    return [
        [level, names[0] if len(names) == 1 else f"{len(names)}: {names[0]} … {names[-1]}", sub, adv]
        for (level, sub, adv), names in alike.items()
    ]


def _or_none(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    screen().print(table)


app.command("announce")(announce_analysis.losses)
app.command("memberships")(announce_analysis.memberships)
app.command("indexes")(announce_analysis.indexes)
