"""What announcing with indexes costs beside permanent subscription, from one event a day to ten a second.

Three ways to hear of the same events, each simulated: following an index and joining groups around
announcements; being joined for good to groups that many threads share; and being joined for good to a group
for each thread. The last two repeat only as often as losses need, since nobody has to join first. What is
counted is one listener's time in groups and bytes received, and the groups that the network has to remember
because somebody is joined.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gossamer.announce.announcer import AnnouncerSettings, Station
from gossamer.announce.identity import Allotter, Thread
from gossamer.announce.listener import Follower, ListenerSettings
from gossamer.announce.reliability import Erasure
from gossamer.announce.sender import Pace, Sender
from gossamer.core.errors import ConfigError
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.workload.announcements import Air, AirModel, Announcing, Listening

WAYS = ("announced", "shared groups", "own groups")
RATES = {
    "1/day": 1 / 86_400,
    "1/hour": 1 / 3600,
    "1/minute": 1 / 60,
    "1/10 s": 0.1,
    "1/s": 1.0,
    "10/s": 10.0,
}
"""Events per second and thread."""
HOUR = 3600.0
_MEETING = "meeting"
_WARM = 300.0
_COOL = 10.0


class Setting(msgspec.Struct, frozen=True):
    """The network and its users.

    groups
        That threads share.
    wants
        Threads that each listener wants.
    events
        Announcements of all threads in a run, about; a run takes no less than 10 s.
    loss, join
        Share of packets lost, and seconds that joining takes; repetitions make up for both.
    """

    threads: int = 64
    groups: int = 4
    listeners: int = 6
    wants: int = 3
    payload: int = 4_000
    events: int = 200
    loss: float = 0.01
    join: float = 0.4
    refresh: float = 60.0
    seed: int = 1

    def check(self) -> Setting:
        for name in ("threads", "groups", "listeners", "wants", "events"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{getattr(self, name)}: at least 1", key=name)
        if self.wants > self.threads:
            raise ConfigError(f"{self.wants}: at most the {self.threads} threads there are", key="wants")
        return self


class Row(msgspec.Struct, frozen=True):
    """One way at one rate.

    membership
        Seconds times groups per hour that a listener is joined.
    received
        Bytes per hour that a listener receives.
    occupied
        Groups that somebody is joined to, on average over time.
    arrived
        Share of wanted announcements that arrived.
    """

    rate: str
    way: str
    membership: float
    received: float
    occupied: float
    arrived: float
    joins: float


def compare(setting: Setting, rates: Sequence[str] = tuple(RATES)) -> list[Row]:
    """All ways at these rates."""
    setting.check()
    for rate in rates:
        if rate not in RATES:
            raise ConfigError(f"{rate!r}: one of {', '.join(RATES)}", key="rate")
    return [run(setting, rate, way) for rate in rates for way in WAYS]


def run(setting: Setting, rate: str, way: str) -> Row:
    """One way at one rate, simulated."""
    announced = way == "announced"
    air = Air(AirModel(loss=setting.loss, join=setting.join), setting.seed)
    on, threads = _announcer(air, setting, announced, own=way == "own groups")
    dice = SeededDice(setting.seed, "wishes")
    listeners = [_listener(air, setting, announced, dice) for _ in range(setting.listeners)]
    air.run(_WARM)
    for each in listeners:
        each.ear.reset()
    before = air.occupied
    lasts = max(10.0, setting.events / (setting.threads * RATES[rate]))
    made = _events(air, on, threads, RATES[rate], lasts, setting)
    air.run(_WARM + lasts)
    hours = lasts / HOUR * len(listeners)
    membership = sum(each.ear.membership for each in listeners) / hours
    received = sum(each.ear.received for each in listeners) / hours
    joins = sum(each.ear.joins for each in listeners) / hours
    occupied = (air.occupied - before) / lasts
    air.run(_WARM + lasts + _COOL)  # what was announced last arrives
    expected = sum(made[name] for each in listeners for name in each.names)
    arrived = sum(len(each.heard) for each in listeners) / expected if expected else 1.0
    return Row(rate, way, membership, received, occupied, arrived, joins)


class _Listener(Listening):
    """A listener that remembers what it wants."""

    names: tuple[str, ...] = ()


def _announcer(
    air: Air, setting: Setting, announced: bool, own: bool
) -> tuple[Announcing, dict[str, Thread]]:
    pace = Pace(join=setting.join + 0.1 if announced else 0.0, rate=1e8, backlog=2**32)
    sender = Sender(pace, Erasure(max(setting.loss, 1e-4), 0.9999))
    station = Station(Allotter(bytes(12)), _MEETING, sender, AnnouncerSettings(refresh=setting.refresh))
    threads = {
        f"t{number}": station.thread(0, f"t{number}", f"data-{number if own else number % setting.groups}")
        for number in range(setting.threads)
    }
    if announced:
        station.index(0, "index", threads.values())
    on = Announcing(air, station)
    on.tend()
    return on, threads


def _listener(air: Air, setting: Setting, announced: bool, dice: SeededDice) -> _Listener:
    names = [f"t{number}" for number in range(setting.threads)]
    dice.shuffle(names)
    made = _Listener(air, Follower(_MEETING, ListenerSettings(depth=1 if announced else 0)))
    made.names = tuple(names[: setting.wants])
    made.want(*made.names)
    return made


def _events(
    air: Air, on: Announcing, threads: dict[str, Thread], rate: float, lasts: float, setting: Setting
) -> dict[str, int]:
    """Announcements spread by dice; how many of each thread."""
    dice = SeededDice(setting.seed, "events")
    names = list(threads)
    made = dict.fromkeys(names, 0)
    payload = bytes(setting.payload)
    for _ in range(round(rate * lasts * len(names))):
        name = dice.choice(names)
        made[name] += 1
        thread = threads[name]
        air.at(_WARM + dice.random() * lasts, lambda thread=thread: on.announce(thread, payload))  # type: ignore[misc]
    return made


def loses(rows: Sequence[Row], rate: str) -> list[str]:
    """In what announcing costs more than another way at a rate, in words."""
    by = {row.way: row for row in rows if row.rate == rate}
    ours = by["announced"]
    said = []
    for way in WAYS[1:]:
        for figure, word in (("membership", "time"), ("received", "bytes"), ("occupied", "groups")):
            if getattr(ours, figure) > getattr(by[way], figure) * 1.001:
                said.append(f"{word} ({way})")
    return said
