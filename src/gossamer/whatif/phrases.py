"""What a report says in words: for readers who know neither the papers nor the settings."""

from __future__ import annotations

from typing import Any

from gossamer.whatif.script import Question
from gossamer.whatif.topology import Topology, shape

GLOSSARY = (
    ("dispatcher", "a server that takes events and passes them on to whoever wants them."),
    (
        "agent",
        "a program at a site. Sources publish events, sinks listen; proactive agents publish requests and "
        "wait for answers, reactive agents listen and answer.",
    ),
    (
        "spreading coefficient",
        "how far interest in events reaches, from 0 to 1. An event has listeners n hops from where it was "
        "published with this number to the power of n as the probability: at 0 everything stays where it "
        "began, at 1 somebody listens at every distance.",
    ),
    (
        "subscription",
        "as a way to propagate: listeners tell what they want toward the core, and every event goes there, "
        "wanted or not, and from there to its listeners.",
    ),
    (
        "advertisement",
        "as a way to propagate: publishers tell beforehand what they are going to publish, wishes are passed "
        "on to them, and an event goes only where somebody listens.",
    ),
    (
        "core",
        "the dispatchers that see every event under “subscription”: the root of a hierarchy, all of a ring.",
    ),
    (
        "utilisation",
        "what a link is asked to carry in one direction, as a share of what it can. Above 100 % a queue "
        "grows without end: the link is saturated.",
    ),
    (
        "filter",
        "one wish or one advertisement, as dispatchers tell them to each other. Control overhead counts "
        "filters per event.",
    ),
    (
        "± and bars",
        "the interval in which the true mean lies with a confidence of 95 %, from runs with different seeds.",
    ),
)

_KINDS = {
    "centralised": "one dispatcher that serves {n} sites",
    "hierarchy": "a hierarchy of {n} dispatchers, each with up to {arity} below it",
    "acyclic": "an acyclic graph of {n} dispatchers",
    "ring": "a ring of {n} dispatchers",
    "multiring": "{n} dispatchers on a ring with inner rings, each with every {ratio}th of the one around it",
    "ringtree": "{n} dispatchers: a ring of {ring}, each the root of a tree with {arity} below each node",
}
_SIMPLE = {
    "propagation": "",
    "topology.kind": "",
    "traffic.spread": "spreading coefficient",
    "traffic.rate": "events per second and agent",
}
LIMITS = {
    "root": ("busiest dispatcher of the core", "events/s", 1.0),
    "dispatcher": ("busiest dispatcher", "events/s", 1.0),
    "busy": ("dispatchers at work", "% of the time", 100.0),
    "link": ("fullest link", "% of its bandwidth", 100.0),
    "latency": ("latency on average", "ms", 1000.0),
    "overhead": ("filters at the core", "% of events", 100.0),
    "traffic": ("events at all dispatchers", "events/s", 1.0),
    "control": ("filters told in all", "", 1.0),
}
"""What a figure is called, its unit, and what it is multiplied with."""


def network(topology: Topology) -> str:
    """A topology in words."""
    said = _KINDS[topology.kind].format(
        n=topology.dispatchers, arity=topology.arity, ratio=topology.ratio, ring=topology.ring
    )
    return f"{said}, with {topology.hosts} hosts at each site" if topology.hosts else said


def traffic(question: Question) -> str:
    """The agents of a site in words."""
    own = question.traffic
    counts = (
        (own.sources, "sources"),
        (own.sinks, "sinks"),
        (own.proactive, "proactive agents"),
        (own.reactive, "reactive agents"),
    )
    agents = ", ".join(f"{count} {name}" for count, name in counts if count)
    return (
        f"At each site there are {agents}. Sources and proactive agents publish {own.rate:g} events per "
        f"second each, at random times, of {own.size} bytes; each has {own.kinds} kinds of events with "
        f"listeners of their own. {question.window:g} seconds are looked at."
    )


def links(question: Question) -> str:
    """Links and dispatchers in words."""
    link, own = question.link, question.dispatcher
    speed = f"{link.bandwidth * 8 / 1000:g} kbit/s" if link.bandwidth else "no limit to their bandwidth"
    work = f" Dispatchers work {own.event * 1000:g} ms on an event." if own.event else ""
    return f"Links have {speed} and a latency of {link.latency * 1000:g} ms.{work}"


def name(key: str) -> str:
    """A setting by itself, such as below an axis."""
    return _SIMPLE.get(key) or key


def setting(key: str, value: Any) -> str:
    """A setting and its value, as short as it can be understood."""
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    said = _SIMPLE.get(key, key)
    return f"{said} {shown}" if said else shown


def settings(own: dict[str, Any]) -> str:
    """Several of them."""
    return ", ".join(setting(key, value) for key, value in own.items()) or "as described"


def levels(question: Question) -> list[str]:
    """What levels are called; if topologies are compared, by their distance from the core."""
    if any(key.startswith("topology") for key in question.sweep):
        return ["core"]
    return shape(question.topology).level_names()


def number(value: float | None, scale: float = 1.0) -> str:
    """A figure for people."""
    if value is None:
        return "–"
    value *= scale
    if value != value or value in (float("inf"), float("-inf")):
        return "no end"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
