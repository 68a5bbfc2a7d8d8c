"""Listeners follow indexes, join when there is news, leave when they have it, and miss nothing."""

from __future__ import annotations

import pytest

from gossamer.announce import index
from gossamer.announce.assembly import Assembler
from gossamer.announce.header import Code, decode
from gossamer.announce.index_plan import Plan
from gossamer.announce.listener import Follower, ListenerSettings
from gossamer.announce.sender import Pace
from gossamer.core.errors import BadName, ConfigError, Cyclic
from gossamer.simulator.workload.announcements import Air, AirModel, Announcing
from tests.announce.airs import MEETING, announcing, listening, payloads, threads


def indexed(air: Air, names: str = "abc", **settings: float) -> tuple[Announcing, dict[str, bytes]]:
    """Threads dealt to two channels, and an index of them all on a third."""
    on = announcing(air, **settings)
    found = threads(on, list(names), ["data-1", "data-2"])
    on.station.index(0, "index", found.values())
    on.tend()
    return on, found


def test_a_listener_joins_the_channel_of_a_thread_around_its_announcement_only() -> None:
    air = Air(AirModel(join=0.1))
    on, found = indexed(air)
    listener = listening(air, "a")
    air.run(20)
    assert listener.follower.joined == {"index"}
    before = listener.ear.membership
    air.at(30, lambda: on.announce(found["a"], b"rain"))
    air.run(30.15)
    assert listener.follower.joined == {"index", "data-1"}
    air.run(60)
    assert payloads(listener) == [b"rain"]
    assert listener.follower.joined == {"index"}
    assert listener.ear.membership - before < 40 + 0.5
    assert not listener.missed


def test_news_of_other_threads_make_nobody_join() -> None:
    air = Air()
    on, found = indexed(air)
    listener = listening(air, "a")
    air.run(20)
    joins = listener.ear.joins
    air.at(30, lambda: on.announce(found["b"], b"snow"))
    air.run(60)
    assert (payloads(listener), listener.ear.joins) == ([], joins)


def test_every_version_comes_once_though_packets_are_lost() -> None:
    air = Air(AirModel(loss=0.3), seed=3)
    on, found = indexed(air)
    listeners = [listening(air, "a", "c") for _ in range(10)]
    air.run(20)
    for number in range(100):
        air.at(20 + number, lambda number=number: on.announce(found["ac"[number % 2]], b"%d" % number))
    air.run(140)
    for listener in listeners:
        assert sorted(map(int, payloads(listener))) == list(range(100))


def test_an_index_changes_its_version_with_its_content_and_carries_pairs_only() -> None:
    air = Air()
    on, found = indexed(air)
    seen: dict[int, set[bytes]] = {}
    assembler = Assembler()

    def hear(data: bytes) -> None:
        header, body = decode(data)
        assembler.again(header.thread)
        whole = assembler.put(header, body)
        assert header.code == Code.INDEX
        assert whole is not None
        seen.setdefault(header.version, set()).add(whole.payload)

    air.ear(hear).join("index")
    air.at(7, lambda: on.announce(found["a"], b"rain"))
    air.at(12, lambda: on.announce(found["b"], b"snow"))
    air.run(60)
    assert all(len(contents) == 1 for contents in seen.values())
    tables = [index.decode(content) for contents in seen.values() for content in contents]
    assert len({tuple(table.items()) for table in tables}) == len(tables) == 3
    last = tables[-1]
    assert [last[found[name]] for name in "abc"] == [1, 1, 0]
    assert len(last) == 4, "three threads and the page that describes the index"


def test_several_changes_at_once_are_one_version_of_the_index() -> None:
    air = Air()
    on, found = indexed(air, gather=0.5)
    air.run(10)
    (made,) = on.station.indexes
    before = on.station._topics[made].version
    for name in "abc":
        on.announce(found[name], b"x")
    air.run(20)
    assert on.station._topics[made].version == before + 1


def test_an_index_of_indexes_leads_through_both_to_the_thread() -> None:
    air = Air(AirModel(loss=0.1), seed=2)
    on = announcing(air)
    found = threads(on, ["a", "b"], ["data"])
    one = on.station.index(0, "low-1", [found["a"]])
    two = on.station.index(0, "low-2", [found["b"]])
    top = on.station.index(0, "top", [one, two])
    on.tend()
    listener = listening(air, "a", depth=2)
    air.run(20)
    assert listener.follower.joined == {"top"}
    assert listener.follower.followed == {top}
    air.at(30, lambda: on.announce(found["b"], b"snow"))
    air.at(40, lambda: on.announce(found["a"], b"rain"))
    air.run(60)
    assert payloads(listener) == [b"rain"]
    assert listener.follower.joined == {"top"}


def test_a_station_refuses_a_cycle_of_its_indexes() -> None:
    on = announcing(Air())
    found = threads(on, ["a"], ["data"])
    one = on.station.index(0, "i", [found["a"]])
    two = on.station.index(0, "i", [one])
    with pytest.raises(Cyclic):
        on.station.enlist(0, one, [two])
    assert on.station.indexes[one] == {found["a"]}


def test_without_an_index_the_channel_is_joined_for_good() -> None:
    air = Air()
    on = announcing(air)
    found = threads(on, ["a"], ["data"])
    on.tend()
    listener = listening(air, "a")
    air.run(20)
    assert listener.follower.joined == {"data", MEETING}
    air.at(30, lambda: on.announce(found["a"], b"rain"))
    air.run(40)
    assert payloads(listener) == [b"rain"]


def test_depth_zero_is_permanent_subscription() -> None:
    air = Air()
    on, found = indexed(air)
    listener = listening(air, "a", depth=0)
    air.at(30, lambda: on.announce(found["a"], b"rain"))
    air.run(60)
    assert listener.follower.joined == {"data-1"}
    assert payloads(listener) == [b"rain"]


def test_repetition_covers_the_time_that_a_join_takes_and_less_does_not() -> None:
    for covered, heard in ((2.0, [b"rain"]), (0.0, [])):
        air = Air(AirModel(join=2.0))
        on = announcing(air, pace=Pace(interval=0.2, join=covered))
        found = threads(on, ["a"], ["data"])
        on.station.index(0, "index", found.values())
        on.tend()
        listener = listening(air, "a", patience=10)
        air.run(30)
        air.at(30, lambda on=on, found=found: on.announce(found["a"], b"rain"))
        air.run(60)
        assert payloads(listener) == heard
        assert [each.gaps for each in listener.missed] == ([] if heard else [((1, 1),)])


def test_what_was_announced_before_anybody_wanted_it_is_not_missed() -> None:
    air = Air()
    on, found = indexed(air)
    on.announce(found["a"], b"old")
    air.run(60)
    listener = listening(air, "a")
    air.run(120)
    assert (payloads(listener), listener.missed) == ([], [])
    assert listener.follower.joined == {"index"}
    air.at(120, lambda: on.announce(found["a"], b"new"))
    air.run(150)
    assert payloads(listener) == [b"new"]


def test_indexes_are_rebuilt_while_running_and_nobody_misses_anything() -> None:
    air = Air(AirModel(loss=0.2), seed=5)
    on, found = indexed(air, "abcdefgh", refresh=2.0)
    listeners = [listening(air, name, name2) for name, name2 in ("ab", "cd", "ah", "ge")]
    air.run(20)
    for number in range(400):
        name = "abcdefgh"[number % 8]
        air.at(20 + number / 4, lambda number=number, name=name: on.announce(found[name], b"%d" % number))

    def regroup(groups: list[str]) -> None:
        plan = Plan({group: tuple(found[name] for name in group) for group in groups}, {})
        now = air.clock.now
        on.station.regroup(now, plan, [f"index-{now}-{place}" for place in range(len(groups))])
        on.tend()

    air.at(40, lambda: regroup(["abcd", "efgh"]))
    air.at(70, lambda: regroup(["ah", "bg", "cd", "ef"]))
    air.run(160)
    for names, listener in zip(("ab", "cd", "ah", "ge"), listeners, strict=True):
        expected = [number for number in range(400) if "abcdefgh"[number % 8] in names]
        assert sorted(map(int, payloads(listener))) == expected
        assert listener.missed == []
        assert listener.follower.joined <= {f"index-{70 * 10**9}-{place}" for place in range(4)}


def test_when_an_index_falls_silent_its_threads_are_listened_to_directly() -> None:
    air = Air()
    apps, indexer = announcing(air, 1), announcing(air, 2)
    found = threads(apps, ["a"], ["data"])
    indexer.station.index(0, "index", found.values())
    apps.tend()
    indexer.tend()
    listener = listening(air, "a")
    air.run(20)
    assert listener.follower.joined == {"index"}
    indexer.tend = lambda *_: None  # type: ignore[method-assign]  # it has died
    air.run(60)
    assert "data" in listener.follower.joined
    air.at(60, lambda: apps.announce(found["a"], b"rain"))
    air.run(70)
    assert payloads(listener) == [b"rain"]


def test_an_index_that_was_silent_and_is_back_is_followed_again_though_it_has_not_changed() -> None:
    air = Air()
    apps, indexer = announcing(air, 1), announcing(air, 2)
    found = threads(apps, ["a"], ["data"])
    indexer.station.index(0, "index", found.values())
    apps.tend()
    indexer.tend()
    listener = listening(air, "a")
    air.run(20)
    works, indexer.tend = indexer.tend, lambda *_: None  # type: ignore[method-assign]
    air.run(60)
    assert "data" in listener.follower.joined
    indexer.tend = works  # type: ignore[method-assign]
    air.at(60, works)

    def announce() -> None:
        apps.announce(found["a"], b"rain")
        indexer.station.heard(air.clock.now, found["a"], 1)
        indexer.tend()

    air.at(65.1, announce)
    air.run(100)
    assert listener.follower.joined == {"index"}
    assert (payloads(listener), listener.missed) == ([b"rain"], [])


def test_what_nobody_wants_any_longer_is_left() -> None:
    air = Air()
    indexed(air)
    listener = listening(air, "a")
    air.run(20)
    listener._carry_out(listener.follower.unwant(air.clock.now, "a"))
    assert listener.follower.joined == set()


def test_hostile_packets_are_counted_and_change_nothing() -> None:
    follower = Follower(MEETING)
    follower.want(0, "a")
    for data in (b"", b"\x01" * 30, b"\x01\xa0\x00\x00" + bytes(19) + b"\x01\x00\x00" + b"\xff" * 9):
        assert follower.packet(0, data) == []
    assert sum(follower.drops.values()) == 3
    assert follower.joined == {MEETING}


def test_a_name_is_given_once_and_a_thread_is_announced_by_its_own_station() -> None:
    on = announcing(Air())
    on.station.thread(0, "a", "data")
    with pytest.raises(BadName):
        on.station.thread(0, "a", "data")
    with pytest.raises(BadName):
        on.station.thread(0, "x" * 201, "data")
    with pytest.raises(BadName):
        on.station.announce(0, bytes(16), b"")
    with pytest.raises(ConfigError):
        on.station.regroup(0, Plan({}, {}), [])
    with pytest.raises(ConfigError, match="depth"):
        Follower(MEETING, ListenerSettings(depth=-1))


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[tuple[float, bytes]]:
        air = Air(AirModel(loss=0.3), seed=9)
        on, found = indexed(air)
        listener = listening(air, "a", "b")
        for number in range(20):
            air.at(10 + number, lambda number=number: on.announce(found["ab"[number % 2]], b"%d" % number))
        air.run(50)
        return [(at, each.payload) for at, each in listener.heard]

    assert run() == run() != []
