"""Ten thousand threads on sixteen groups, and listeners who pay only for what they want."""

from __future__ import annotations

from gossamer.announce.announcer import AnnouncerSettings, Station
from gossamer.announce.identity import Allotter
from gossamer.announce.listener import Follower
from gossamer.announce.sender import Pace, Sender
from gossamer.simulator.workload.announcements import Air, AirModel, Announcing, Listening

THREADS, GROUPS, INDEXES = 10_000, 16, 64


def test_ten_thousand_threads_on_sixteen_groups() -> None:
    air = Air(AirModel(loss=0.05), seed=1)
    sender = Sender(Pace(interval=0.2, join=0.4, rate=5e6))
    station = Station(Allotter(bytes(12)), "meeting", sender, AnnouncerSettings(refresh=10))
    names = [f"sensor/{number}" for number in range(THREADS)]
    threads = [station.thread(0, name, f"group-{number % GROUPS}") for number, name in enumerate(names)]
    for number in range(INDEXES):
        station.index(0, f"index-{number}", threads[number::INDEXES])
    on = Announcing(air, station)
    on.tend()
    wanted = [(0, 64, 128), (7, 9_999), (5_000,)]
    listeners = [Listening(air, Follower("meeting")) for _ in wanted]
    for listener, numbers in zip(listeners, wanted, strict=True):
        listener.want(*(names[number] for number in numbers))
    air.run(40)
    assert [len(each.follower.followed) for each in listeners] == [1, 2, 1]
    for each in listeners:
        each.ear.reset()
    for place, number in enumerate(range(0, THREADS, 99)):  # a hundred others beside the few that are wanted
        air.at(41 + place / 20, lambda number=number: on.announce(threads[number], b"%d" % number))
    for number in {number for numbers in wanted for number in numbers if number % 99}:
        air.at(44, lambda number=number: on.announce(threads[number], b"%d" % number))
    air.run(70)
    for listener, numbers in zip(listeners, wanted, strict=True):
        assert sorted(int(each.payload) for _, each in listener.heard) == list(numbers)
        assert listener.missed == []
        followed = len(listener.follower.followed)
        assert listener.ear.membership < 30 * followed + 2 * len(numbers)
    data = {channel for channel in air.sent if channel.startswith("group-")}
    assert len(data) == GROUPS
