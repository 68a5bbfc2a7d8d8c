"""Agents: the applications of a simulated network. They publish, subscribe and answer by plan.

An agent lives on one node, rests while the node is down or paused, and takes up its plan afterwards. All
its chances come from dice of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from gossamer.core.event import NO_WISHES, Attributes, Criteria, Envelope, Value, Wishes
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.simulator.clock import APPLICATION
from gossamer.simulator.witness import Witness
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
        wishes: Wishes = NO_WISHES,
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
        self._wishes = wishes
        self._dice = world.dice(f"publisher {label} {node} {channel}")
        self._at = nanoseconds(start) + self._pause(first=True)
        self._book()

    def _pause(self, first: bool = False) -> int:
        if self._poisson:
            return round(-log(1 - self._dice.random()) * self._interval)
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
        return Envelope(attributes, self._wishes)


class Subscriber(Witness):
    """Subscribes on a node, again after each restart.

    join, leave
        Seconds; subscribed from join on and before leave, or until the world ends.
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
        leave: float | None = None,
        share: float = 0.0,
        size: int = 10,
        label: str = "",
    ) -> None:
        self._world = world
        self._node = node
        self._channel = channel
        self._criteria = criteria or Criteria()
        self._share = share
        self._answer = b"." * size
        self._dice = world.dice(f"subscriber {label} {node} {channel}")
        self._wanted = join <= world.now
        self._subscription: int | None = None
        world.add_witness(self, node)
        self._settle()
        if not self._wanted:
            world.clock.schedule(nanoseconds(join), APPLICATION, self._want, True)
        if leave is not None:
            world.clock.schedule(nanoseconds(leave), APPLICATION, self._want, False)

    def _want(self, wanted: bool, _: object) -> None:
        self._wanted = wanted
        self._settle()

    def _settle(self) -> None:
        """Make what is so what is wanted, as soon as the node runs."""
        if not self._world.running(self._node):
            return
        if self._wanted and self._subscription is None:
            self._subscription = self._world.subscribe(self._node, self._channel, self._criteria)
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
