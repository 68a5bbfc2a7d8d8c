"""Announcers and listeners in virtual time: channels that lose packets, and joins that take their time.

Every listener loses packets by dice of its own. A channel is paid for from the instant that a listener asks
to join until it leaves; it hears what is sent once the join has taken effect. Same seed, same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from gossamer.announce.announcer import Station
from gossamer.announce.assembly import Announcement
from gossamer.announce.listener import Follower, Heard, Missed
from gossamer.announce.memberships import Join, Leave
from gossamer.announce.observer import Survey
from gossamer.announce.sender import Packet
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.simulator.clock import APPLICATION, NETWORK, TIMER, Clock
from gossamer.simulator.dice import SeededDice


class AirModel(msgspec.Struct, frozen=True):
    """What is between announcers and listeners.

    loss
        Probability that a packet does not reach a listener.
    latency, join
        Seconds that a packet takes, and that joining a channel takes.
    """

    loss: float = 0.0
    latency: float = 0.01
    join: float = 0.1


class Air:
    """The channels. ``sent`` counts bytes per channel, each packet once."""

    def __init__(self, model: AirModel | None = None, seed: int = 1) -> None:
        self.model = model or AirModel()
        self.clock = Clock()
        self.seed = seed
        self.sent: Counter[str] = Counter()
        self._latency = nanoseconds(self.model.latency)
        self._members: dict[str, dict[int, Ear]] = {}
        self._ears = 0
        self._occupied = 0
        self._occupied_since: dict[str, int] = {}

    def send(self, packets: Iterable[Packet]) -> None:
        for packet in packets:
            self.sent[packet.channel] += len(packet.data)
            if self._members.get(packet.channel):
                self.clock.schedule(self.clock.now + self._latency, NETWORK, self._arrive, packet)

    def _arrive(self, packet: Packet, _: None) -> None:
        for ear in list(self._members.get(packet.channel, {}).values()):
            ear.hear(packet)

    def ear(self, hears: Callable[[bytes], None]) -> Ear:
        self._ears += 1
        return Ear(self, self._ears, hears)

    def at(self, seconds: float, do: Callable[[], object]) -> None:
        """Let an application do something at an instant."""
        self.clock.schedule(nanoseconds(seconds), APPLICATION, _done, do)

    def run(self, seconds: float) -> None:
        self.clock.run(nanoseconds(seconds))

    @property
    def occupied(self) -> float:
        """Seconds times channels that somebody was joined to: what a network has to remember."""
        now = self.clock.now
        return (self._occupied + sum(now - since for since in self._occupied_since.values())) / NANOSECONDS

    def admit(self, channel: str, ear: Ear) -> None:
        self._members.setdefault(channel, {})[ear.number] = ear
        self._occupied_since.setdefault(channel, self.clock.now)

    def dismiss(self, channel: str, ear: Ear) -> None:
        members = self._members.get(channel, {})
        members.pop(ear.number, None)
        if not members and channel in self._occupied_since:
            self._occupied += self.clock.now - self._occupied_since.pop(channel)


class Ear:
    """One member of channels: what it hears, and what being there costs.

    received
        Bytes that came.
    joins
        How often a channel was joined.
    """

    def __init__(self, air: Air, number: int, hears: Callable[[bytes], None]) -> None:
        self.number = number
        self.received = 0
        self.joins = 0
        self._air, self._hears = air, hears
        self._dice = SeededDice(air.seed, f"ear-{number}")
        self._since: dict[str, int] = {}
        self._member = 0

    def join(self, channel: str) -> None:
        if channel in self._since:
            return
        self.joins += 1
        now = self._since[channel] = self._air.clock.now
        effective = now + nanoseconds(self._air.model.join)
        self._air.clock.schedule(effective, NETWORK, self._admitted, channel, now)

    def _admitted(self, channel: str, since: int) -> None:
        if self._since.get(channel) == since:
            self._air.admit(channel, self)

    def leave(self, channel: str) -> None:
        since = self._since.pop(channel, None)
        if since is not None:
            self._member += self._air.clock.now - since
            self._air.dismiss(channel, self)

    def hear(self, packet: Packet) -> None:
        loss = self._air.model.loss
        if loss and self._dice.random() < loss:
            return
        self.received += len(packet.data)
        self._hears(packet.data)

    @property
    def membership(self) -> float:
        """Seconds times channels that it has been joined."""
        now = self._air.clock.now
        return (self._member + sum(now - since for since in self._since.values())) / NANOSECONDS

    def reset(self) -> None:
        """Count from now on."""
        self.received = self.joins = self._member = 0
        now = self._air.clock.now
        self._since = dict.fromkeys(self._since, now)


class Announcing:
    """A station on the air; with a survey it hears others, too."""

    def __init__(self, air: Air, station: Station) -> None:
        self.station = station
        self.ear = air.ear(self._hear)
        self._air = air
        self._survey: Survey | None = None
        self._alarm: int | None = None
        self._handle = 0

    def survey(self, survey: Survey, *channels: str) -> None:
        """Hear what others announce."""
        self._survey = survey
        for channel in channels:
            self.ear.join(channel)

    def _hear(self, data: bytes) -> None:
        if self._survey is not None:
            for each in self._survey.packet(self._air.clock.now, data):
                self.ear.join(each.channel)
        self.tend()

    def tend(self, *_: object) -> None:
        """Do what is due; to be called after the station was asked for something."""
        self._air.send(self.station.step(self._air.clock.now))
        wake = self.station.wake
        if wake != self._alarm or (wake is not None and wake <= self._air.clock.now):
            if self._alarm is not None and self._alarm > self._air.clock.now:
                self._air.clock.cancel(self._handle)
            self._alarm = wake
            if wake is not None:
                self._handle = self._air.clock.schedule(wake, TIMER, self.tend)

    def announce(self, thread: bytes, payload: bytes) -> None:
        self.station.announce(self._air.clock.now, thread, payload)
        self.tend()


class Listening:
    """A listener on the air.

    heard
        Announcements with the instants in seconds at which they came.
    """

    def __init__(self, air: Air, follower: Follower) -> None:
        self.follower = follower
        self.ear = air.ear(self._hear)
        self.heard: list[tuple[float, Announcement]] = []
        self.missed: list[Missed] = []
        self._air = air
        self._alarm: int | None = None
        self._handle = 0

    def want(self, *names: str) -> None:
        self._carry_out(self.follower.want(self._air.clock.now, *names))

    def _hear(self, data: bytes) -> None:
        self._carry_out(self.follower.packet(self._air.clock.now, data))

    def _step(self, *_: object) -> None:
        self._alarm = None
        self._carry_out(self.follower.step(self._air.clock.now))

    def _carry_out(self, effects: Iterable[object]) -> None:
        for each in effects:
            match each:
                case Join(channel):
                    self.ear.join(channel)
                case Leave(channel):
                    self.ear.leave(channel)
                case Heard(announcement):
                    self.heard.append((self._air.clock.now / NANOSECONDS, announcement))
                case Missed():
                    self.missed.append(each)
                case Packet():
                    self._air.send([each])
        self._set_alarm()

    def _set_alarm(self) -> None:
        wake = self.follower.wake
        if wake == self._alarm:
            return
        if self._alarm is not None:
            self._air.clock.cancel(self._handle)
        self._alarm = wake
        if wake is not None:
            self._handle = self._air.clock.schedule(max(wake, self._air.clock.now), TIMER, self._step)


def _done(do: Callable[[], object], _: None) -> None:
    do()
