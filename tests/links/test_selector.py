"""The default selector: essential or not, then the lowest latency among what the channel is bound to."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gossamer.links.binding import Binding
from gossamer.links.selector import NearestSelector, Wish, allowed, bound, smoothed, wish

MS = 1_000_000


@dataclass
class Line:
    transport: str
    reliable: bool
    latency: int | None


def lines() -> tuple[Line, Line, Line]:
    return Line("tcp", True, 5 * MS), Line("udp", False, 1 * MS), Line("ws", True, 7 * MS)


choose = NearestSelector().choose


def test_what_is_not_essential_takes_the_nearest() -> None:
    tcp, udp, ws = lines()
    assert choose([tcp, udp, ws], Wish(essential=False), None) is udp


def test_what_is_essential_takes_the_nearest_that_is_reliable() -> None:
    tcp, udp, ws = lines()
    assert choose([tcp, udp, ws], Wish(), None) is tcp
    tcp.latency = 9 * MS
    assert choose([tcp, udp, ws], Wish(), None) is ws


def test_a_binding_narrows_the_choice() -> None:
    tcp, udp, ws = lines()
    assert choose([tcp, udp, ws], Wish(("ws", "tcp"), essential=False), None) is tcp
    assert choose([tcp, udp, ws], Wish(("ws",), essential=False), None) is ws


def test_what_is_essential_leaves_its_binding_for_a_reliable_connection() -> None:
    tcp, udp, _ = lines()
    assert choose([tcp, udp], Wish(("udp",), essential=True), None) is tcp
    assert choose([udp], Wish(("udp",), essential=True), None) is udp


def test_when_none_of_the_bound_transports_is_up_any_other_is_taken() -> None:
    tcp, udp, ws = lines()
    only_udp = Wish(("udp",), essential=False)
    assert bound([tcp, ws], only_udp) == []
    assert choose([tcp, ws], only_udp, None) is tcp
    assert bound([tcp, udp], only_udp) == [udp]


def test_what_has_not_been_measured_comes_last_and_then_the_order_of_wish_counts() -> None:
    tcp, udp, ws = lines()
    udp.latency = None
    assert choose([udp, tcp], Wish(essential=False), None) is tcp
    tcp.latency = ws.latency = None
    assert choose([tcp, udp, ws], Wish(("ws", "udp", "tcp"), essential=False), None) is ws


def test_a_choice_stands_until_another_is_clearly_nearer() -> None:
    tcp, udp, _ = lines()
    either = Wish(essential=False)
    udp.latency = 4 * MS
    assert choose([tcp, udp], either, tcp) is tcp
    udp.latency = 3 * MS
    assert choose([tcp, udp], either, tcp) is udp
    tcp.latency, udp.latency = 90_000, 1
    assert choose([tcp, udp], either, tcp) is tcp, "a few microseconds are noise"


def test_a_choice_that_is_gone_or_no_longer_allowed_does_not_stand() -> None:
    tcp, udp, ws = lines()
    assert choose([udp, ws], Wish(essential=False), tcp) is udp
    assert choose([tcp, udp], Wish(), udp) is tcp


def test_a_measured_connection_replaces_a_choice_made_blindly() -> None:
    tcp, udp, _ = lines()
    tcp.latency = None
    assert choose([tcp, udp], Wish(essential=False), tcp) is udp
    udp.latency = None
    assert choose([tcp, udp], Wish(("tcp", "udp"), essential=False), None) is tcp


def test_control_is_essential_and_so_is_a_channel_without_a_binding() -> None:
    video = Binding("video", ("udp", "tcp"))
    assert wish(None, control=False) == Wish((), essential=True)
    assert wish(video, control=True) == Wish(("udp", "tcp"), essential=True)
    assert wish(video, control=False) == Wish(("udp", "tcp"), essential=False)
    assert wish(Binding("money", ("tcp",), essential=True), control=False).essential


def test_an_event_that_says_whether_it_is_essential_wins() -> None:
    video, money = Binding("video", ("udp",)), Binding("money", ("tcp",), essential=True)
    assert wish(video, control=False, essential=True).essential
    assert not wish(money, control=False, essential=False).essential
    assert not wish(None, control=False, essential=False).essential
    assert wish(video, control=True, essential=False).essential, "control always is"


candidates = st.lists(
    st.builds(Line, st.sampled_from(["tcp", "udp", "ws"]), st.booleans(), st.none() | st.integers(0, 10**10)),
    min_size=1,
    max_size=6,
)
qos = st.builds(Wish, st.lists(st.sampled_from(["tcp", "udp", "x"])).map(tuple), st.booleans())


@given(candidates, qos, st.data())
def test_there_is_always_a_choice_and_it_is_an_allowed_one(
    given: list[Line], wanted: Wish, data: st.DataObject
) -> None:
    current = data.draw(st.none() | st.sampled_from(given))
    chosen = choose(given, wanted, current)
    assert any(chosen is each for each in allowed(given, wanted))
    if wanted.essential and any(each.reliable for each in given):
        assert chosen.reliable
    assert choose(given, wanted, chosen) is chosen, "nothing changed, so the choice stands"


def test_one_outlier_moves_a_smoothed_latency_little() -> None:
    assert smoothed(None, 8 * MS) == 8 * MS
    assert smoothed(8 * MS, 16 * MS) == 9 * MS
