"""Primary and secondary links, announcements, requests, detours: parcels without a network."""

from __future__ import annotations

import random

import pytest

from gossamer.core.context import CONTACTS
from gossamer.core.names import NANOSECONDS
from gossamer.templates.multiring.discovery import Finding
from gossamer.templates.multiring.dissemination import Spreading
from gossamer.templates.multiring.messages import Announce, Request, SetMode
from gossamer.templates.multiring.modes import PeerLink
from gossamer.templates.multiring.peer import Position
from gossamer.templates.multiring.recent import Store, id_of
from gossamer.templates.multiring.settings import MultiringSettings
from gossamer.templates.multiring.template import Multiring
from gossamer.testing.fake import FakeContext, parcel

SETTINGS = MultiringSettings()


def spreading(*names: str, **changed: float) -> Spreading:
    """A peer with links to some others."""
    made = Spreading(MultiringSettings(**changed))  # type: ignore[arg-type]
    made.links = {name: PeerLink(0) for name in names}
    made.reached(names, ())
    return made


def test_a_link_stays_primary_while_four_of_six_are_new() -> None:
    link = PeerLink(0)
    for new in (True, False, True, False, True, True, True, True, False):
        assert not link.came(new, 4, 6)
    assert link.wanted


def test_the_receiver_switches_to_secondary_below_four_of_six_and_back() -> None:
    link = PeerLink(0)
    told = [link.came(new, 4, 6) for new in (True, True, True, False, False, False)]
    assert told == [False] * 5 + [True]
    assert not link.wanted
    assert [link.came(True, 4, 6) for _ in range(4)] == [False, False, False, True]
    assert link.wanted


def test_a_young_link_is_judged_as_soon_as_the_next_ones_cannot_change_it() -> None:
    link = PeerLink(0)
    assert [link.came(False, 4, 6) for _ in range(3)] == [False, False, True]
    assert not link.wanted
    late = PeerLink(0, wanted=False)
    assert [late.came(True, 4, 6) for _ in range(4)] == [False, False, False, True]
    assert late.wanted


def test_who_sends_in_vain_on_a_secondary_link_is_told_again_but_not_for_each_parcel() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    peer.links["c"].wanted = False
    ctx.now = NANOSECONDS
    for sequence in (1, 2):
        peer.take(ctx, parcel("s", sequence, sequence), "a")
    ctx.clear()
    for sequence in (1, 2):
        peer.take(ctx, parcel("s", sequence, sequence), "c")
    assert ctx.sent() == [("c", SetMode(False))]


def test_who_sends_in_vain_without_a_link_from_here_is_asked_to_announce() -> None:
    ctx, peer = FakeContext("b"), spreading("a")
    peer.take(ctx, parcel("s"), "a")
    ctx.clear()
    peer.take(ctx, parcel("s"), "x")
    assert ctx.sent() == [("x", SetMode(False))]


@pytest.mark.parametrize(("lag", "waits"), [(0.01, (0.1, 0.11)), (0.3, (0.3, 0.5)), (0.9, (0.9, 1.0))])
def test_a_peer_learns_how_far_parcels_are_behind_word_of_them(
    lag: float, waits: tuple[float, float]
) -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c", grace=0.1, retry=0.5)
    for sequence in range(1, 40):
        ctx.clear()
        one = parcel("s", sequence, sequence)
        peer.announcement(ctx, Announce((id_of(one),)), "c")
        wait = (ctx.woken()["fetch"] - ctx.now) / NANOSECONDS
        ctx.now += round(lag * NANOSECONDS)
        peer.take(ctx, one, "a")
        ctx.now += NANOSECONDS
        peer.fetch(ctx)
    assert waits[0] <= wait <= waits[1]


def test_a_parcel_goes_on_to_all_but_where_it_came_from_and_only_once() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    assert peer.take(ctx, parcel("s"), "a")
    assert not peer.take(ctx, parcel("s"), "c")
    assert [to for to, _ in ctx.sent()] == ["c"]
    assert [reason for _, reason in ctx.dropped()] == ["seen before"]


def test_a_secondary_link_announces_and_sends_on_request() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    peer.set_mode(SetMode(False), "c")
    one = parcel("s")
    peer.take(ctx, one, "a")
    assert ctx.sent() == [("c", Announce((id_of(one),)))]
    peer.request(ctx, Request((id_of(one),)), "c")
    assert ctx.sent()[-1] == ("c", one)


def test_a_rejected_announcement_costs_only_itself_and_crossing_ones_need_no_answer() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    peer.set_mode(SetMode(False), "c")
    one = parcel("s")
    peer.take(ctx, one, "a")
    ctx.clear()
    peer.announcement(ctx, Announce((id_of(one),)), "c")
    assert ctx.sent() == []


def test_an_announced_parcel_is_requested_when_no_primary_link_has_brought_it() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    one = parcel("s")
    peer.announcement(ctx, Announce((id_of(one),)), "c")
    assert ctx.sent() == []
    ctx.now = ctx.woken()["fetch"]
    assert ctx.now == round(SETTINGS.grace * NANOSECONDS)
    peer.fetch(ctx)
    assert ctx.sent() == [("c", Request((id_of(one),)))]


def test_it_is_not_requested_if_a_primary_link_brings_it_in_time() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    one = parcel("s")
    peer.announcement(ctx, Announce((id_of(one),)), "c")
    peer.take(ctx, one, "a")
    ctx.clear()
    ctx.now = NANOSECONDS
    peer.fetch(ctx)
    assert ctx.sent() == []


def test_without_a_primary_link_it_is_requested_at_once_and_then_from_others() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    for link in peer.links.values():
        link.wanted = False
    one = parcel("s")
    peer.announcement(ctx, Announce((id_of(one),)), "c")
    peer.announcement(ctx, Announce((id_of(one),)), "a")
    assert ctx.sent() == [("c", Request((id_of(one),)))]
    ctx.now = NANOSECONDS
    peer.fetch(ctx)
    assert ctx.sent()[-1] == ("a", Request((id_of(one),)))


def test_who_has_announced_a_parcel_is_neither_sent_nor_told_of_it() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c", "d", "e")
    peer.set_mode(SetMode(False), "d")
    one = parcel("s")
    for name in "cd":
        peer.announcement(ctx, Announce((id_of(one),)), name)
    peer.take(ctx, one, "a")
    assert ctx.sent() == [("e", one)]


def test_a_parcel_that_may_wait_in_a_line_is_no_sign_of_life() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c", "d")
    peer.set_mode(SetMode(False), "d")
    ctx.now = NANOSECONDS
    peer.take(ctx, parcel("s"), "a")
    assert (peer.links["c"].said, peer.links["d"].said) == (0, ctx.now), "announcements are short"


def requested(ctx: FakeContext) -> int:
    return sum(len(item.ids) for _, item in ctx.sent() if isinstance(item, Request))


def test_no_more_is_asked_for_at_a_time_than_comes() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    lacking = [parcel("s", sequence, sequence) for sequence in range(1, 31)]
    peer.announcement(ctx, Announce(tuple(map(id_of, lacking))), "c")
    ctx.now = ctx.woken()["fetch"]
    peer.fetch(ctx)
    assert requested(ctx) == 8
    for each in lacking[:3]:
        peer.take(ctx, each, "c")
    assert requested(ctx) == 8 + 6, "three came, so eleven may be under way; when half are, it asks for more"
    asked = []
    while len(asked) < 3:
        ctx.now = ctx.woken()["fetch"]
        ctx.clear()
        peer.fetch(ctx)
        asked.append(requested(ctx))
    assert asked == [5, 3, 3], "nothing comes any more"


def test_a_congested_neighbour_and_who_stands_behind_it_are_told_and_get_what_they_lack() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    peer.links["c"].congested = 0
    peer.reached(("a", "c"), ("d",))
    one = parcel("s")
    peer.take(ctx, one, "a")
    assert ctx.sent() == [("c", Announce((id_of(one),))), ("d", Announce((id_of(one),)))]
    behind = spreading("c", "e")  # it hears of it over its backup link, and asks if no primary one brings it
    far = FakeContext("d")
    behind.announcement(far, Announce((id_of(one),)), "b")
    assert far.sent() == []
    far.now = far.woken()["fetch"]
    behind.fetch(far)
    assert far.sent() == [("b", Request((id_of(one),)))]
    peer.request(ctx, Request((id_of(one),)), "d")
    assert ctx.sent()[-1] == ("d", one)


def test_a_neighbour_that_takes_enough_again_is_told_of_what_came_meanwhile() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    position = Position(SETTINGS, peer)
    before, meanwhile = parcel("s", 1), parcel("s", 2, 2)
    peer.take(ctx, before, "a")
    ctx.now = NANOSECONDS
    position.congested(ctx, "c", True)
    ctx.now += NANOSECONDS
    peer.take(ctx, meanwhile, "a")
    ctx.clear()
    position.congested(ctx, "c", False)
    position.congested(ctx, "c", False)  # told once
    assert ctx.sent() == [("c", Announce((id_of(meanwhile),)))]


def test_what_nobody_sends_however_often_it_is_asked_for_is_counted() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c")
    peer.announcement(ctx, Announce((id_of(parcel("s")),)), "c")
    while "fetch" in ctx.woken():
        ctx.now = ctx.woken()["fetch"]
        ctx.clear()
        peer.fetch(ctx)
    assert (peer.requested, peer.forgone) == (8, 1)


def test_an_expired_parcel_is_not_sent_on_request() -> None:
    from gossamer.core.event import QoS

    ctx, peer = FakeContext("b"), spreading("a")
    one = parcel("s", qos=QoS(expiry=1.0))
    peer.take(ctx, one, "a")
    ctx.now = 2 * NANOSECONDS
    peer.request(ctx, Request((id_of(one),)), "a")
    assert ctx.sent() == []
    assert [reason for _, reason in ctx.dropped()] == ["expired"]


def test_a_new_link_is_told_of_the_last_seconds_and_a_newcomer_of_no_more_than_it_waited() -> None:
    ctx, peer = FakeContext("b"), spreading("a")
    old, late = parcel("s", 1), parcel("s", 2, 2)
    peer.take(ctx, old, "a")
    ctx.now = 3 * NANOSECONDS
    peer.take(ctx, late, "a")
    ctx.clear()
    peer.recall(ctx, "x")
    peer.recall(ctx, "y", past=NANOSECONDS)
    assert ctx.sent() == [("x", Announce((id_of(late), id_of(old)))), ("y", Announce((id_of(late),)))]


def test_who_forgets_fast_asks_soon() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c", store=4)
    for sequence in range(1, 9):  # a store that reaches back 30 ms
        ctx.now += 10_000_000
        peer.take(ctx, parcel("s", sequence, sequence), "a")
    ctx.clear()
    peer.announcement(ctx, Announce((id_of(parcel("s", 9, 9)),)), "c")
    assert ctx.woken()["fetch"] - ctx.now == 30_000_000 // 4


def test_who_forgets_fast_soon_asks_somebody_else() -> None:
    ctx, peer = FakeContext("b"), spreading("a", "c", store=4, grace=0.1, retry=0.5)
    for sequence in range(1, 9):
        ctx.now += 10_000_000
        peer.take(ctx, parcel("s", sequence, sequence), "a")
    wanted = Announce((id_of(parcel("s", 9, 9)),))
    for name in "ca":
        peer.announcement(ctx, wanted, name)
    asked = []
    for _ in range(2):
        ctx.now = ctx.woken()["fetch"]
        ctx.clear()
        peer.fetch(ctx)
        asked.append((ctx.now, [to for to, _ in ctx.sent()]))
    assert [to for _, to in asked] == [["c"], ["a"]]
    assert asked[1][0] - asked[0][0] == NANOSECONDS // 10, "grace, not retry"


@pytest.mark.parametrize(("tries", "passes"), [(1, 1), (2, 2), (3, 4), (9, 4)])
def test_a_question_goes_further_the_more_often_it_was_in_vain(tries: int, passes: int) -> None:
    ctx = FakeContext("b", containers={CONTACTS: {"a": ()}}, rng=random.Random(1))
    Finding(SETTINGS, Position(SETTINGS, spreading())).seek(ctx, tries=tries)
    ((to, seek),) = ctx.sent()
    assert (to, getattr(seek, "passes", None)) == ("a", passes)


def test_publishing_waits_where_parcels_would_be_forgotten_before_others_can_ask() -> None:
    template = Multiring(MultiringSettings(store=4, grace=0.1))
    ctx = FakeContext("b", rng=random.Random(1))
    for sequence in range(1, 5):
        template.on_publish(ctx, parcel("b", sequence, sequence))
        assert template.obstacle(ctx) is None, "nothing is forgotten yet"
        ctx.now += NANOSECONDS // 100
    template.on_publish(ctx, parcel("b", 5, 5))
    assert template.obstacle(ctx)
    ctx.now = ctx.woken()["room"]
    template.on_timer(ctx, "room")
    assert template.obstacle(ctx) is None
    assert ctx.now == NANOSECONDS // 100 + 4 * NANOSECONDS // 10, "four times grace since the oldest came"


def test_the_store_is_bounded_in_number_and_bytes() -> None:
    few, small = Store(2, 10**6), Store(100, 150)
    for sequence in range(1, 6):
        few.add(parcel("s", sequence), None, 0)
        small.add(parcel("s", sequence, payloads=[b"x" * 60]), None, 0)
    assert [key[2] for key in few.since(0)] == [5, 4]
    assert [key[2] for key in small.since(0)] == [5, 4]
