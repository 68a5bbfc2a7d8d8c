"""The page that answers a question: recommendation, pictures, figures, and how they were found.

The page is self-contained: pictures are inside, nothing is fetched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from gossamer.pipeline.pictures import MAX_LINES, topology
from gossamer.pipeline.sweep import Failure
from gossamer.simulator.scenario.variation import varied
from gossamer.whatif import phrases as words
from gossamer.whatif.advice import Breach, Verdict, axis
from gossamer.whatif.pictures import Panel, panels
from gossamer.whatif.script import Question
from gossamer.whatif.summary import Case, Estimate
from gossamer.whatif.topology import shape

MOST_ROWS = 300
MOST_DRAWN = 6
"""Topologies of which a picture is made."""


def page(
    question: Question, found: Sequence[Case], verdicts: Sequence[Verdict], failures: Sequence[Failure] = ()
) -> str:
    """The whole report."""
    parts = [
        _about(question),
        recommendation(question, verdicts),
        _designs(question, verdicts),
        _pictures(question, found),
        _side_by_side(question, found),
        _networks(question, found),
        method(question, found, failures),
        _glossary(),
    ]
    title = f"What if: {question.name or 'a question'}"
    style = files("gossamer.pipeline").joinpath("report.css").read_text()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def _about(question: Question) -> str:
    swept = "".join(
        f"<li>{escape(words.setting(key, '').strip() or key)}: "
        f"{escape(', '.join(words.setting('propagation', each) for each in values))}</li>"
        for key, values in question.sweep.items()
    )
    varied_ = f"<p>What was tried, in all combinations:</p><ul>{swept}</ul>" if swept else ""
    kinds = any(key.startswith("topology") for key in question.sweep)
    place = "" if kinds else f"The network is {words.network(question.topology)}. "
    interest = ""
    if question.interest is not None:
        interest = f" Interest spreads along {words.network(question.interest)}, whatever is examined."
    return (
        f"{_paragraph(question.about)}<p>{escape(place + words.traffic(question))} "
        f"{escape(words.links(question) + interest)}</p>{varied_}"
    )


def recommendation(question: Question, verdicts: Sequence[Verdict]) -> str:
    """Which design to take, and whether it keeps the limits."""
    asked = _limits(question)
    said = "; ".join(f"{_named(key)} at most {_with_unit(key, most)}" for key, most in asked.items())
    head = f"<p>Limits: {escape(said)}.</p>" if said else "<p>No limits were given.</p>"
    best = verdicts[0] if verdicts else None
    if best is None:
        return ""
    design = f"<b>{escape(words.settings(best.design))}</b>"
    prefer = words.LIMITS[{"load": "dispatcher"}.get(question.prefer, question.prefer)][0]
    if best.good and asked:
        text = f'<span class="kept">Take</span> {design}: it keeps all limits in all {best.cases} cases'
        others = sum(each.good for each in verdicts) - 1
        text += f", and of {others + 1} designs that do it has the lowest {prefer}." if others else "."
    elif asked:
        text = f'<span class="violated">No design keeps all limits in all cases.</span> Nearest is {design}, '
        until = "" if best.until is None else f", up to {words.setting(axis(question), best.until)}"
        text += f"which keeps them in {best.kept} of {best.cases}{escape(until)}."
    else:
        text = f"By {prefer} the best is {design}."
    return f"<h2>Recommendation</h2><p>{text}</p>{head}"


def _limits(question: Question) -> dict[str, float]:
    return {
        name: most
        for name in question.limits.__struct_fields__
        if (most := getattr(question.limits, name)) is not None
    }


def _designs(question: Question, verdicts: Sequence[Verdict]) -> str:
    figures = list(verdicts[0].worst) if verdicts else []
    along = axis(question)
    head = ["design", "limits kept", *(f"worst: {_named(each)}" for each in figures)]
    head += (
        [f"saturates at {words.name(along)}: calculated", "simulated", "full first"]
        if along
        else ["full first"]
    )
    rows = []
    for each in verdicts:
        row = [escape(words.settings(each.design)), f"{each.kept} of {each.cases}"]
        row += [_with_unit(key, each.worst[key]) for key in figures]
        if along:
            row += [_crossing(each.calculated), _crossing(each.saturates)]
        full = f"{each.bottleneck} ({100 * each.fullest:.0f} %)" if each.bottleneck else "nothing has a limit"
        rows.append([*row, escape(full)])
    breaches = "".join(
        f"<li>{escape(words.settings(each.design))}: {_breach(broken)}</li>"
        for each in verdicts
        for broken in each.breaches
    )
    listed = f"<p>What is not kept:</p><ul>{breaches}</ul>" if breaches else ""
    return f"<h2>Designs</h2>{_table(head, rows)}{listed}"


def _breach(broken: Breach) -> str:
    reached, most = (_with_unit(broken.limit, each) for each in (broken.reached, broken.most))
    traffic = f" ({words.settings(broken.traffic)})" if broken.traffic else ""
    return escape(f"{_named(broken.limit)} reaches {reached} instead of {most} at worst{traffic}")


def _pictures(question: Question, found: Sequence[Case]) -> str:
    along = axis(question)
    if not along:
        return ""
    series: dict[str, list[Case]] = {}
    for case in found:
        rest = {key: value for key, value in case.settings.items() if key != along}
        series.setdefault(words.settings(rest) if rest else "", []).append(case)
    more = f" The first {MAX_LINES} of {len(series)} designs are drawn." if len(series) > MAX_LINES else ""
    lines = "Lines are calculated, points with bars simulated; dashed are limits." + more
    shown = [
        ("Events that a dispatcher receives", _load_panels(question), 3),
        ("Utilisation of links between dispatchers", _link_panels(question, found), 2),
        ("Latency, overhead, work", _other_panels(question, found), 3),
    ]
    drawn = "".join(
        f"<figure>{panels(chosen, series, along, columns)}<figcaption>{said}. {lines}</figcaption></figure>"
        for said, chosen, columns in shown
        if chosen
    )
    return f"<h2>Pictures</h2>{drawn}"


def _load_panels(question: Question) -> list[Panel]:
    label = f"events in {question.window:g} s"
    limit = question.limits.root
    return [
        Panel(name, label, f"load_{level}", limit=limit * question.window if limit and level == 0 else None)
        for level, name in enumerate(words.levels(question))
    ]


def _link_panels(question: Question, found: Sequence[Case]) -> list[Panel]:
    """A row for each level of links: toward the core on the left, away from it on the right."""
    if not question.link.bandwidth and not any(key.startswith("link") for key in question.sweep):
        return []
    columns = sorted({name for case in found for name in case.calculated if name.startswith("toward_")})
    names = words.levels(question)
    shown = []
    for column in columns:
        level = int(column.removeprefix("toward_"))
        inner, outer = _level(names, max(0, level - 1)), _level(names, level)
        pair = f"{outer} → {inner}" if level else "within the core, one way"
        back = f"{inner} → {outer}" if level else "within the core, the other way"
        shown.append(Panel(pair, "utilisation, %", column, 100.0, question.limits.link or 1.0))
        shown.append(Panel(back, "utilisation, %", f"away_{level}", 100.0, question.limits.link or 1.0))
    return shown


def _level(names: Sequence[str], level: int) -> str:
    return names[level] if level < len(names) else f"{level} from the core"


def _other_panels(question: Question, found: Sequence[Case]) -> list[Panel]:
    limits = question.limits
    shown = [Panel("latency", "ms, on average", "latency", 1000.0, limits.latency)]
    if any(case.estimate("overhead") for case in found):
        shown.append(Panel("filters at the core", "% of events", "overhead", 100.0, limits.overhead))
        shown.append(Panel("of these, for advertisements", "% of events", "advertising", 100.0))
    if question.dispatcher.event:
        shown.append(Panel("busiest dispatcher", "% of the time", "busy", 100.0, limits.busy))
    return shown


def _side_by_side(question: Question, found: Sequence[Case]) -> str:
    names = words.levels(question)
    figures = [(f"load_{level}", f"{name}, events", 1.0) for level, name in enumerate(names)]
    if question.link.bandwidth:
        figures.append(("link", "fullest link, %", 100.0))
    figures.append(("latency", "latency, ms", 1000.0))
    head = ["", *(said for _, said, _ in figures), "overhead at the core"]
    rows = []
    for case in found[:MOST_ROWS]:
        cells = [_pair(case, figure, scale) for figure, _, scale in figures]
        rows.append([escape(words.settings(case.settings)), *cells, _overhead(case)])
    more = f"<p>The first {MOST_ROWS} of {len(found)} configurations.</p>" if len(found) > MOST_ROWS else ""
    note = (
        "<p>In each field: what was calculated, what was simulated, and how far that is off. "
        "Overhead: filters that the busiest dispatcher of the core was told, as a share of the events "
        "that it received; behind it the part that advertisements are the reason for.</p>"
    )
    return f"<h2>Calculated and simulated, side by side</h2>{_table(head, rows)}{more}{note}"


def _pair(case: Case, figure: str, scale: float) -> str:
    calculated, told = case.forecast(figure), case.estimate(figure)
    off = ""
    if told and calculated and math.isfinite(calculated):
        off = f"{100 * (told.mean / calculated - 1):+.1f} %"
    return f"{words.number(calculated, scale)}<br>{_interval(told, scale)}<br>{off or '–'}"


def _interval(told: Estimate | None, scale: float) -> str:
    if told is None:
        return "–"
    half = f" ± {words.number(told.half, scale)}" if math.isfinite(told.half) else ""
    return f"{words.number(told.mean, scale)}{half}"


def _overhead(case: Case) -> str:
    every, extra = case.estimate("overhead"), case.estimate("advertising")
    if every is None or extra is None:
        return "–"
    return f"{_interval(every, 100.0)} %<br>({_interval(extra, 100.0)} %)"


def _networks(question: Question, found: Sequence[Case]) -> str:
    """A picture of each topology that was tried, with the loads of its last case."""
    shown: dict[str, str] = {}
    for case in found:
        own = varied(question, case.settings).topology
        made = shape(own)
        if made.size < 2 or made.size > 200:
            continue
        run = case.simulated[0] if case.simulated else case.calculated
        weights = {(made.names[a], made.names[b]): up + down for a, b, up, down in json.loads(run["links"])}
        loads = dict(zip(made.names, json.loads(run["loads"]), strict=True))
        said = f"{words.network(own)}; size by events, width by utilisation"
        shown[words.network(own)] = (
            f"<figure>{topology(weights, loads)}<figcaption>{escape(said)}</figcaption></figure>"
        )
    drawn = "".join(list(shown.values())[:MOST_DRAWN])
    return f"<h2>Networks</h2>{drawn}" if drawn else ""


def method(question: Question, found: Sequence[Case], failures: Sequence[Failure]) -> str:
    """How figures were found, and what failed."""
    checked = [agreed for case in found for agreed in case.checked]
    methods = {str(run["method"]) for case in found for run in case.simulated}
    topologies = [varied(question, case.settings).topology for case in found]
    lean = sorted({own.kind for own in topologies if not own.has_template})
    said = ["Calculated means closed forms; their waiting times are an approximation, their loads are not."]
    if "template" in methods:
        said.append("Simulations ran the dispatch template itself, the code that runs on real networks.")
    if "model" in methods:
        said.append("Simulations ran a lean model of dispatching, with the same clock, links and traffic.")
    if checked:
        said.append(
            f"{len(checked)} runs were made with the dispatch template itself too: in {sum(checked)} of them "
            "every dispatcher received the same events and the same filters."
        )
    if lean:
        said.append(
            f"There is no template for these topologies yet, so they were simulated by the model only: "
            f"{', '.join(lean)}."
        )
    said.append(f"Every run is a row of sweep.parquet; master seed {question.seed}.")
    failed = "".join(f"<li>{escape(each.reason)}</li>" for each in failures)
    listed = f'<p class="violated">{len(failures)} runs failed:</p><ul>{failed}</ul>' if failures else ""
    return f"<h2>How this was found</h2>{_paragraph(' '.join(said))}{listed}"


def _glossary() -> str:
    listed = "".join(f"<li><b>{escape(word)}</b>: {escape(said)}</li>" for word, said in words.GLOSSARY)
    return f"<h2>Words</h2><ul>{listed}</ul>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _named(figure: str) -> str:
    return words.LIMITS[figure][0]


def _with_unit(figure: str, value: float) -> str:
    _, unit, scale = words.LIMITS[figure]
    return f"{words.number(value, scale)} {unit}".strip()


def _crossing(at: float | None) -> str:
    return "not in this range" if at is None else f"{at:.3g}"


def _table(head: Iterable[str], body: Iterable[Sequence[Any]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    lines = []
    for row in body:
        cells = (f"<td{' class=number' if cell[:1].isdigit() else ''}>{cell}</td>" for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
