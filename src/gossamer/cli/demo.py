"""``gossamer demo``: one template on real sockets and in virtual time, and what the traces of both prove."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.audit import show
from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.cli.session import until_stopped
from gossamer.cli.simulate import with_progress
from gossamer.cli.spark import pipeline, spark_for
from gossamer.core.config import parse
from gossamer.core.event import Criteria, Envelope
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.node import Node, connect
from gossamer.runtime.api.subscription import Subscription
from gossamer.simulator.scenario.run import Result, Scenario

if TYPE_CHECKING:
    from gossamer.pipeline.audit.auditing import Outcome

RUN = "demo-live"
RUNS = (RUN, "demo-1", "demo-2")


def demo(
    events: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many to publish.")] = 100_000,
    out: Annotated[Path, typer.Option(help="Folder for the traces.")] = Path("traces"),
    as_json: Json = False,
) -> None:
    """See it work: real sockets first, then the same template in a simulated network with faults."""
    console = screen(quiet=as_json)
    shutil.rmtree(out / f"run={RUN}", ignore_errors=True)
    console.print(
        marked("1. Real sockets", ": a publisher, two subscribers and a node between them, over tcp")
    )
    live = until_stopped(lambda: _live(events, out))
    if live is None:
        raise typer.Exit(130)
    _show_live(console, live)

    console.print(
        marked("\n2. Virtual time", ": the same template, 12 nodes, lossy links, a partition, a crash")
    )
    scenario = parse(files("gossamer.cli").joinpath("demo.toml").read_text(), Scenario, "demo.toml")
    runs = [with_progress(scenario, seed, out) for seed in (1, 1, 2)]
    _show_runs(console, runs)

    console.print(marked("\n3. One kind of trace", f" from both, in {out}/"))
    counts = _count(out)
    _show_counts(console, counts)
    ok = (
        live["lost"] == 0 and runs[0].trace_hash == runs[1].trace_hash and not any(r.violations for r in runs)
    )
    console.print(marked("\n4. Proof", ": the traces of all runs held against what their channels promised"))
    outcome, page = _proof(out)
    show(outcome, console)
    console.print(f"   pictures of it all are in {page}")
    ok = ok and outcome.code == 0
    if as_json:
        hashes = [{"seed": run.seed, "trace_hash": run.trace_hash} for run in runs]
        print(
            json.dumps(
                {
                    "ok": ok,
                    "live": live,
                    "runs": hashes,
                    "rows": sum(counts.values()),
                    "audit": outcome.word,
                    "report": str(page),
                }
            )
        )
    console.print(
        "\nNext:",
        marked("gossamer up", " in one terminal,"),
        marked("gossamer sub prices", " in another,"),
        marked("gossamer pub prices hello", " in a third."),
    )
    if not ok:
        raise typer.Exit(1)


def _proof(out: Path) -> tuple[Outcome, Path]:
    """Audit and report over what was just traced."""
    with pipeline():
        from gossamer.pipeline.reading import survey
        from gossamer.pipeline.report import report
    traces = survey(str(out)).only(RUNS)
    with spark_for(None, traces.rows) as spark:
        text, outcome = report(spark, traces)
    page = out / "report.html"
    page.write_text(text)
    return outcome, page


async def _live(count: int, out: Path) -> dict[str, Any]:
    """Publish through a node to two subscribers, one of them choosy; then ask and be answered."""
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(
            connect(listen="tcp://127.0.0.1:0", name="hub", trace=out, run=RUN)
        )

        async def channel(name: str) -> tuple[Node, Channel]:
            node = await stack.enter_async_context(connect(hub.addresses[0], name=name, trace=out, run=RUN))
            return node, await node.channel("prices", template="multicast")

        (_, source), (_, everything), (_, choosy) = [
            await channel(name) for name in ("source", "all", "choosy")
        ]
        all_events = await stack.enter_async_context(everything.subscribe())
        chosen = await stack.enter_async_context(choosy.subscribe(Criteria(("price", ">", 50))))
        await source.wait_for_subscribers(5)

        started = time.perf_counter()
        reading = asyncio.gather(_read(all_events, count), _read(chosen, count // 2))
        for price in (10, 90):
            half = count - count // 2 if price == 10 else count // 2
            await source.publish_many((b"0123456789" for _ in range(half)), Envelope({"price": price}))
        received = await asyncio.wait_for(reading, 60)
        seconds = time.perf_counter() - started

        answering = asyncio.create_task(_answer(all_events))
        asked = time.perf_counter()
        answer = await source.request(b"how much?")
        round_trip = time.perf_counter() - asked
        await answering
        return {
            "published": count,
            "received": received[0],
            "chosen": received[1],
            "lost": count - received[0] + count // 2 - received[1],
            "events_per_second": round(count / seconds),
            "answer": answer.payload.decode(),
            "answered_by": answer.source,
            "round_trip_ms": round(round_trip * 1000, 2),
            "dropped": sum(hub.drops.values()),
        }


async def _read(events: Subscription, count: int) -> int:
    received = 0
    if count:
        async for batch in events.batches():
            received += len(batch)
            if received >= count:
                break
    return received


async def _answer(events: Subscription) -> None:
    event = await events.next(timeout=10)
    await event.feedback(b"10.50")


def _show_live(console: Console, live: dict[str, Any]) -> None:
    console.print(
        f"   {live['published']} published, {live['received']} received by one subscriber, ", end=""
    )
    console.print(f"{live['chosen']} by the one that wants price > 50; {live['lost']} lost")
    console.print(
        f"   {live['events_per_second']:,} events/s, publisher, node and subscribers in one process"
    )
    console.print(f"   asked, and {live['answered_by']!r} answered {live['answer']!r} ", end="")
    console.print(f"after {live['round_trip_ms']} ms")


def _show_runs(console: Console, runs: list[Result]) -> None:
    table = Table("seed", "published", "expected", "delivered", "twice", "violations", "trace hash")
    for run in runs:
        numbers = (run.seed, run.published, run.expected, run.delivered, run.duplicates, run.violations)
        table.add_row(*map(str, numbers), run.trace_hash[:12])
    console.print(table)
    same = runs[0].trace_hash == runs[1].trace_hash
    console.print(f"   same seed, {'same' if same else 'ANOTHER'} trace; another seed, another trace")


def _count(out: Path) -> Counter[tuple[str, str, str]]:
    from gossamer.traces.writer import read  # pyarrow is heavy; the help text need not wait for it

    counts: Counter[tuple[str, str, str]] = Counter()
    for run in RUNS:
        table = read(out / f"run={run}")
        for kind, action in zip(table["kind"].to_pylist(), table["action"].to_pylist(), strict=True):
            counts[run, kind, action] += 1
    return counts


def _show_counts(console: Console, counts: Counter[tuple[str, str, str]]) -> None:
    table = Table("run", "kind", "actions and rows")
    for run, kind in sorted({(run, kind) for run, kind, _ in counts}):
        actions = {action: n for (r, k, action), n in sorted(counts.items()) if (r, k) == (run, kind)}
        table.add_row(run, kind, ", ".join(f"{action} {n}" for action, n in actions.items()))
    console.print(table)
