"""What came of one configuration, calculated or simulated: the same figures in both cases."""

from __future__ import annotations

import msgspec
import numpy as np

from gossamer.whatif.script import Question
from gossamer.whatif.topology import Shape, shape

Row = dict[str, str | int | float | bool | None]


class Measures(msgspec.Struct, frozen=True):
    """Figures of one run; dispatchers and links are in the order of the shape.

    method
        ``analysis``, ``template`` or ``model``.
    loads
        Events that each dispatcher received in the window, those of its own agents included.
    busy
        Share of the time that each dispatcher works; more than 1 cannot be worked off.
    toward, away
        What each link is asked to carry toward the core and away from it, as a share of its bandwidth.
    access
        The same for links to hosts, on average: from hosts and to them.
    filters
        Filters that each dispatcher is told by other dispatchers; None where that is not calculated.
    extra
        Those among them for which advertisements are the reason.
    latency, latency_p99
        Seconds from publication to delivery: on average, and what one delivery of a hundred exceeds.
    published, deliveries
        Events, answers included; deliveries to agents.
    messages
        Control messages that each dispatcher received; the template puts several filters into one.
    """

    method: str
    loads: list[float]
    busy: list[float]
    toward: list[float]
    away: list[float]
    access: tuple[float, float]
    filters: list[float] | None
    extra: list[float] | None
    latency: float
    latency_p99: float | None
    published: float
    deliveries: float
    messages: list[float] | None = None

    @property
    def fullest(self) -> float:
        """The utilisation of the busiest thing there is: a link in one direction, or a dispatcher."""
        return max([*self.busy, *self.toward, *self.away, *self.access])


def row(measures: Measures, question: Question) -> Row:
    """The figures in columns: by level, the extremes, and everything as JSON."""
    made = shape(question.topology)
    core = list(made.core)
    found: Row = {"method": measures.method}
    for level in range(int(made.levels.max()) + 1):
        found[f"load_{level}"] = float(np.asarray(measures.loads)[made.levels == level].mean())
    found |= _link_columns(measures, made)
    found |= {
        "root": max(measures.loads[each] for each in core) / question.window,
        "dispatcher": max(measures.loads) / question.window,
        "busy": max(measures.busy),
        "link": max([0.0, *measures.toward, *measures.away]),
        "latency": measures.latency,
        "latency_p99": measures.latency_p99,
        "traffic": float(sum(measures.loads)) / question.window,
        "fullest": measures.fullest,
        "bottleneck": _bottleneck(measures, made),
        "published": float(measures.published),
        "deliveries": float(measures.deliveries),
    }
    found |= _control_columns(measures, core)
    found["loads"] = msgspec.json.encode(measures.loads).decode()
    found["links"] = msgspec.json.encode(
        [[a, b, to, fro] for (a, b), to, fro in zip(made.links, measures.toward, measures.away, strict=True)]
    ).decode()
    return found


def _link_columns(measures: Measures, made: Shape) -> Row:
    """Utilisation by the level of the dispatcher that is farther from the core."""
    found: Row = {}
    levels = np.array([made.levels[b] for _, b in made.links], int)
    for level in sorted(set(levels.tolist())):
        found[f"toward_{level}"] = float(np.asarray(measures.toward)[levels == level].mean())
        found[f"away_{level}"] = float(np.asarray(measures.away)[levels == level].mean())
    found["from_hosts"], found["to_hosts"] = measures.access
    return found


def _control_columns(measures: Measures, core: list[int]) -> Row:
    """Filters and what they cost beside events, at the core and in all."""
    if measures.filters is None or measures.extra is None:
        return {"filters": None, "control": None, "overhead": None, "advertising": None}
    busiest = max(core, key=lambda each: measures.loads[each])
    events = measures.loads[busiest] or 1.0
    return {
        "filters": float(measures.filters[busiest]),
        "control": float(sum(measures.filters)),
        "overhead": measures.filters[busiest] / events,
        "advertising": measures.extra[busiest] / events,
    }


def _bottleneck(measures: Measures, made: Shape) -> str:
    """The name of what is full first."""
    most = measures.fullest
    if most <= 0:
        return ""
    for place, busy in enumerate(measures.busy):
        if busy == most:
            return f"dispatcher {made.names[place]}"
    for (a, b), toward, away in zip(made.links, measures.toward, measures.away, strict=True):
        if most in (toward, away):
            first, last = (b, a) if toward == most else (a, b)
            return f"link {made.names[first]} → {made.names[last]}"
    return "links from hosts" if measures.access[0] == most else "links to hosts"
