"""What ``gossamer watch`` shows: one table, drawn anew with every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import marked, screen
from gossamer.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gossamer.pipeline.live import State

SHOWN = 5


def follow(spark: SparkSession, folder: str, interval: float, once: bool, as_json: bool) -> None:
    """Follow a folder of traces and show what is known, after every batch."""
    from gossamer.pipeline.live import Follower, watch

    if not hasattr(spark, "sparkContext"):
        raise ConfigError("a job cannot be followed through Spark Connect; use another master", key="master")
    if as_json:
        watch(spark, folder, Follower(_print), interval=interval, once=once)
        return
    with Live(Text("waiting for the first segment"), console=screen(), auto_refresh=False) as live:
        watch(
            spark,
            folder,
            Follower(lambda state: live.update(_drawn(state), refresh=True)),
            interval=interval,
            once=once,
        )


def _print(state: State) -> None:
    plain = {
        "rows": state.rows,
        "segments": state.segments,
        "gaps": state.gaps,
        "damaged": state.damaged,
        "waiting": state.waiting,
        "channels": [msgspec.to_builtins(card) for _, card in sorted(state.cards.items())],
        "violations": msgspec.to_builtins(state.violations),
    }
    print(msgspec.json.encode(plain).decode(), flush=True)


def _drawn(state: State) -> Group:
    table = Table(
        "run", "channel", "published", "delivered", "dropped", "messages", "p50", "p99", "violations"
    )
    for _, card in sorted(state.cards.items()):
        latencies = ("–" if each is None else f"{each:g} ms" for each in (card.latency_p50, card.latency_p99))
        counts = (card.published, card.delivered, card.dropped, card.messages)
        broken = marked(str(card.violations), style="bold red") if card.violations else "0"
        table.add_row(card.run, card.channel, *map(str, counts), *latencies, broken)
    last = [
        Text(
            f"{each.promise} broken at {each.node} by number {each.number} of {each.source}: {each.expected}"
        )
        for each in state.violations[-SHOWN:]
    ]
    said = [f"{state.rows} rows in {state.segments} segments"]
    if state.gaps:
        said.append(f"{state.gaps} gaps")
    if state.damaged:
        said.append(f"{state.damaged} damaged files left out")
    if state.waiting:
        said.append(f"{state.waiting} segments wait for one that is missing")
    return Group(table, *last, Text(", ".join(said)))
