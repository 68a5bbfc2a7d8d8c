"""A simulated node as the world keeps it: its engine while it is up, its inbox, timers, clock and lanes.

Only state; the world decides what happens.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gossamer.core.engine import Engine
from gossamer.core.names import Role, nanoseconds
from gossamer.core.trace import ORDERED, PARCEL, STORED, Recorder, Row
from gossamer.core.wire import Item
from gossamer.links.clocks import Offset
from gossamer.simulator.clock import Clock
from gossamer.simulator.network.access_lines import Line
from gossamer.simulator.network.link_models import Lane, LinkModel, NodeModel, Skew
from gossamer.simulator.workload.observers import Witness


class Way(Lane):
    """A lane of one life of a sender. What is lost on it is traced by that life, even after its end."""

    __slots__ = ("congested", "engine", "measured", "model", "offset", "receiver", "sender", "up")

    def __init__(self, model: LinkModel, sender: Host, engine: Engine, receiver: Host) -> None:
        super().__init__(model)
        self.model = model
        self.sender = sender.name
        self.engine = engine
        self.receiver = receiver
        self.up = self.congested = False
        self.offset: Offset | None = None
        """How far the receiver believes the sender's clock to be from its own, once one of them was wrong."""
        self.measured = 0


class Host:
    """One node.

    engine
        None while the node is down.
    models
        Neighbours by name, and the model of the link to each; outlives crashes.
    since
        The instant at which it began its present life, moved, or went on after a pause.
    stored
        Small values on the node's disk, by key; they outlive crashes.
    ways
        Lanes to neighbours, of the present life.
    late
        Inputs that wait for the end of a pause: name of an engine's method and arguments.
    work
        The item that the server works on, and who sent it.
    serving
        Handle of the end of that work; None if it came during a pause and waits for the end of it.
    """

    __slots__ = (
        "clock",
        "containers",
        "costs",
        "disk",
        "engine",
        "free",
        "inbox",
        "late",
        "life",
        "limit",
        "line",
        "models",
        "name",
        "paused",
        "recorder",
        "role",
        "serving",
        "since",
        "skew",
        "stored",
        "wakes",
        "ways",
        "witnesses",
        "work",
    )

    def __init__(
        self, name: str, role: Role, model: NodeModel, clock: Clock, recorder: Recorder | None
    ) -> None:
        self.name = name
        self.role = role
        self.clock = clock
        self.recorder = recorder
        self.costs = {
            "parcel": nanoseconds(model.parcel),
            "feedback": nanoseconds(model.feedback),
            "control": nanoseconds(model.control),
        }
        self.free = not any(self.costs.values())
        self.limit = model.inbox
        self.disk = nanoseconds(model.disk)
        self.life = 0
        self.since = 0
        self.models: dict[str, LinkModel] = {}
        self.containers: dict[str, Any] = {}
        self.stored: dict[str, bytes] = {}
        self.witnesses: list[Witness] = []
        self.skew: Skew | None = None
        self.line: Line | None = None
        self.engine: Engine | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all that belongs to one life."""
        self.ways: dict[str, Way] = {}
        self.wakes: dict[tuple[int, str], int] = {}
        self.inbox: deque[tuple[str, Item]] = deque()
        self.late: list[tuple[str, tuple[Any, ...]]] = []
        self.work: tuple[str, Item] | None = None
        self.serving: int | None = None
        self.paused = 0

    def time(self, past: int = 0) -> int:
        """What the node's clock shows, or would have shown so many nanoseconds ago."""
        at = self.clock.now - past
        return at if self.skew is None else self.skew.local(at)

    def record(self, row: Row) -> None:
        """Pass a row on with true time; the engine knows only its own clock."""
        assert self.recorder is not None
        if self.skew is not None:
            value = row[-1]
            if row[4] == PARCEL and row[5] not in (ORDERED, STORED) and value:  # a deadline, and no place
                value = self.skew.true(self.clock.now, self.time(), value)
            row = (row[0], self.clock.now, *row[2:-1], value)
        self.recorder(row)
