"""Lives of nodes: how they begin, end, pause and go wrong, and who is told.

A crash is the end of a process: state, timers and inbox are gone, what it had handed to its links still
arrives, be it at a later life of the target. Neighbours notice after a while, or when the node is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gossamer.core.context import STORED
from gossamer.core.engine import Engine
from gossamer.core.names import nanoseconds
from gossamer.core.template import Template
from gossamer.simulator.clock import NETWORK
from gossamer.simulator.dice import SeededDice, derive
from gossamer.simulator.effects import CRASHED, Carrier
from gossamer.simulator.host import Host, Way
from gossamer.simulator.network import rules
from gossamer.simulator.network.link_models import Skew

if TYPE_CHECKING:
    from gossamer.simulator.world import World


class Lives:
    """Begins and ends lives.

    detection
        Nanoseconds after which neighbours notice a crash.
    shared
        Containers that every life of every node begins with.
    """

    def __init__(
        self,
        world: World,
        carrier: Carrier,
        services: Callable[[Mapping[str, bytes]], Iterable[Template[Any]]],
        detection: int,
    ) -> None:
        self.shared: dict[str, Any] = {}
        self._world = world
        self._clock = world.clock
        self._carrier = carrier
        self._services = services
        self._detection = detection

    def crash(self, host: Host, _: object) -> None:
        """End a life without a word."""
        engine = host.engine
        if engine is None:
            return
        self._carrier.disturb()
        for handle in host.wakes.values():
            self._clock.cancel(handle)
        if host.serving is not None:
            self._clock.cancel(host.serving)
        waiting = ([host.work] if host.work else []) + list(host.inbox)
        for sender, item in waiting:
            self._carrier.lose(host, engine, sender, item, CRASHED)
        host.engine = None
        self._carrier.tally.close(engine)
        self._carrier.storage.crash(host)
        host.reset()
        for witness in host.witnesses:
            witness.stopped(self._world, host.name, host.life)
        noticed = self._clock.now + self._detection
        self._clock.schedule(noticed, NETWORK, self._notice, host, host.life)

    def _notice(self, host: Host, life: int) -> None:
        """The neighbours find out, unless the node is back and they know already."""
        if host.life == life:
            for name in host.models:
                self.part(self._carrier.hosts[name], host)

    def restart(self, host: Host, _: object) -> None:
        """Begin the next life of a node that is down."""
        if host.engine is None:
            self.start(host)

    def start(self, host: Host) -> None:
        """Begin a life: containers, channels, links to those who are up."""
        self._carrier.disturb()
        host.life += 1
        host.since = self._clock.now
        host.engine = Engine(
            host.name,
            role=host.role,
            incarnation=host.life,
            templates=self._world.templates,
            services=self._services(dict(host.stored)),
            dice=_DiceOf(self._world.seed, host.name, host.life),
            secret=derive(self._world.seed, host.name, 0, "secret"),
            recorder=None if host.recorder is None else host.record,
        )
        stored = {STORED: dict(host.stored)} if host.stored else {}
        for name, value in (self.shared | host.containers | stored).items():
            self._carrier.tell(host, "set", name, value)
        for entry in self._carrier.channels.values():
            self._carrier.tell(host, "run", entry)
        for name in host.models:
            other = self._carrier.hosts[name]
            self.part(other, host)
            self.join(host, other)
        for witness in host.witnesses:
            witness.started(self._world, host.name, host.life)

    def join(self, one: Host, other: Host) -> None:
        """Bring up both lanes between two nodes, if both are up, and tell both."""
        if one.engine is None or other.engine is None:
            return
        pairs = ((one, one.engine, other), (other, other.engine, one))
        for sender, engine, receiver in pairs:
            way = sender.ways.get(receiver.name)
            if way is None:
                model = sender.models[receiver.name]
                way = sender.ways[receiver.name] = Way(model, sender, engine, receiver)
            way.up = True
        for sender, _, receiver in pairs:
            self._carrier.tell(sender, "linked", receiver.name)

    def part(self, host: Host, lost: Host) -> None:
        """Tell a node that its link to another is down, if it believes otherwise."""
        way = host.ways.get(lost.name)
        if way is not None and way.up:
            way.up = False
            self._carrier.tell(host, "unlinked", lost.name)

    def pause(self, host: Host, end: float) -> None:
        """Let a node handle nothing until an instant, in seconds."""
        if host.engine is not None:
            host.paused += 1
            self._clock.appoint(nanoseconds(end), self._resume, host, host.life)

    def _resume(self, host: Host, life: int) -> None:
        if host.life != life or not host.paused:
            return
        self._carrier.disturb()
        host.paused -= 1
        if host.paused:
            return
        host.since = self._clock.now
        late, host.late = host.late, []
        for method, arguments in late:
            self._carrier.tell(host, method, *arguments)
        if host.serving is None:
            self._carrier.finish(host)
        self._carrier.serve(host)
        for witness in host.witnesses:
            witness.started(self._world, host.name, host.life)

    def skew(self, host: Host, skew: rules.ClockSkew | None) -> None:
        """Put a clock wrong, or right with None."""
        if skew is None:
            host.skew = None
        else:
            host.skew = Skew(host.time() + nanoseconds(skew.offset), self._clock.now, skew.drift)


class _DiceOf:
    """Makes the dice of one life of a node, by label."""

    __slots__ = ("_life", "_node", "_seed")

    def __init__(self, seed: int, node: str, life: int) -> None:
        self._seed, self._node, self._life = seed, node, life

    def __call__(self, label: str) -> SeededDice:
        return SeededDice(self._seed, self._node, self._life, label)
