"""What a what-if file says: a network, its traffic, what to vary, and the limits that a design has to keep.

Bad files fail before anything runs, with a ConfigError that names the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.analysis.dispatch import weights_of
from gossamer.core.config import parse, wrong
from gossamer.core.errors import ConfigError
from gossamer.core.event import MAX_PAYLOAD
from gossamer.simulator.network.link_models import MAX_QUEUE, LinkModel, Probability, Seconds
from gossamer.simulator.scenario.keys import naming
from gossamer.simulator.scenario.variation import Value, varied
from gossamer.whatif.topology import Topology, shape

Count = Annotated[int, Meta(ge=0, le=10_000)]
MOST_AGENTS = 1_000_000
MOST_CONFIGURATIONS = 100_000


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What agents do at each site (seed 002, section 4). Who does two of these is counted as two agents.

    sources
        Agents that publish, at times that follow a Poisson process.
    sinks
        Agents that listen to some of what sources publish.
    proactive
        Agents that publish requests like sources and listen to the answers.
    reactive
        Agents that listen to some requests and answer each with an event for who asked.
    rate
        Events per second of each source and each proactive agent, on average.
    spread
        The spreading coefficient: a kind of event has listeners at n hops with probability spread ** n.
    listeners
        How many agents at one distance listen, if any does: a number, or probabilities of 1, 2, 3 and so on.
    kinds
        Kinds of events of each source and proactive agent; each kind has listeners of its own.
    similarity
        The chance that a kind has the same listeners as the one before it: 0 makes many narrow subscriptions,
        1 few wide ones. What is heard where does not depend on it.
    size
        Bytes of each payload.
    """

    sources: Count = 10
    sinks: Count = 10
    proactive: Count = 0
    reactive: Count = 0
    rate: Annotated[float, Meta(gt=0, le=1e6)] = 0.1
    spread: Probability = 0.5
    listeners: int | tuple[float, ...] = 1
    kinds: Annotated[int, Meta(ge=1, le=1000)] = 10
    similarity: Probability = 0.0
    size: Annotated[int, Meta(ge=0, le=MAX_PAYLOAD)] = 100

    @property
    def agents(self) -> int:
        """Of all kinds at one site."""
        return self.sources + self.sinks + self.proactive + self.reactive


class Dispatcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a dispatcher works on a message, in seconds: an event, a message about filters."""

    event: Seconds = 0.0
    control: Seconds = 0.0


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a good design keeps; what is not given is not asked for.

    root
        Events per second that the busiest dispatcher of the core receives: the root of a hierarchy, any
        dispatcher of a ring.
    dispatcher
        Events per second that any dispatcher receives.
    busy
        Share of the time that any dispatcher works.
    link
        Utilisation of any link between dispatchers in its busier direction, 0 to 1.
    latency
        Seconds from publication to delivery, on average.
    overhead
        Filters per event that a dispatcher of the core receives.
    """

    root: Annotated[float, Meta(gt=0)] | None = None
    dispatcher: Annotated[float, Meta(gt=0)] | None = None
    busy: Annotated[float, Meta(gt=0, le=1)] | None = None
    link: Annotated[float, Meta(gt=0, le=1)] | None = None
    latency: Annotated[float, Meta(gt=0)] | None = None
    overhead: Annotated[float, Meta(gt=0)] | None = None


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a what-if asks.

    window
        Seconds of traffic that are looked at.
    runs
        Simulations of each configuration, each with another seed; 0 only calculates.
    engine
        ``template`` simulates with the dispatch template itself, ``model`` with a lean model of it that takes
        a tenth of the time. ``both`` takes the model, and the template too for the first ``checked`` runs of
        each configuration, to see that they agree.
    checked
        See engine. Where no template makes the topology yet, nothing is checked.
    propagation
        ``subscription``: events go to the core, and to listeners. ``advertisement``: to listeners only.
    interest
        The topology along which interest spreads, if it is not the one that is examined: so different
        topologies are compared under the same interest.
    sweep
        Settings by their paths (``traffic.spread``), each with the values to try; all combinations are.
    prefer
        Of designs that keep the limits equally well, the one with the least of this is best.
    file
        Where it was loaded from; ``load`` sets it.
    """

    name: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    about: str = ""
    topology: Topology = Topology()
    traffic: Traffic = Traffic()
    window: Annotated[float, Meta(gt=0, le=1e7)] = 60.0
    runs: Annotated[int, Meta(ge=0, le=10_000)] = 5
    seed: Annotated[int, Meta(ge=0, le=2**62)] = 1
    engine: Literal["both", "template", "model"] = "both"
    checked: Annotated[int, Meta(ge=0)] = 1
    propagation: Literal["subscription", "advertisement"] = "subscription"
    interest: Topology | None = None
    link: LinkModel = LinkModel()
    dispatcher: Dispatcher = Dispatcher()
    limits: Limits = Limits()
    prefer: Literal["latency", "load", "traffic", "control"] = "latency"
    sweep: dict[str, tuple[Value, ...]] = {}
    file: str = ""

    @property
    def lanes(self) -> LinkModel:
        """Links as events find them: what does not fit waits, since it is handed over until it arrives."""
        return msgspec.structs.replace(self.link, queue=MAX_QUEUE)


def load(path: str | Path) -> Question:
    """Read a what-if file; raises ConfigError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"the file cannot be read: {reason}", file=str(path)) from None
    return read(text, str(path))


def read(text: str, file: str = "") -> Question:
    """A question from TOML, with all that it sweeps checked; raises ConfigError."""
    question = parse(text, Question, file)
    question = msgspec.structs.replace(question, name=question.name or Path(file).stem, file=file)
    _check_sweep(question, text)
    for key, values in question.sweep.items():
        for value in values:
            check(varied(question, {key: value}))
    check(question)
    return question


def _check_sweep(question: Question, text: str) -> None:
    total = 1
    for key, values in question.sweep.items():
        if not values:
            raise wrong("it has no values to try", ("sweep", key), text, question.file)
        if key.split(".")[0] in ("sweep", "limits", "prefer", "file", "name", "runs", "seed"):
            raise wrong(f"{key!r} is nothing to vary", ("sweep", key), text, question.file)
        total *= len(values)
    if total > MOST_CONFIGURATIONS:
        raise wrong(f"{total} combinations: at most {MOST_CONFIGURATIONS}", ("sweep",), text, question.file)


def check(question: Question) -> None:
    """Raise ConfigError for what no single field can know to be wrong."""
    traffic = question.traffic
    with naming("traffic"):
        weights_of(traffic.listeners if isinstance(traffic.listeners, int) else list(traffic.listeners))
    if traffic.proactive and not traffic.reactive:
        raise _wrong(question, "nobody answers: proactive agents need reactive ones", "traffic.reactive")
    if not traffic.sources and not traffic.proactive:
        raise _wrong(
            question, "nobody publishes: there are no sources and no proactive agents", "traffic.sources"
        )
    agents = traffic.agents * question.topology.dispatchers
    if agents > MOST_AGENTS:
        raise _wrong(question, f"{agents} agents in all: at most {MOST_AGENTS}", "traffic")
    if question.engine == "template" and not question.topology.has_template:
        kind = question.topology.kind
        raise _wrong(question, f"no template makes a {kind} yet: take model or both", "engine")
    for key, topology in (("topology", question.topology), ("interest", question.interest)):
        if topology is not None:
            with naming(key):
                shape(topology)
    if question.interest and question.interest.dispatchers != question.topology.dispatchers:
        own, other = question.topology.dispatchers, question.interest.dispatchers
        raise _wrong(
            question, f"{other} sites, but the topology has {own}: make them equal", "interest.dispatchers"
        )


def _wrong(question: Question, reason: str, key: str) -> ConfigError:
    return ConfigError(reason, key=key, file=question.file)
