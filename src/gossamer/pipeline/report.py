"""One page about traces: topology, latency, load and utilisation over time, scorecards, promises.

The page is self-contained: pictures are inside, nothing is fetched. Every number and picture comes from the
tables and the audit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from gossamer.pipeline import pictures, tables
from gossamer.pipeline.audit.auditing import SMALL, Outcome, audit
from gossamer.pipeline.reading import Survey, rows

POINTS = 100
"""Points of a line over time or of a distribution."""
MILLISECOND = 10**6
_SHARES = [index / POINTS for index in range(1, POINTS + 1)]


def report(spark: SparkSession, traces: Survey) -> tuple[str, Outcome]:
    """The page, and the outcome of the audit in it."""
    outcome = audit(spark, traces)
    everything = rows(spark, traces)
    everything = everything.coalesce(1).localCheckpoint() if traces.rows <= SMALL else everything.persist()
    try:
        cards = tables.scorecard(everything).orderBy("run", "channel").collect()
        spans = (
            everything.groupBy("run").agg(sf.min("at").alias("first"), sf.max("at").alias("last")).collect()
        )
        sizes = [sf.lit(each) for span in spans for each in (span.run, _length(span))]
        bucket = sf.create_map(*sizes)[sf.col("run")] if sizes else sf.lit(1.0)
        timed = everything.withColumn("bucket", bucket)
        links = _by_run(tables.link_utilisation(timed, sf.col("bucket")))
        loads = _by_run(tables.node_load(timed, sf.col("bucket")))
        latencies = _by_run(_latencies(everything))
    finally:
        everything.unpersist()
    parts = [_run(span, links[span.run], loads[span.run], latencies[span.run]) for span in sorted(spans)]
    title = f"Traces: {', '.join(traces.runs[:5])}{' …' if len(traces.runs) > 5 else ''}"
    page = [_promises(outcome), "<h2>Scorecards</h2>", _cards(cards), *parts]
    return _page(title, page), outcome


def _length(span: Row) -> float:
    """Seconds of a bucket of a run."""
    return float(max((span.last - span.first) / POINTS / tables.SECOND, 0.001))


def _by_run(found: DataFrame) -> dict[str, list[Row]]:
    """Few enough rows to draw, by run."""
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in found.collect():
        by_run[row.run].append(row)
    return by_run


def _run(span: Row, links: Sequence[Row], loads: Sequence[Row], latencies: Sequence[Row]) -> str:
    """Pictures of one run."""
    bucket = _length(span)
    totals: dict[tuple[str, str], float] = defaultdict(float)
    by_link: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in links:
        totals[row.a, row.b] += row.bytes_ab + row.bytes_ba
        by_link[f"{row.a} → {row.b}"][_since(row, span)] += row.bytes_ab / bucket / 1024
        by_link[f"{row.b} → {row.a}"][_since(row, span)] += row.bytes_ba / bucket / 1024
    weights: dict[str, float] = defaultdict(float)
    by_node: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in loads:
        weights[row.node] += row.sent + row.received
        by_node[row.node][_since(row, span)] += (row.sent + row.received) / bucket
    shares = {
        row.channel: list(zip((each / MILLISECOND for each in row["at"]), _SHARES, strict=True))
        for row in latencies
    }
    shown = [
        (pictures.topology(totals, weights), "Topology: size by messages, width by bytes"),
        (pictures.distribution(shares, "latency, milliseconds"), "Latency from publication to delivery"),
        (pictures.over_time(_filled(by_node, span, bucket), "messages/s"), "Load of nodes, in and out"),
        (pictures.over_time(_filled(by_link, span, bucket), "KiB/s"), "Use of links, each direction"),
    ]
    drawn = "".join(f"<figure>{svg}<figcaption>{escape(said)}</figcaption></figure>" for svg, said in shown)
    return f'<h2>Run {escape(span.run)}</h2><div class="pictures">{drawn}</div>'


def _latencies(everything: DataFrame) -> DataFrame:
    """Per channel the latencies at even shares of all deliveries."""
    known = tables.timed(everything).where(sf.col("latency").isNotNull())
    at = sf.percentile("latency", _SHARES, sf.col("count")).alias("at")
    return known.groupBy("run", "channel").agg(at)


def _since(row: Row, span: Row) -> float:
    return float((row.since - span.first) / tables.SECOND)


def _filled(
    lines: dict[str, dict[float, float]], span: Row, bucket: float
) -> dict[str, list[tuple[float, float]]]:
    """Lines with zeros where nothing happened."""
    length = round(bucket * tables.SECOND)
    first = span.first // length * length
    places = [(at - span.first) / tables.SECOND for at in range(first, span.last + 1, length)]
    return {name: [(at, values.get(at, 0.0)) for at in places] for name, values in lines.items()}


def _promises(outcome: Outcome) -> str:
    said = []
    for verdict in outcome.verdicts:
        word = "kept" if verdict.judged else "incomplete"
        text = "kept" if verdict.judged else "cannot be told"
        if verdict.violations:
            word, text = "violated", f"{verdict.violations} violations"
        cells = (verdict.run, verdict.channel, verdict.promise)
        said.append([*map(escape, cells), f'<span class="{word}">{text}</span>'])
    word = "kept" if outcome.word == "passed" else outcome.word
    head = f'<p>Audit: <span class="{word}">{outcome.word}</span>; {outcome.checked.rows:,} rows, '
    head += f"{outcome.checked.events:,} events.</p>"
    names = ("run", "promise", "channel", "node", "source", "number", "at", "expected")
    broken = [[escape(str(getattr(each, name))) for name in names] for each in outcome.violations[:50]]
    faults = [
        list(map(escape, (fault.run, fault.writer, fault.file, fault.reason)))
        for fault in outcome.faults[:50]
    ]
    return "".join(
        [
            "<h2>Promises</h2>",
            head,
            _table(("run", "channel", "promise", "result"), said),
            _table(names, broken) if broken else "",
            _table(("run", "writer", "file", "what is missing"), faults) if faults else "",
        ]
    )


def _cards(cards: Sequence[Row]) -> str:
    if not cards:
        return "<p>No channel was opened.</p>"
    names = [name for name in cards[0].asDict() if name not in ("run", "channel")]
    rows_of_names = []
    for name in names:
        cells = [_number(name, card[name]) for card in cards]
        rows_of_names.append([escape(name.replace("_", " ") + _unit(name)), *cells])
    return _table(["", *(f"{escape(card.run)}, {escape(card.channel)}" for card in cards)], rows_of_names)


def _unit(name: str) -> str:
    return ", ms" if name.startswith("latency") or name == "jitter" else ""


def _number(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if _unit(name):
        return f"{value / MILLISECOND:,.2f}"
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else escape(f"{value:,}" if isinstance(value, int) else value)
    )


def _table(head: Iterable[str], body: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    lines = []
    for row in body:
        cells = (f"<td{' class=number' if cell[:1].isdigit() else ''}>{cell}</td>" for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _page(title: str, parts: Iterable[str]) -> str:
    style = files("gossamer.pipeline").joinpath("report.css").read_text()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )
