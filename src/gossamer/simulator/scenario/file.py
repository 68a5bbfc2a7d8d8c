"""What a scenario file says: a network, its channels, agents and faults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.core.config import parse
from gossamer.core.errors import ConfigError
from gossamer.core.event import DEFAULT_PRIORITY, MAX_PAYLOAD
from gossamer.overlay.backbone.setup import MonitorSettings
from gossamer.simulator.network import rules
from gossamer.simulator.network.link_models import LinkModel, NodeModel, Probability
from gossamer.simulator.network.topology import Network

Plain = str | int | float | bool
Size = Annotated[int, Meta(ge=0, le=MAX_PAYLOAD)]
Instant = rules.Instant
Mean = Annotated[float, Meta(gt=0, le=1e9)]
Tier = Literal["backbone", "secondary", "client"]


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel that runs on all nodes."""

    name: str
    template: str
    settings: dict[str, Plain] = {}


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publishers, one per chosen node.

    nodes, role, pick
        Which nodes: all if none are named, or all of a role; of these, so many at random with ``pick``.
    rate, poisson, size, limit, start, end, attributes
        See agents.Publisher. An attribute is a value, or a list of values to choose from.
    priority, expiry
        Wishes of all events.
    """

    channel: str
    rate: Annotated[float, Meta(gt=0, le=1e6)]
    nodes: tuple[str, ...] = ()
    role: Tier | None = None
    pick: Annotated[int, Meta(ge=1)] | None = None
    poisson: bool = False
    size: Size = 100
    limit: Annotated[int, Meta(ge=1)] | None = None
    start: Instant = 0.0
    end: Instant | None = None
    attributes: dict[str, Plain | Annotated[tuple[Plain, ...], Meta(min_length=1)]] = {}
    priority: Annotated[int, Meta(ge=0, le=9)] = DEFAULT_PRIORITY
    expiry: Annotated[float, Meta(gt=0, le=10 * 365 * 86400)] | None = None


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Advertisements, one per chosen node, on a channel that wants them (``[[advertise]]``).

    nodes, role, pick
        As for publishers.
    criteria
        What events the node is going to publish; none means any.
    """

    channel: str
    nodes: tuple[str, ...] = ()
    role: Tier | None = None
    pick: Annotated[int, Meta(ge=1)] | None = None
    criteria: tuple[tuple[str, str, Plain], ...] = ()


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subscribers, one per chosen node.

    nodes, role, pick
        As for publishers.
    criteria
        Triples of attribute, operator and value, all of which must hold.
    join, leave
        Seconds.
    over
        Seconds over which they join, each at an instant by chance.
    stay, away
        Seconds that a subscriber stays and is away in turn between these, on average, exponentially
        distributed; both or neither.
    history
        Whether they want everything that was ever published, before what is published now.
    feedback, feedback_size
        Share of the events that are answered, 0 to 1, and bytes of an answer.
    """

    channel: str
    nodes: tuple[str, ...] = ()
    role: Tier | None = None
    pick: Annotated[int, Meta(ge=1)] | None = None
    criteria: tuple[tuple[str, str, Plain], ...] = ()
    history: bool = False
    join: Instant = 0.0
    over: Instant = 0.0
    leave: Instant | None = None
    stay: Mean | None = None
    away: Mean | None = None
    feedback: Probability = 0.0
    feedback_size: Size = 10


class React(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publishers that answer events, one per chosen node; they hear what subscriptions of their node get.

    nodes, role, pick
        As for publishers.
    share, size, end
        See agents.Reactor.
    """

    channel: str
    share: Probability
    nodes: tuple[str, ...] = ()
    role: Tier | None = None
    pick: Annotated[int, Meta(ge=1)] | None = None
    size: Size = 100
    end: Instant | None = None


class Below(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes below others: secondary servers below the backbone, clients below either.

    role
        Of the new nodes.
    under
        Role of the nodes that they hang below.
    nodes, pick
        Which of those: all if none are named; of these, so many at random if ``pick`` is given.
    each
        How many below each of them. Below ``n7`` they are named ``n7-s1``, ``n7-s2`` … or ``n7-c1`` …
    """

    role: Literal["secondary", "client"]
    under: Literal["backbone", "secondary"] = "backbone"
    nodes: tuple[str, ...] = ()
    pick: Annotated[int, Meta(ge=1)] | None = None
    each: Annotated[int, Meta(ge=1, le=1000)] = 1


class Churn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that crash and come back at random.

    nodes, role, pick
        Which nodes, as for publishers.
    spare
        Nodes that are left alone.
    every
        Seconds between two crashes of a node, on average, exponentially distributed; time down aside.
    down
        Seconds until it comes back, on average, exponentially distributed too.
    start, end
        Seconds; nothing crashes before start or from end on, and by end all are back.
    """

    every: Mean
    down: Mean
    nodes: tuple[str, ...] = ()
    role: Tier | None = None
    pick: Annotated[int, Meta(ge=1)] | None = None
    spare: tuple[str, ...] = ()
    start: Instant = 0.0
    end: Instant | None = None


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients that change their server, at random and whenever it is down.

    nodes, role, pick
        Which nodes, as for publishers, of those that hang below a backbone node.
    every
        Seconds between two moves of a node, on average, exponentially distributed.
    start, end
        Seconds; nothing moves at random before start or from end on.
    """

    every: Mean
    nodes: tuple[str, ...] = ()
    role: Tier | None = "client"
    pick: Annotated[int, Meta(ge=1)] | None = None
    start: Instant = 0.0
    end: Instant | None = None


class Rolling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are restarted one after the other, as in a rolling upgrade.

    nodes, role, pick
        Which nodes, as for publishers, in the order of their names.
    start
        Seconds; when the first goes down.
    every, down
        Seconds between two of them, and that each is down.
    """

    every: Mean
    down: Mean
    nodes: tuple[str, ...] = ()
    role: Tier | None = "backbone"
    pick: Annotated[int, Meta(ge=1)] | None = None
    start: Instant = 0.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a run needs but its seed.

    duration
        Virtual seconds.
    name
        The file's name without its ending if not given.
    detection
        Seconds after which neighbours notice a crash.
    patience
        Seconds after an event, after the last fault and after a subscription began, by which whoever is
        promised the event has it: what is missing then, at the end of the run, is a promise broken.
    monitor
        Whether the nodes of a field run the monitoring services, which find the tree; or a table of their
        settings.
    file
        Where it was loaded from; ``load`` sets it.
    """

    network: Network
    duration: Annotated[float, Meta(gt=0, le=1e9)]
    name: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    detection: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    patience: Annotated[float, Meta(gt=0, le=1e9)] = 120.0
    monitor: bool | MonitorSettings = False
    link: LinkModel = LinkModel()
    node: NodeModel = NodeModel()
    channel: tuple[Channel, ...] = ()
    publish: tuple[Publish, ...] = ()
    subscribe: tuple[Subscribe, ...] = ()
    advertise: tuple[Offer, ...] = ()
    react: tuple[React, ...] = ()
    below: tuple[Below, ...] = ()
    churn: tuple[Churn, ...] = ()
    move: tuple[Move, ...] = ()
    rolling: tuple[Rolling, ...] = ()
    rule: tuple[rules.AnyRule, ...] = ()
    file: str = ""


def load(path: str | Path) -> Scenario:
    """Read a scenario file; raises ConfigError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"the scenario cannot be read: {reason}", file=str(path)) from None
    scenario = parse(text, Scenario, str(path))
    return msgspec.structs.replace(scenario, name=scenario.name or path.stem, file=str(path))
