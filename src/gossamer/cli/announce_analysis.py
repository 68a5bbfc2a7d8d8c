"""``gossamer analyse announce``, ``memberships`` and ``indexes``: what announcing costs and brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from gossamer.announce.reliability import Repetition
from gossamer.cli.node import Json
from gossamer.cli.screen import screen
from gossamer.cli.spark import Master, pipeline, spark_for
from gossamer.simulator.workload.announcement_loss import all_kinds
from gossamer.whatif.memberships import RATES, WAYS, Setting, compare, loses

Seed = Annotated[int, typer.Option(min=0, help="Same seed, same figures.")]


def losses(
    loss: Annotated[float, typer.Option(help="Share of packets that get lost.")] = 0.3,
    target: Annotated[float, typer.Option(help="Share of announcements that is to arrive.")] = 0.9999,
    announcements: Annotated[int, typer.Option(min=10, help="How many to simulate.")] = 100_000,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """How often to repeat so that announcements arrive, calculated and simulated."""
    times = Repetition(loss, target).times()
    found = all_kinds(loss, target, announcements, seed)
    if as_json:
        told = [{**msgspec.to_builtins(each), "arrived": each.arrived} for each in found]
        print(msgspec.json.encode(told).decode())
        return
    table = Table(
        "announcement", "needs", "sent", "announced", "missed", "arrived", "closed form",
        title=f"{loss:.0%} of packets lost, {target:.2%} to arrive: {times} repetitions of one packet",
    )  # fmt: skip
    for each in found:
        table.add_row(
            each.kind,
            str(each.needed),
            str(each.sent),
            str(each.announcements),
            str(each.missed),
            f"{each.arrived:.4%}",
            f"{each.expected:.4%}",
        )
    screen().print(table)


def memberships(
    threads: Annotated[int, typer.Option(help="Threads of the index.")] = 64,
    wants: Annotated[int, typer.Option(help="Threads that a listener wants.")] = 3,
    groups: Annotated[int, typer.Option(help="Groups that threads share.")] = 4,
    payload: Annotated[int, typer.Option(min=0, help="Bytes of an announcement.")] = 4_000,
    rate: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(RATES)}; may be repeated.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Write a picture (SVG) there.")] = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Time in groups, bytes and groups against permanent subscription, and where announcing loses."""
    setting = Setting(threads=threads, wants=wants, groups=groups, payload=payload, seed=seed)
    rates = list(rate or RATES)
    rows = compare(setting, rates)
    if picture is not None:
        with pipeline():
            from gossamer.whatif.announcing_picture import picture as drawn
        picture.write_text(drawn(rows))
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    table = Table("events", "way", "time in groups", "kB/h", "groups", "joins/h", "arrived")
    for row in rows:
        table.add_row(
            row.rate if row.way == WAYS[0] else "",
            row.way,
            f"{row.membership / 3600:.3f}",
            f"{row.received / 1000:,.0f}",
            f"{row.occupied:.1f}",
            f"{row.joins:,.0f}",
            f"{row.arrived:.2%}",
            end_section=row.way == WAYS[-1],
        )
    console = screen()
    console.print(table)
    console.print("time in groups: seconds times groups per second, of one listener; groups: of the network")
    for each in rates:
        console.print(f"{each}: announcing costs more in {', '.join(loses(rows, each)) or 'nothing'}")


def indexes(
    listeners: Annotated[int, typer.Option(help="Listeners.")] = 2_000,
    threads: Annotated[int, typer.Option(help="Threads of all applications.")] = 1_000,
    communities: Annotated[int, typer.Option(help="Communities of listeners.")] = 20,
    reported: Annotated[float, typer.Option(help="Share of listeners whose reports came.")] = 0.2,
    count: Annotated[int, typer.Option("--indexes", min=1, help="Indexes, at most.")] = 40,
    seed: Seed = 1,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Indexes clustered from sampled interest (on Spark) against as many dealt by lot."""
    with pipeline():
        from gossamer.whatif.indexes import Crowd
        from gossamer.whatif.indexes import compare as against_lot
    crowd = Crowd(listeners=listeners, threads=threads, communities=communities, reported=reported, seed=seed)
    crowd.check()
    with spark_for(master, listeners * crowd.wants) as spark:
        found = against_lot(spark, crowd, count)
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    table = Table("", "clustered", "by lot", title=f"{found.indexes} indexes, {found.reports} reports")
    table.add_row("indexes per listener", f"{found.clustered:.2f}", f"{found.by_lot:.2f}")
    table.add_row("bytes of them", f"{found.clustered_bytes:,.0f}", f"{found.by_lot_bytes:,.0f}")
    console = screen()
    console.print(table)
    console.print(
        f"an index has threads of {found.applications_per_index:.1f} of {crowd.applications} applications"
    )
