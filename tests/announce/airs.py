"""Stations and listeners on a simulated air, for tests of the managed service."""

from __future__ import annotations

from gossamer.announce.announcer import AnnouncerSettings, Station
from gossamer.announce.identity import Allotter, Thread
from gossamer.announce.interest import Reporter
from gossamer.announce.listener import Follower, ListenerSettings
from gossamer.announce.sender import Pace, Sender
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.workload.announcements import Air, Announcing, Listening

MEETING = "meeting"


def announcing(air: Air, number: int = 1, pace: Pace | None = None, **settings: float) -> Announcing:
    """A station whose announcer is this number."""
    station = Station(
        Allotter(number.to_bytes(12, "big")),
        MEETING,
        Sender(pace or Pace(interval=0.1, join=0.5)),
        AnnouncerSettings(**{"refresh": 5.0, **settings}),
    )
    return Announcing(air, station)


def listening(air: Air, *names: str, depth: int = 1, patience: float = 3.0, number: int = 1000) -> Listening:
    """A listener that wants these."""
    reporter = Reporter(Allotter(number.to_bytes(12, "big")), SeededDice(air.seed, f"listener-{number}"))
    made = Listening(air, Follower(MEETING, ListenerSettings(depth=depth, patience=patience), reporter))
    made.want(*names)
    return made


def threads(on: Announcing, names: list[str], channels: list[str]) -> dict[str, Thread]:
    """Threads of these names, dealt to the channels."""
    return {
        name: on.station.thread(0, name, channels[place % len(channels)]) for place, name in enumerate(names)
    }


def payloads(listener: Listening) -> list[bytes]:
    return [announcement.payload for _, announcement in listener.heard]
