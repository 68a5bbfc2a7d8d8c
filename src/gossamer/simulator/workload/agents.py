"""Agents: the applications of a simulated network. They publish, subscribe and answer by plan; others let
nodes crash and come back, or move from one server to another.

An agent lives on one node, rests while the node is down or paused, and takes up its plan afterwards. All
its chances come from dice of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from gossamer.core.context import SERVER, Dice
from gossamer.core.event import NO_QOS, Attributes, Criteria, Envelope, QoS, Value
from gossamer.core.names import NANOSECONDS, last, nanoseconds
from gossamer.core.operations import Advertise
from gossamer.core.parcel import Parcel
from gossamer.simulator.clock import APPLICATION, FAULT
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World


class Publisher:
    """Publishes on a node.

    rate
        Events per second: constant, with a random phase, or on average.
    poisson
        Whether the time between events is exponentially distributed instead of constant.
    size
        Bytes of each payload, which begins with the node and a running number if there is room.
    limit
        Most events ever; None sets no limit.
    start, end
        Seconds; publishes from start on and before end, or until the world ends.
    attributes
        Per name the values to choose from, anew for each event.
    """

    def __init__(
        self,
        world: World,
        node: str,
        channel: str,
        *,
        rate: float,
        poisson: bool = False,
        size: int = 100,
        limit: int | None = None,
        start: float = 0.0,
        end: float | None = None,
        attributes: Mapping[str, Sequence[Value]] | None = None,
        qos: QoS = NO_QOS,
        label: str = "",
    ) -> None:
        self.sent = 0
        self._world = world
        self._node = node
        self._channel = channel
        self._interval = 1e9 / rate
        self._poisson = poisson
        self._size = size
        self._limit = limit
        self._end = None if end is None else nanoseconds(end)
        self._attributes = dict(attributes or {})
        self._qos = qos
        self._dice = world.dice(f"publisher {label} {node} {channel}")
        self._at = nanoseconds(start) + self._pause(first=True)
        self._book()

    def _pause(self, first: bool = False) -> int:
        if self._poisson:
            return exponential(self._interval / NANOSECONDS, self._dice)
        return round(self._dice.random() * self._interval) if first else round(self._interval)

    def _book(self) -> None:
        over = self._limit is not None and self.sent >= self._limit
        if not over and (self._end is None or self._at < self._end):
            self._world.clock.schedule(self._at, APPLICATION, self._turn)

    def _turn(self, _: object, __: object) -> None:
        engine = self._world.engine(self._node)
        if (
            engine is not None
            and self._world.running(self._node)
            and not engine.instance(self._channel).obstacle
        ):
            self.sent += 1
            head = b"%s %d " % (self._node.encode(), self.sent)
            payload = head.ljust(self._size, b".")[: self._size]
            self._world.publish(self._node, self._channel, payload, self._envelope())
        self._at += self._pause()
        self._book()

    def _envelope(self) -> Envelope:
        attributes: Attributes = {
            name: values[0] if len(values) == 1 else self._dice.choice(values)
            for name, values in self._attributes.items()
        }
        return Envelope(attributes, self._qos)


class Reactor(Witness):
    """Publishes at once, on the same channel, when an event of another node comes to a subscription of its
    node: what it says depends on what it heard.

    share
        Of the events that come, how many make it publish, 0 to 1. Among n that hear each other, a share of
        1 / n or more never comes to rest.
    size
        Bytes of each payload.
    end
        Seconds; publishes before end, or until the world ends.
    """

    def __init__(
        self,
        world: World,
        node: str,
        channel: str,
        *,
        share: float,
        size: int = 100,
        end: float | None = None,
        label: str = "",
    ) -> None:
        self.sent = 0
        self._channel = channel
        self._share = share
        self._size = size
        self._end = None if end is None else nanoseconds(end)
        self._dice = world.dice(f"reactor {label} {node} {channel}")
        world.add_witness(self, node)

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        engine = world.engine(node)
        if channel != self._channel or parcel.stamp.node == node or engine is None:
            return
        if self._end is not None and world.clock.now >= self._end:
            return
        for _ in range(parcel.stamp.count) if picks is None else picks:
            if self._dice.random() < self._share and not engine.instance(channel).obstacle:
                self.sent += 1
                head = b"%s reacts %d " % (node.encode(), self.sent)
                world.publish(node, channel, head.ljust(self._size, b".")[: self._size])


class Subscriber(Witness):
    """Subscribes on a node, again after each restart.

    join, leave
        Seconds; subscribed from join on and before leave, or until the world ends.
    stay, away
        Seconds on average that it stays, and is away, in turn between these; None lets it stay.
    history
        Whether it wants the history first, each time it subscribes.
    share
        Of the events that come, how many are answered with feedback, 0 to 1.
    size
        Bytes of each answer.
    """

    def __init__(
        self,
        world: World,
        node: str,
        channel: str,
        *,
        criteria: Criteria | None = None,
        join: float = 0.0,
        over: float = 0.0,
        leave: float | None = None,
        stay: float | None = None,
        away: float | None = None,
        history: bool = False,
        share: float = 0.0,
        size: int = 10,
        label: str = "",
    ) -> None:
        self._world = world
        self._node = node
        self._channel = channel
        self._criteria = criteria or Criteria()
        self._history = history
        self._share = share
        self._answer = b"." * size
        self._dice = world.dice(f"subscriber {label} {node} {channel}")
        self._stay, self._away = stay, away
        self._leave = None if leave is None else nanoseconds(leave)
        self._wanted = False
        self._subscription: int | None = None
        world.add_witness(self, node)
        if over:
            join += over * self._dice.random()
        if join <= world.now:
            self._want(True, None)
        else:
            world.clock.schedule(nanoseconds(join), APPLICATION, self._want, True)
        if self._leave is not None:
            world.clock.schedule(self._leave, APPLICATION, self._want, False)

    def _want(self, wanted: bool, _: object) -> None:
        self._wanted = wanted
        self._settle()
        mean = self._stay if wanted else self._away
        if mean is not None:
            at = self._world.clock.now + exponential(mean, self._dice)
            if self._leave is None or at < self._leave:
                self._world.clock.schedule(at, APPLICATION, self._want, not wanted)

    def _settle(self) -> None:
        """Make what is so what is wanted, as soon as the node runs."""
        if not self._world.running(self._node):
            return
        if self._wanted and self._subscription is None:
            self._subscription = self._world.subscribe(self._node, self._channel, self._criteria)
            if self._history:
                self._world.replay(self._node, self._channel, self._subscription)
        elif not self._wanted and self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            self._world.unsubscribe(self._node, self._channel, subscription)

    def started(self, world: World, node: str, life: int) -> None:
        self._settle()

    def stopped(self, world: World, node: str, life: int) -> None:
        self._subscription = None

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        if not self._share or channel != self._channel or subscription != self._subscription:
            return
        for index in range(parcel.stamp.count) if picks is None else picks:
            if self._dice.random() < self._share:
                receipt = world.receipt(node, channel, parcel, parcel.stamp.first + index)
                world.feedback(node, channel, receipt, self._answer)


class Advertiser(Witness):
    """Advertises on a node what is going to be published there, again after each restart."""

    def __init__(self, world: World, node: str, channel: str, criteria: Criteria) -> None:
        self._node = node
        self._channel = channel
        self._criteria = criteria
        self._life = -1
        world.add_witness(self, node)
        engine = world.engine(node)
        if engine is not None:
            self.started(world, node, engine.incarnation)

    def started(self, world: World, node: str, life: int) -> None:
        if life != self._life and world.running(node):
            self._life = life
            world.call(node, self._channel, Advertise(self._criteria), lambda reply: None)


class Mortal:
    """Lets a node crash and come back at random.

    every, down
        Seconds on average that a life and the time after it last.
    start, end
        Seconds; the node crashes from start on and before end, and is back by end.
    """

    def __init__(
        self,
        world: World,
        node: str,
        *,
        every: float,
        down: float,
        start: float = 0.0,
        end: float | None = None,
        label: str = "",
    ) -> None:
        self._world = world
        self._node = node
        self._every, self._down = every, down
        self._end = None if end is None else nanoseconds(end)
        self._dice = world.dice(f"churn {label} {node}")
        self._live(nanoseconds(start))

    def _live(self, since: int) -> None:
        at = since + exponential(self._every, self._dice)
        if self._end is None or at < self._end:
            self._world.clock.schedule(at, FAULT, self._crash)

    def _crash(self, _: object, __: object) -> None:
        self._world.crash(self._node)
        at = self._world.clock.now + exponential(self._down, self._dice)
        self._world.clock.schedule(at if self._end is None else min(at, self._end), FAULT, self._restart)

    def _restart(self, _: object, __: object) -> None:
        self._world.restart(self._node)
        self._live(self._world.clock.now)


class Mover:
    """Lets a client change its server: at random, and whenever its server is down.

    every
        Seconds on average between two moves.
    servers
        Where it may go, in any order.
    start, end
        Seconds; it moves at random from start on and before end, and at any time if its server dies.
    """

    def __init__(
        self,
        world: World,
        node: str,
        servers: Sequence[str],
        *,
        every: float,
        start: float = 0.0,
        end: float | None = None,
        label: str = "",
    ) -> None:
        self._world = world
        self._node = node
        self._servers = tuple(servers)
        self._every = every
        self._end = None if end is None else nanoseconds(end)
        self._dice = world.dice(f"move {label} {node}")
        self._book(nanoseconds(start))
        self._watch(None, None)

    def _book(self, since: int) -> None:
        at = since + exponential(self._every, self._dice)
        if self._end is None or at < self._end:
            self._world.clock.schedule(at, FAULT, self._turn)

    def _turn(self, _: object, __: object) -> None:
        self._move()
        self._book(self._world.clock.now)

    def _watch(self, _: object, __: object) -> None:
        """Look whether the server lives, as often as a client notices that it does not."""
        if not self._world.running(last(self._world.container(self._node, SERVER))):
            self._move()
        self._world.clock.schedule(self._world.clock.now + NANOSECONDS, FAULT, self._watch)

    def _move(self) -> None:
        server = last(self._world.container(self._node, SERVER))
        others = [each for each in self._servers if each != server and self._world.running(each)]
        if others and self._world.engine(self._node) is not None:
            self._world.relocate(self._node, self._dice.choice(others))


def exponential(mean: float, dice: Dice) -> int:
    """Nanoseconds, exponentially distributed around a mean in seconds."""
    return round(-log(1 - dice.random()) * mean * NANOSECONDS)
