"""Linkstate: everybody hears everybody once, one tree is official, and what comes and goes is noticed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pytest

from gossamer.core.context import CONTACTS, LINKS, NODES, ROUTES, TREE
from gossamer.core.control import MOST
from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS, Role
from gossamer.overlay.backbone.linkstate import Linkstate
from gossamer.overlay.backbone.members import KNOWN, Roster
from gossamer.overlay.backbone.messages import Introduction, LinkstateSettings, Offer, Person, State, Wanted
from gossamer.overlay.backbone.tree_codec import MAX_NODES, Plans, decode_plan, encode_age, encode_plan
from gossamer.simulator.network import rules
from gossamer.testing.fake import FakeContext
from tests.overlay.backbone.fields import Backbone

# whole backbones


def test_all_that_begin_with_three_contacts_soon_know_each_other_and_agree_on_one_tree() -> None:
    backbone = Backbone(30)
    assert backbone.until_agreed(15) <= 15


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_steady_state_everybody_hears_everybody_and_nobody_hears_anything_twice(seed: int) -> None:
    backbone = Backbone(15, seed=seed, interval=10.0)
    backbone.world.run(60)
    backbone.forget()
    before = {name: backbone.linkstate(name).duplicates for name in backbone.up}
    backbone.world.run(120)
    assert set(backbone.copies.values()) == {1}
    heard = {(to, origin) for to, origin, _, _ in backbone.copies}
    assert heard == {(to, origin) for to in backbone.names for origin in backbone.names if to != origin}
    assert {name: backbone.linkstate(name).duplicates for name in backbone.up} == before


def test_the_tree_that_the_lowest_advertises_is_official_everywhere() -> None:
    backbone = Backbone(15)
    backbone.until_agreed(15)
    backbone.world.run(100)
    state = backbone.linkstate("n07")._states["n01"]
    assert all(backbone.tree(name) == decode_plan(state.plan).tree for name in backbone.up)


def test_routes_lead_along_the_official_tree() -> None:
    backbone = Backbone(15)
    backbone.until_agreed(15)
    for name in backbone.up:
        tree, routes = backbone.tree(name), backbone.container(name, ROUTES)
        assert routes == {other: tree.next_hop(name, other) for other in backbone.up if other != name}


def test_links_hold_what_all_measured() -> None:
    backbone = Backbone(8, interval=10.0)
    backbone.world.run(60)
    links = backbone.container("n05", LINKS)
    assert len(links) == 8 * 7 // 2
    for (a, b), distance in links.items():
        assert a < b
        assert distance == pytest.approx(backbone.field.latency(a, b) * NANOSECONDS, rel=0.01)


def test_the_interval_grows_so_that_what_a_node_receives_stays_within_the_budget() -> None:
    backbone = Backbone(20, interval=1.0, budget=300.0, nearest=4)
    backbone.world.run(120)
    backbone.forget()
    backbone.world.run(720)
    received = sum(backbone.bytes[kind] for kind in ("State", "Offer", "Wanted")) / len(backbone.up) / 600
    assert 100 < received < 300


def test_a_crashed_node_leaves_every_tree_and_every_list() -> None:
    backbone = Backbone(15, interval=300.0)
    backbone.until_agreed(15)
    backbone.world.run(30)
    backbone.world.crash("n09")
    assert backbone.until_agreed(40) > 0
    assert all("n09" not in backbone.known(name) for name in backbone.up)


def test_when_the_lowest_crashes_the_next_lowest_takes_over() -> None:
    backbone = Backbone(15, interval=300.0)
    backbone.until_agreed(15)
    backbone.world.run(30)
    backbone.world.crash("n01")
    backbone.until_agreed(40)
    plan = backbone.linkstate("n12").official
    assert plan is backbone.linkstate("n02").official
    assert plan is not None
    assert "n01" not in plan.members


def test_a_new_node_becomes_known_to_all_and_is_told_of_all() -> None:
    backbone = Backbone(15, later=1, interval=300.0)
    backbone.until_agreed(15)
    backbone.world.run(30)
    backbone.join(["n16"])
    assert backbone.until_agreed(10) <= 10
    backbone.world.run(60)
    assert all("n16" in backbone.linkstate(name)._states for name in backbone.up)


def test_a_lowest_node_that_comes_back_takes_over_again() -> None:
    backbone = Backbone(10, interval=300.0)
    backbone.world.crash("n01")
    backbone.until_agreed(60)
    backbone.world.restart("n01")
    backbone.until_agreed(15)
    assert {backbone.linkstate(name)._lowest for name in backbone.up} == {"n01"}


def test_a_node_that_restarts_before_anybody_noticed_is_back_at_once() -> None:
    backbone = Backbone(12, interval=300.0)
    backbone.until_agreed(15)
    backbone.world.run(60)
    backbone.world.crash("n05")
    backbone.world.restart("n05")
    backbone.until_agreed(15)
    backbone.world.run(400)
    states = [backbone.linkstate(name)._states["n05"] for name in backbone.up]
    assert {state.incarnation for state in states} == {2}


def test_each_part_of_a_partition_has_its_own_tree_and_one_again_when_it_is_healed() -> None:
    backbone = Backbone(16)
    backbone.until_agreed(15)
    left, right = backbone.names[::2], backbone.names[1::2]
    backbone.world.add_rule(rules.Partition(parts=(tuple(left),), start=60, end=260))
    backbone.world.run(61)
    backbone.until_agreed(150, left)
    backbone.until_agreed(150, right)
    backbone.world.run(260)
    assert backbone.until_agreed(60) <= 60


@pytest.mark.parametrize("seed", [1, 2])
def test_half_of_everything_may_be_lost(seed: int) -> None:
    backbone = Backbone(20, seed=seed, loss=0.5)
    backbone.until_agreed(120)
    backbone.world.crash("n11")
    backbone.until_agreed(240)


def test_nobody_is_called_dead_by_mistake_while_half_of_everything_is_lost() -> None:
    backbone = Backbone(10, loss=0.5)
    backbone.until_agreed(120)
    changes = 0
    for _ in range(300):
        backbone.world.run(backbone.world.now + 1)
        changes += any(backbone.known(name) != set(backbone.up) for name in backbone.up)
    assert changes == 0


def test_clients_and_secondary_servers_are_never_among_the_nodes_or_in_the_tree() -> None:
    backbone = Backbone(8, later=2)
    backbone.join(["n09"], Role.CLIENT)
    backbone.join(["n10"], Role.SECONDARY)
    for name in backbone.names[:8]:
        backbone.world.set(name, CONTACTS, {**backbone.contacts[name], "n09": (), "n10": ()})
    backbone.until_agreed(20, backbone.names[:8])
    backbone.world.run(120)
    assert backbone.agreed(backbone.names[:8])
    assert not backbone.container("n09", NODES)
    assert not backbone.container("n09", TREE)


def test_one_node_alone_is_its_own_backbone() -> None:
    backbone = Backbone(1)
    backbone.world.run(100)
    assert backbone.known("n01") == {"n01"}
    assert backbone.tree("n01").edges == ()


def test_a_link_that_is_broken_while_both_ends_live_kills_nobody_for_long() -> None:
    backbone = Backbone(10)
    backbone.until_agreed(15)
    backbone.world.run(60)
    a, b = backbone.tree("n01").edges[0]
    backbone.world.add_rule(rules.Loss(senders=(a,), receivers=(b,)))
    backbone.world.add_rule(rules.Loss(senders=(b,), receivers=(a,)))
    wrong = 0
    for _ in range(300):
        backbone.world.run(backbone.world.now + 1)
        wrong += not all(backbone.known(name) == set(backbone.up) for name in backbone.up)
    assert wrong < 100


# one node


def service() -> Linkstate:
    return Linkstate(LinkstateSettings(), Roster())


def opened(node: str) -> tuple[Linkstate, FakeContext]:
    ctx = FakeContext(node, rng=Random(1), channel=Linkstate.name, now=100 * NANOSECONDS)
    template = service()
    template.on_open(ctx)
    ctx.clear()
    return template, ctx


def state(origin: str, edges: str, counter: int = 1, incarnation: int = 1, **more: object) -> State:
    """Edges as in "ab bc"."""
    pairs = [(each[0], each[1]) for each in edges.split()]
    nodes = {name for pair in pairs for name in pair} | {origin}
    blank = State(origin, incarnation, counter, 30, (), encode_plan(nodes, pairs), bytes(len(nodes)), b"")
    return msgspec.structs.replace(blank, **more)


def receivers(ctx: FakeContext, kind: type) -> list[str]:
    return [to for to, message in ctx.sent() if isinstance(message, kind)]


def test_a_message_goes_on_to_the_far_side_of_the_tree_it_carries_and_nowhere_else() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab bc bd de"), "a")
    assert sorted(receivers(ctx, State)) == ["c", "d"]


def test_seen_from_another_origin_the_same_tree_leads_another_way() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("e", "ab bc bd de"), "d")
    assert sorted(receivers(ctx, State)) == ["a", "c"]


def test_a_second_copy_is_counted_and_goes_nowhere() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab bc"), "a")
    ctx.clear()
    template.hear(ctx, state("a", "ab bc"), "c")
    assert ctx.sent() == []
    assert template.duplicates == 1


def test_an_old_message_never_replaces_a_newer_not_even_of_an_earlier_life() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab", counter=1, incarnation=2), "a")
    template.hear(ctx, state("a", "ab bc", counter=99, incarnation=1), "a")
    assert template._states["a"].version == (2, 1)
    template.hear(ctx, state("a", "ab bc", counter=2, incarnation=2), "a")
    assert template._states["a"].version == (2, 2)


def test_a_dead_neighbour_is_passed_over_to_those_behind_it() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("c", "bc"), "c")
    template.roster.silence("c", ctx.now)
    ctx.clear()
    template.hear(ctx, state("a", "ab bc cd"), "a")
    assert receivers(ctx, State) == ["d"]


def test_what_was_passed_on_is_offered_and_sent_again_if_it_is_wanted() -> None:
    template, ctx = opened("b")
    passed = state("a", "ab bc")
    template.hear(ctx, passed, "a")
    ctx.clear()
    template.on_timer(ctx, "repair")
    assert ctx.sent() == [("c", Offer(1, (("a", 1, 1),)))]
    ctx.clear()
    template.wanted(ctx, Wanted(1, ("a",)), "c")
    assert ctx.sent() == [("c", passed)]
    ctx.clear()
    template.on_timer(ctx, "repair")
    template.wanted(ctx, Wanted(2, ()), "c")
    template.on_timer(ctx, "repair")
    assert receivers(ctx, Offer) == ["c"]


def test_only_what_did_not_arrive_is_wanted() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab", counter=4), "a")
    ctx.clear()
    template.offered(ctx, Offer(7, (("a", 1, 4), ("c", 1, 1), ("b", 9, 9))), "a")
    assert ctx.sent() == [("a", Wanted(7, ("c",)))]


def test_an_old_rumour_does_not_kill_a_node_that_was_heard_since() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("c", "bc"), "c")
    ctx.now += 10 * NANOSECONDS
    old = encode_age(20 * NANOSECONDS)
    template.hear(ctx, state("a", "ab", dead=(("c", old),)), "a")
    assert "c" in template.roster.live
    ctx.now += 10 * NANOSECONDS
    new = encode_age(5 * NANOSECONDS)
    template.hear(ctx, state("a", "ab", counter=2, dead=(("c", new),)), "a")
    assert "c" not in template.roster.live


def test_an_old_tree_does_not_bring_back_the_dead() -> None:
    template, ctx = opened("b")
    template.roster.hear("c", ctx.now)
    ctx.now += 60 * NANOSECONDS
    template.roster.silence("c", ctx.now)
    stale = bytes([0, 0, encode_age(30 * NANOSECONDS)])
    template.hear(ctx, state("a", "ab bc", seen=stale), "a")
    assert "c" not in template.roster.live
    fresh = bytes(3)
    ctx.now += NANOSECONDS
    template.hear(ctx, state("a", "ab bc", counter=2, seen=fresh), "a")
    assert "c" in template.roster.live


def test_whoever_introduces_itself_is_told_of_everybody_and_of_the_official_tree() -> None:
    template, ctx = opened("b")
    official = state("a", "ab bc")
    template.hear(ctx, official, "a")
    ctx.clear()
    ctx.now += NANOSECONDS
    template.introduced(ctx, Introduction((Person("z", 0, ("tcp://z",)),)), "z")
    told = [message for to, message in ctx.sent() if to == "z"]
    assert isinstance(told[0], Introduction)
    assert [person.name for person in told[0].people] == ["a", "b", "c"]
    assert told[1] is official
    assert ctx.container(NODES)["z"] == ("tcp://z",)


def test_addresses_come_from_the_host_and_travel_with_the_message() -> None:
    template, ctx = opened("a")
    ctx.containers[CONTACTS] = {"a": ("tcp://here:1",)}
    template.roster.hear("b", ctx.now)
    template.on_timer(ctx, "publish")
    (message,) = [message for _, message in ctx.sent() if isinstance(message, State)]
    assert message.addresses == ("tcp://here:1",)
    other, its = opened("b")
    other.hear(its, message, "a")
    assert its.container(NODES)["a"] == ("tcp://here:1",)


def test_nonsense_in_place_of_a_tree_is_refused_and_changes_nothing() -> None:
    template, ctx = opened("b")
    whole = encode_plan("ab", [("a", "b")])
    for plan in (b"", b"\0\0", whole[:-1], whole + b"x", whole[:-2] + b"\0\1", b"\0\2\0\1b\0\1a\0\0\0\0"):
        with pytest.raises(ProtocolError):
            template.hear(ctx, state("a", "ab", plan=plan), "a")
    assert template._states == {}
    assert ctx.sent() == []


def test_a_client_says_nothing_and_answers_nothing() -> None:
    ctx = FakeContext("b", rng=Random(1), role=Role.CLIENT)
    template = service()
    template.on_open(ctx)
    template.hear(ctx, state("a", "ab bc"), "a")
    template.introduced(ctx, Introduction((Person("z", 0, ()),)), "z")
    template.offered(ctx, Offer(1, (("a", 1, 1),)), "a")
    assert ctx.effects == []
    assert ctx.container(NODES) is None


def test_a_node_outdoes_a_state_that_was_invented_in_its_name() -> None:
    """Its neighbour shows it the state that it cannot replace; the node publishes a newer one."""
    here, ctx = opened("b")
    origin, away = opened("a")
    here.hear(ctx, state("a", "ab", counter=MOST, incarnation=5000), "eve")
    ctx.clear()
    origin.on_timer(away, "publish")
    origin._publish(away)
    last = origin._states["a"]
    here.hear(ctx, last, "a")
    ((_, shown),) = [each for each in ctx.sent() if isinstance(each[1], State)]
    assert isinstance(shown, State)
    assert shown.counter == MOST
    origin.hear(away, shown, "b")
    assert "publish" in away.woken()
    origin._turn(away)
    here.hear(ctx, origin._states["a"], "a")
    assert here._states["a"].version == (5001, 1)
    away.clear()
    origin.hear(away, shown, "b")
    assert away.sent() == [], "it is outdone already"


def test_a_message_that_is_a_little_late_is_answered_by_nothing() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab", counter=9), "a")
    ctx.clear()
    template.hear(ctx, state("a", "ab", counter=3), "a")
    assert ctx.sent() == []


def test_invented_origins_and_names_are_bounded() -> None:
    template, ctx = opened("b")
    template.hear(ctx, state("a", "ab"), "a")
    for number in range(2 * MAX_NODES + 100):
        name = f"x{number}"
        plan = encode_plan(["a", "b", name], [("a", "b"), ("b", name)])
        said = State(name, 1, 1, 30, (), plan, bytes(3), b"", ((f"y{number}", 0),))
        template.hear(ctx, said, "eve")
        ctx.clear()
    roster = template.roster
    assert len(template._states) <= MAX_NODES
    assert max(len(roster._heard), len(roster._silent), len(roster._addresses)) <= KNOWN
    assert "a" in roster.live
    template.hear(ctx, state("a", "ab", counter=2), "a")
    assert template._states["a"].counter == 2


def test_plans_that_were_read_are_kept_in_bounded_memory() -> None:
    """A neighbour may send any number of them, each of the greatest size."""
    plans = Plans(3 * MAX_NODES)
    made = []
    for number in range(6):
        names = [f"{number}x{each:04}" for each in range(MAX_NODES)]
        made.append(encode_plan(names, pairwise(names)))
        first = plans.read(made[0])
        assert plans.read(made[-1]).names == tuple(names)
        assert plans.read(made[0]) is first, "what is used stays"
        assert plans.kept == sum(len(each.names) for each in plans._plans.values()) <= 3 * MAX_NODES
    small = [encode_plan([name], []) for name in map(str, range(1000))]
    assert all(plans.read(each).names for each in small)
    assert len(plans._plans) < 100
