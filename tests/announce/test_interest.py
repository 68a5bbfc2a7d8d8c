"""Interest is told seldom, by dice, across applications; indexes made of it serve listeners of them all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.announce.configuration import Reports
from gossamer.announce.header import Code, Header, decode, encode
from gossamer.announce.identity import Allotter
from gossamer.announce.index_plan import REST, planned
from gossamer.announce.interest import MOST_REPORTED, Collector, Reporter
from gossamer.announce.interest import decode as decode_report
from gossamer.announce.observer import Survey
from gossamer.announce.sender import Packet
from gossamer.core.errors import ConfigError, ProtocolError
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.workload.announcements import Air, AirModel
from tests.announce.airs import MEETING, announcing, listening, payloads, threads

ASKED = Reports("reports", period=100.0, probability=0.2)


def reporter(number: int) -> Reporter:
    return Reporter(Allotter(number.to_bytes(12, "big")), SeededDice(1, f"listener-{number}"))


def reports(one: Reporter, until: float, wanted: list[bytes]) -> list[tuple[int, bytes]]:
    """Instants and packets of all reports up to a second."""
    found = []
    while one.wake is not None and one.wake <= nanoseconds(until):
        at = one.wake
        found += [(at, packet.data) for packet in one.due(at, wanted)]
    return found


def test_reports_are_rare_and_spread_by_seeded_dice() -> None:
    instants, count = set(), 0
    for number in range(200):
        one = reporter(number)
        one.ask(0, ASKED)
        told = reports(one, 10_000, [bytes(16)])
        count += len(told)
        instants |= {at // NANOSECONDS for at, _ in told}
    # 100 throws each, a fifth of them report: 20 in 10 000 s
    assert count / 200 == pytest.approx(20, rel=0.1)
    assert len(instants) > 0.8 * count
    again = reporter(7)
    again.ask(0, ASKED)
    same = reporter(7)
    same.ask(0, ASKED)
    assert reports(again, 1000, [bytes(16)]) == reports(same, 1000, [bytes(16)])


def test_who_is_not_asked_or_wants_nothing_reports_nothing() -> None:
    one = reporter(1)
    assert one.wake is None
    one.ask(0, Reports("reports", 1.0, 1.0))
    assert reports(one, 100, []) == []
    one.ask(0, None)
    assert one.wake is None


def test_a_report_is_one_packet_even_of_who_wants_very_much() -> None:
    one = reporter(1)
    one.ask(0, Reports("reports", 1.0, 1.0))
    wanted = [number.to_bytes(16, "big") for number in range(1000)]
    ((_, first), (_, second), *_) = reports(one, 10, wanted)
    header, body = decode(first)
    assert (header.code, header.last, len(first) <= 1400) == (Code.INTEREST, True, True)
    assert len(decode_report(body)) == MOST_REPORTED
    assert set(decode_report(body)) < set(wanted)
    assert decode_report(decode(second)[1]) != decode_report(body), "another sample"


@given(st.binary(max_size=100))
def test_any_bytes_are_a_report_or_refused(payload: bytes) -> None:
    try:
        assert b"".join(decode_report(payload)) == payload
    except ProtocolError:
        return


def test_the_latest_report_of_a_listener_counts_and_memory_is_bounded() -> None:
    collector = Collector(listeners=2)
    a, b = bytes([1] * 16), bytes([2] * 16)
    for listener in (1, 2, 1, 3):
        collector.put(listener.to_bytes(12, "big") + bytes(4), a if listener != 1 else a + b)
    rows = list(collector.rows())
    assert len(collector) == 2
    assert [thread for _, thread in rows] == [a.hex(), b.hex(), a.hex()]


def test_a_plan_has_a_place_for_every_thread() -> None:
    a, b, c = (bytes([number] * 16) for number in range(3))
    levels = [{a.hex(): "1-0", b.hex(): "1-1", "ff" * 16: "1-1"}, {"1-0": "2-0", "1-1": "2-0"}]
    plan = planned(levels, [a, b, c])
    assert plan.threads == {"1-0": (a,), "1-1": (b,), REST: (c,)}
    assert plan.indexes == {"2-0": ("1-0", "1-1")}
    with pytest.raises(ConfigError):
        planned([], [a])


def test_one_station_indexes_the_threads_of_applications_that_do_not_know_each_other() -> None:
    air = Air(AirModel(loss=0.1), seed=4)
    weather, stocks, indexer = (announcing(air, number, refresh=2.0) for number in (1, 2, 3))
    found = threads(weather, ["oslo"], ["data-1"]) | threads(stocks, ["acme"], ["data-2"])
    collector = Collector()
    survey = Survey(indexer.station, collector)
    indexer.station.reports = Reports("reports", period=5.0, probability=0.5)
    indexer.survey(survey, MEETING, "reports")
    weather.tend()
    stocks.tend()
    listeners = [listening(air, "oslo", "acme", number=number) for number in range(100, 105)]
    air.run(10)
    assert set(survey.threads) == set(found.values())

    def build() -> None:
        indexer.station.index(air.clock.now, "index", survey.threads)
        indexer.tend()

    air.at(10, build)
    air.run(60)
    assert all(listener.follower.joined == {"index"} for listener in listeners)
    assert len(collector) == 5
    assert {thread for _, thread in collector.rows()} == {thread.hex() for thread in found.values()}

    air.at(60, lambda: weather.announce(found["oslo"], b"rain"))
    air.at(70, lambda: stocks.announce(found["acme"], b"12"))
    air.run(100)
    assert all(payloads(listener) == [b"rain", b"12"] for listener in listeners)


def test_who_has_settled_hears_of_an_indexer_that_comes_later_and_follows_it_alone() -> None:
    air = Air(AirModel(loss=0.1), seed=4)
    weather, stocks = (announcing(air, number, refresh=2.0) for number in (1, 2))
    found = threads(weather, ["oslo"], ["data-1"]) | threads(stocks, ["acme"], ["data-2"])
    weather.station.index(0, "index", [found["oslo"]])
    stocks.station.index(0, "index", [found["acme"]])
    weather.tend()
    stocks.tend()
    listener = listening(air, "oslo", "acme")
    air.run(90)
    assert (listener.follower.joined, len(listener.follower.followed)) == ({"index"}, 2)

    late, collector = announcing(air, 3, refresh=2.0), Collector()
    survey = Survey(late.station, collector)
    late.station.reports = Reports("reports", period=5.0, probability=0.5)
    late.survey(survey, MEETING, "reports")
    air.run(100)

    def build() -> None:
        late.station.index(air.clock.now, "index", survey.threads)
        late.tend()

    air.at(100, build)
    air.run(200)
    assert {thread for _, thread in collector.rows()} == {thread.hex() for thread in found.values()}
    assert (listener.follower.joined, len(listener.follower.followed)) == ({"index"}, 1)
    air.at(200, lambda: weather.announce(found["oslo"], b"rain"))
    air.run(220)
    assert payloads(listener) == [b"rain"]


def test_an_index_that_nobody_describes_is_looked_for_once_and_not_for_ever() -> None:
    air = Air(seed=4)
    weather = announcing(air, 1, refresh=2.0)
    found = threads(weather, ["oslo"], ["data"])
    weather.station.index(0, "index", [found["oslo"]])
    weather.tend()
    listener = listening(air, "oslo")
    air.run(90)
    nameless = encode(Header(bytes(16), 1, code=Code.INDEX)) + b"?"
    air.at(90, lambda: air.send([Packet("index", nameless)]))
    air.run(100)
    assert listener.follower.joined == {"index", MEETING}
    air.run(160)
    assert listener.follower.joined == {"index"}
    air.at(160, lambda: air.send([Packet("index", nameless)]))
    air.run(170)
    assert listener.follower.joined == {"index"}


def test_reports_move_listeners_to_indexes_of_what_they_want_together() -> None:
    air = Air(seed=4)
    on = announcing(air, refresh=2.0)
    found = threads(on, list("abcd"), ["data"])
    collector = Collector()
    survey = Survey(on.station, collector)
    on.station.reports = Reports("reports", period=5.0, probability=0.5)
    on.survey(survey, "reports")
    on.station.index(0, "mixed-1", [found["a"], found["c"]])
    on.station.index(0, "mixed-2", [found["b"], found["d"]])
    on.tend()
    listeners = [listening(air, *"ab", number=1), listening(air, *"cd", number=2)]
    air.run(60)
    assert [len(each.follower.followed) for each in listeners] == [2, 2]
    together: dict[str, str] = {}
    for listener, thread in collector.rows():
        together[thread] = listener
    plan = planned([together], found.values())

    def regroup() -> None:
        on.station.regroup(air.clock.now, plan, ["index-1", "index-2"])
        on.tend()

    air.at(60, regroup)
    air.run(120)
    assert [len(each.follower.followed) for each in listeners] == [1, 1]
