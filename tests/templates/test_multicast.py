"""Multicast: parcels, the group and its tree, interest of nodes below, feedback; every effect listed."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from gossamer.core.context import BELOW, NODES, TREE
from gossamer.core.effect import Wake
from gossamer.core.errors import ConfigError, ProtocolError
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, Role, channel_id
from gossamer.core.template import Membership
from gossamer.core.tree import Tree
from gossamer.overlay.groups.interest import Interest, InterestHeard
from gossamer.overlay.groups.messages import (
    LISTENS,
    LOST,
    PUBLISHES,
    Join,
    JoinHeard,
    Leave,
    LeaveHeard,
    TreeHeard,
    TreeUpdate,
)
from gossamer.overlay.groups.rendezvous import rendezvous
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import Loss
from gossamer.simulator.network.topology import Network, layout, spanning
from gossamer.templates.multicast import MAX_WAITING, Multicast, MulticastSettings
from gossamer.testing.fake import CHANNEL as FAKE_CHANNEL
from gossamer.testing.fake import FakeContext, answer, parcel
from tests.templates.worlds import CHANNEL, Net

LATER = 100 * NANOSECONDS


def multicast(**settings: Any) -> Multicast[MulticastSettings]:
    return Multicast(MulticastSettings(**settings))


def update(
    counter: int = 1, epoch: int = 1, nodes: str = "ambc", parents: tuple[int, ...] = (0, 0, 1, 1)
) -> TreeUpdate:
    """A tree: a is the root, m hangs below it, b and c below m."""
    return TreeUpdate(epoch, counter, tuple(nodes), parents, (LISTENS,) * len(nodes))


def middle(**more: Any) -> tuple[FakeContext, Multicast[MulticastSettings]]:
    """Node m in the middle of a group's tree."""
    ctx = FakeContext("m", neighbours="abc", now=LATER, **more)
    template = multicast()
    template.update(ctx, update(), "a")
    ctx.clear()
    return ctx, template


def subscribe(ctx: FakeContext, template: Multicast[MulticastSettings], number: int = 1) -> None:
    ctx.subscribers[number] = Criteria()
    template.on_membership(ctx, Membership("subscribed", str(number)))


def unsubscribe(ctx: FakeContext, template: Multicast[MulticastSettings], number: int = 1) -> None:
    del ctx.subscribers[number]
    template.on_membership(ctx, Membership("unsubscribed", str(number)))


def said(ctx: FakeContext, kind: type) -> list[tuple[str, Any]]:
    """Messages of a kind since the last clear, and to whom."""
    return [(to, item) for to, item in ctx.sent() if isinstance(item, kind)]


def interests(ctx: FakeContext) -> list[tuple[str, bool, bool]]:
    """Interests told since the last clear: to whom, whether somebody listens, whether somebody publishes."""
    return [(to, item.listens, item.publishes) for to, item in said(ctx, Interest)]


def elsewhere(nodes: str = "abcdef", channel: str = FAKE_CHANNEL) -> tuple[str, str]:
    """The rendezvous node of some nodes, and the first of the others."""
    root = rendezvous(channel_id(channel), nodes)
    assert root is not None
    return root, next(node for node in nodes if node != root)


def pair() -> tuple[FakeContext, Multicast[MulticastSettings], str]:
    """A node whose only neighbour is the rendezvous node."""
    root, node = elsewhere()
    ctx = FakeContext(node, neighbours=root, containers={NODES: dict.fromkeys((node, root), ())}, now=LATER)
    template = multicast()
    template.on_open(ctx)
    ctx.clear()
    return ctx, template, root


# parcels


def test_a_parcel_goes_on_in_all_directions_but_the_one_it_came_from() -> None:
    ctx, template = middle()
    item = parcel("a")
    template.on_parcel(ctx, item, "a")
    assert ctx.sent() == [("b", item), ("c", item)]
    assert ctx.delivered() == [item]
    assert ctx.dropped() == []


def test_a_second_copy_is_dropped_and_sent_nowhere() -> None:
    ctx, template = middle()
    template.on_parcel(ctx, parcel("a"), "a")
    ctx.clear()
    copy = parcel("a")
    template.on_parcel(ctx, copy, "b")
    assert ctx.dropped() == [(copy, "seen before")]
    assert ctx.sent() == []
    assert ctx.delivered() == []


def test_an_own_parcel_that_comes_back_is_dropped() -> None:
    ctx, template = middle()
    own = parcel("m")
    template.on_parcel(ctx, own, "a")
    assert ctx.dropped() == [(own, "seen before")]
    assert ctx.sent() == []
    assert ctx.delivered() == []


def test_an_own_parcel_of_an_earlier_life_or_place_is_dropped_too() -> None:
    ctx, template = middle()
    for own in (parcel("b1/m"), parcel("m", incarnation=9)):
        template.on_parcel(ctx, own, "a")
    assert len(ctx.dropped()) == 2
    assert ctx.delivered() == []


def test_a_published_parcel_leaves_in_all_directions_and_reaches_subscribers_here() -> None:
    ctx, template = middle()
    item = parcel("m")
    template.on_publish(ctx, item)
    assert ctx.sent()[:3] == [("a", item), ("b", item), ("c", item)]
    assert ctx.delivered() == [item]


def test_the_same_number_of_another_source_or_life_is_no_copy() -> None:
    ctx, template = middle()
    for item in (parcel("a"), parcel("b"), parcel("a", incarnation=2)):
        template.on_parcel(ctx, item, "a")
    assert len(ctx.delivered()) == 3


def test_the_window_is_the_one_in_the_settings() -> None:
    ctx, template = FakeContext("m", neighbours="a"), multicast(window=2)
    for sequence in (1, 2, 3, 4, 5, 6, 7, 8, 1, 8):
        template.on_parcel(ctx, parcel("a", sequence), "a")
    assert [each.stamp.sequence for each in ctx.delivered()] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert template.seen.window == 2
    assert [reason for _, reason in ctx.dropped()] == ["seen before"] * 2


def test_a_source_asks_to_be_in_the_group_and_its_parcels_wait_until_it_is() -> None:
    ctx, template, root = pair()
    items = [parcel(ctx.node, number) for number in range(1, 4)]
    for item in items:
        template.on_publish(ctx, item)
    assert ctx.sent() == []
    assert ctx.delivered() == items, "subscribers here need not wait"
    template.on_timer(ctx, "merge")
    ((to, join),) = said(ctx, Join)
    assert (to, join.members) == (root, ((ctx.node, PUBLISHES | LOST),))
    ctx.clear()
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (LISTENS, PUBLISHES)), root)
    assert [item for _, item in ctx.sent() if item in items] == items
    assert len(ctx.delivered()) == 0


def test_of_the_parcels_that_wait_the_oldest_goes_when_there_are_too_many() -> None:
    ctx, template, _ = pair()
    items = [parcel(ctx.node, number) for number in range(1, MAX_WAITING + 3)]
    for item in items:
        template.on_publish(ctx, item)
    assert ctx.dropped() == [(item, "not in the group yet") for item in items[:2]]


# joining


def test_requests_that_come_together_leave_as_one() -> None:
    root, node = elsewhere()
    tree = Tree([(root, node), (node, "x"), (node, "y")])
    ctx, template = (
        FakeContext(node, tree=tree, containers={NODES: {root: (), node: (), "x": (), "y": ()}}),
        multicast(),
    )
    ctx.now = LATER
    assert template.group.root(ctx) != node
    subscribe(ctx, template)
    template.join(ctx, Join(1, 0, (("x", LISTENS | LOST),)), "x")
    template.join(ctx, Join(1, 0, (("y", PUBLISHES | LOST),)), "y")
    assert said(ctx, Join) == []
    assert said(ctx, JoinHeard) == [("x", JoinHeard(1)), ("y", JoinHeard(1))]
    template.on_timer(ctx, "merge")
    ((_, join),) = said(ctx, Join)
    assert dict(join.members) == {node: LISTENS | LOST, "x": LISTENS | LOST, "y": PUBLISHES | LOST}


def test_a_request_is_repeated_until_it_is_heard() -> None:
    ctx, template, root = pair()
    subscribe(ctx, template)
    template.on_timer(ctx, "merge")
    ((_, join),) = said(ctx, Join)
    for _ in range(3):
        ctx.clear()
        template.on_timer(ctx, "retry")
        assert said(ctx, Join) == [(root, join)]
        assert "retry" in ctx.woken()
    template.join_heard(ctx, JoinHeard(join.number - 1), root)
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert said(ctx, Join) == [(root, join)], "another request was heard, not this one"
    template.join_heard(ctx, JoinHeard(join.number), root)
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert ctx.effects == []


def test_a_request_of_the_node_above_goes_on_along_the_backbone_and_never_back_to_it() -> None:
    """The node above had crashed and was back; its requests came to those below it, and they sent them up to
    it: the root heard of nobody and cut them all off.

    Replay: python benchmarks/proof.py reliable --first 4 --seeds 4 --nodes 20 --duration 600
    """
    root, node = elsewhere()
    above, beside = [name for name in "abcdef" if name not in (root, node)][:2]
    ctx, template = FakeContext(node, now=LATER), multicast()
    ctx.containers[NODES] = dict.fromkeys((root, node, above, beside), ())
    ctx.containers[TREE] = Tree([(above, node), (node, beside), (beside, root)])
    subscribe(ctx, template)
    template.update(ctx, update(nodes=root + above + node, parents=(0, 0, 1)), above)
    ctx.clear()
    template.on_timer(ctx, "refresh")
    assert [to for to, _ in said(ctx, Join)] == [above], "as long as all is well, up the tree"
    template.join(ctx, Join(1, 0, ((above, LISTENS | LOST),)), above)
    ctx.clear()
    template.on_timer(ctx, "merge")
    ((to, join),) = said(ctx, Join)
    assert to == beside
    assert dict(join.members) == {node: LISTENS, above: LISTENS | LOST}
    template.update(ctx, update(2, nodes=root + above + node, parents=(0, 0, 1)), above)
    ctx.clear()
    template.on_timer(ctx, "refresh")
    assert [to for to, _ in said(ctx, Join)] == [above], "with a new tree all is well again"


def test_whom_the_root_has_not_heard_of_for_long_learns_that_it_is_cut_off_unless_it_left() -> None:
    root, _ = elsewhere()
    names = [name for name in "abcdef" if name != root][:2]
    ctx, template = FakeContext(root, neighbours=names, now=LATER), multicast()
    ctx.containers[NODES] = dict.fromkeys((root, *names), ())
    template.join(ctx, Join(1, 0, tuple((name, LISTENS | LOST) for name in names)), names[0])
    template.on_timer(ctx, "merge")
    for name in names:
        template.update_heard(ctx, TreeHeard(*template.group.version), name)
    template.leave(ctx, Leave(names[1], 1), names[1])
    for _ in range(5):
        ctx.clear()
        template.on_timer(ctx, "refresh")
    assert {to for to, told in said(ctx, TreeUpdate) if told.nodes == (root,)} == {names[0]}
    template.update_heard(ctx, TreeHeard(*template.group.version), names[0])
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert ctx.effects == []


def test_who_is_cut_off_asks_again_until_it_is_back_in_the_tree() -> None:
    ctx, template, root = pair()
    subscribe(ctx, template)
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (0, LISTENS)), root)
    template.on_timer(ctx, "check")
    ctx.clear()
    template.update(ctx, TreeUpdate(1, 2, (root,), (0,), (0,)), root)
    for _ in range(2):
        assert [wake.name for wake in ctx.effects if isinstance(wake, Wake)].count("check") == 1
        ctx.clear()
        template.on_timer(ctx, "check")
        template.on_timer(ctx, "merge")
        assert [(to, join.members) for to, join in said(ctx, Join)] == [(root, ((ctx.node, LISTENS | LOST),))]
    template.update(ctx, TreeUpdate(1, 3, (root, ctx.node), (0, 0), (0, LISTENS)), root)
    ctx.clear()
    template.on_timer(ctx, "check")
    assert ctx.effects == []


def test_a_second_subscriber_says_nothing_new() -> None:
    ctx, template, _ = pair()
    subscribe(ctx, template, 1)
    template.on_timer(ctx, "merge")
    ctx.clear()
    subscribe(ctx, template, 2)
    unsubscribe(ctx, template, 1)
    assert ctx.effects == []


def test_a_node_that_takes_no_part_says_nothing() -> None:
    ctx, template, _ = pair()
    template.on_open(ctx)
    for name in ("merge", "retry", "refresh", "check"):
        template.on_timer(ctx, name)
    assert ctx.sent() == []


def test_the_root_makes_a_tree_of_all_who_asked_and_tells_its_children() -> None:
    root, node = elsewhere()
    ctx, template = FakeContext(root, neighbours=node, now=LATER), multicast()
    ctx.containers[NODES] = {root: (), node: ()}
    template.on_open(ctx)
    template.join(ctx, Join(1, 0, ((node, LISTENS | LOST),)), node)
    ctx.clear()
    template.on_timer(ctx, "merge")
    ((to, told),) = said(ctx, TreeUpdate)
    assert (to, told.nodes, told.parents, told.marks) == (node, (root, node), (0, 0), (0, LISTENS))
    assert template.has_subscribers(ctx)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_root_of_a_hundred_nodes_hears_as_many_requests_per_refresh_as_it_has_children(
    loss: float,
) -> None:
    names, edges = layout(Network(kind="random", nodes=100), SeededDice(1, label="topology"))
    net = Net(Multicast, spanning(names, edges).edges, link=LinkModel(loss=loss))
    net.subscribe(names)
    net.world.run(65)
    group = net.at(names[0]).group
    root = group.root(net.ctx(names[0]))
    children = set(group.tree.children(root))
    assert set(group.tree.nodes) == set(names)
    assert 1 < len(children) < 20
    net.said.clear()
    refreshes = 4
    net.world.run(65 + refreshes * MulticastSettings().refresh)
    heard = net.heard(root, "Join")
    assert heard.keys() == children
    if loss:
        assert sum(heard.values()) < 2 * refreshes * len(children)
    else:
        assert set(heard.values()) == {refreshes}
        assert {kind for _, _, kind in net.said} == {"Join", "JoinHeard"}, "in steady state no tree is told"


# leaving


def test_who_leaves_says_so_until_it_is_heard() -> None:
    ctx, template, root = pair()
    subscribe(ctx, template)
    template.on_timer(ctx, "merge")
    template.join_heard(ctx, JoinHeard(1), root)
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (0, LISTENS)), root)
    ctx.clear()
    unsubscribe(ctx, template)
    ((to, leave),) = said(ctx, Leave)
    assert (to, leave.member) == (root, ctx.node)
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert said(ctx, Leave) == [(root, leave)]
    template.leave_heard(ctx, LeaveHeard(ctx.node, leave.number), root)
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert ctx.effects == []


def test_who_left_and_is_still_in_the_tree_leaves_again() -> None:
    ctx, template, root = pair()
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (0, LISTENS)), root)
    assert [leave.member for _, leave in said(ctx, Leave)] == [ctx.node]


def test_who_comes_back_before_its_leaving_was_heard_stays() -> None:
    ctx, template, root = pair()
    subscribe(ctx, template)
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (0, LISTENS)), root)
    unsubscribe(ctx, template)
    subscribe(ctx, template)
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert said(ctx, Leave) == []


def test_the_root_acknowledges_every_leaving_and_makes_a_smaller_tree() -> None:
    root, node = elsewhere()
    ctx, template = FakeContext(root, neighbours=node, now=LATER), multicast()
    ctx.containers[NODES] = {root: (), node: ()}
    template.join(ctx, Join(1, 0, ((node, LISTENS | LOST),)), node)
    template.on_timer(ctx, "merge")
    ctx.clear()
    for _ in range(2):
        template.leave(ctx, Leave(node, 7), node)
    assert said(ctx, LeaveHeard) == [(node, LeaveHeard(node, 7))] * 2
    template.on_timer(ctx, "merge")
    assert template.group.tree is not None
    assert template.group.tree.nodes == (root,)
    assert not template.has_subscribers(ctx)


def test_a_branch_without_members_is_cut_off() -> None:
    net = Net(Multicast, [("a", "b"), ("b", "c"), ("c", "d")], link=LinkModel(loss=0.3))
    numbers = {node: net.world.subscribe(node, CHANNEL) for node in "ad"}
    net.world.run(10)
    root = net.at("a").group.root(net.ctx("a"))
    assert {"a", "d"} <= set(net.at(root).group.tree.nodes)
    for node, number in numbers.items():
        net.world.unsubscribe(node, CHANNEL, number)
    net.world.run(30)
    assert net.at(root).group.tree.nodes == (root,)


# the tree


def test_a_tree_is_acknowledged_passed_on_to_the_children_and_repeated_until_they_have_it() -> None:
    ctx, template = FakeContext("m", neighbours="abc", now=LATER), multicast()
    subscribe(ctx, template)
    ctx.clear()
    tree = update()
    template.update(ctx, tree, "a")
    assert said(ctx, TreeHeard) == [("a", TreeHeard(1, 1))]
    assert said(ctx, TreeUpdate) == [("b", tree), ("c", tree)]
    template.update_heard(ctx, TreeHeard(1, 1), "c")
    for _ in range(3):
        ctx.clear()
        template.on_timer(ctx, "retry")
        assert said(ctx, TreeUpdate) == [("b", tree)]
    template.update_heard(ctx, TreeHeard(1, 0), "b")
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert said(ctx, TreeUpdate) == [("b", tree)], "b had heard of an older one"
    template.update_heard(ctx, TreeHeard(2, 0), "b")
    ctx.clear()
    template.on_timer(ctx, "retry")
    assert said(ctx, TreeUpdate) == [], "b has a newer one"


@pytest.mark.parametrize("older", [(1, 1), (1, 2), (0, 9)])
def test_an_old_tree_never_replaces_a_newer_one_but_is_acknowledged(older: tuple[int, int]) -> None:
    ctx, template = FakeContext("m", neighbours="abc", now=LATER), multicast()
    template.update(ctx, update(counter=2), "a")
    ctx.clear()
    template.update(ctx, update(older[1], older[0], "am", (0, 0)), "a")
    assert template.group.neighbours(ctx) == ("a", "b", "c")
    assert said(ctx, TreeHeard) == [("a", TreeHeard(*older))]
    assert said(ctx, TreeUpdate) == []


def test_a_newer_tree_says_where_parcels_go() -> None:
    ctx, template = middle()
    template.update(ctx, update(2, nodes="amc", parents=(0, 0, 1)), "a")
    ctx.clear()
    item = parcel("a")
    template.on_parcel(ctx, item, "a")
    assert ctx.sent() == [("c", item)]


@pytest.mark.parametrize(
    ("nodes", "parents", "marks"),
    [
        ("am", (0,), (1, 1)),
        ("am", (0, 0), (1,)),
        ("am", (0, 1), (1, 1)),
        ("amb", (0, 2, 0), (1, 1, 1)),
        ("am", (1, 0), (1, 1)),
        ("am", (0, 99), (1, 1)),
    ],
)
def test_a_tree_that_is_none_is_refused_and_changes_nothing(
    nodes: str, parents: tuple[int, ...], marks: tuple[int, ...]
) -> None:
    ctx, template = middle()
    with pytest.raises(ProtocolError):
        template.update(ctx, TreeUpdate(9, 9, tuple(nodes), parents, marks), "a")
    assert template.group.neighbours(ctx) == ("a", "b", "c")
    assert template.group.version == (1, 1)


@pytest.mark.parametrize("nodes", ["amm", "ama", "amab"])
def test_a_tree_with_a_node_in_two_places_is_refused_and_changes_nothing(nodes: str) -> None:
    ctx, template = middle()
    with pytest.raises(ProtocolError):
        template.update(ctx, update(9, 9, nodes, (0, 0, 1, 2)[: len(nodes)]), "a")
    assert template.group.neighbours(ctx) == ("a", "b", "c")
    assert template.group.version == (1, 1)


def test_a_child_that_is_back_is_told_the_tree_again() -> None:
    ctx, template = middle()
    for child in "bc":
        template.update_heard(ctx, TreeHeard(1, 1), child)
    template.on_membership(ctx, Membership("up", "b"))
    assert said(ctx, TreeUpdate) == [("b", update())]


def test_a_tree_reaches_everybody_though_half_of_all_is_lost() -> None:
    names = [f"n{number}" for number in range(1, 13)]
    edges = [(names[(number - 1) // 2], names[number]) for number in range(1, 12)]
    for seed in range(1, 6):
        net = Net(Multicast, edges, link=LinkModel(loss=0.5), seed=seed)
        net.subscribe(names)
        net.world.run(40)
        assert len({net.at(name).group.version for name in names}) == 1
        assert all(set(net.at(name).group.tree.nodes) == set(names) for name in names)


# the rendezvous


def mesh(nodes: str) -> Net:
    """Nodes that can all reach each other and know who is there."""
    net = Net(Multicast, [(nodes[0], other) for other in nodes[1:]], {"refresh": 5.0})
    for a, b in combinations(nodes[1:], 2):
        net.world.link(a, b)
    net.world.set(None, NODES, dict.fromkeys(nodes, ()))
    return net


def test_when_the_rendezvous_node_goes_another_takes_over_and_everybody_follows() -> None:
    nodes = "abcdef"
    net = mesh(nodes)
    net.subscribe(nodes)
    net.world.run(10)
    first, _ = elsewhere(nodes, CHANNEL)
    assert all(net.at(node).group.tree.root == first for node in nodes)
    rest = nodes.replace(first, "")
    net.world.crash(first)
    net.world.set(None, NODES, dict.fromkeys(rest, ()))
    net.world.set(None, TREE, Tree((rest[0], other) for other in rest[1:]))
    net.world.run(20)
    second, _ = elsewhere(rest, CHANNEL)
    assert second != first
    for node in rest:
        tree = net.at(node).group.tree
        assert (tree.root, set(tree.nodes)) == (second, set(rest))
    for source in rest:
        net.publish(source)
    net.world.run(25)
    assert all(net.got[node, source] == [1] for node in rest for source in rest)


def test_a_node_that_comes_and_matches_better_becomes_the_root() -> None:
    nodes = "abcdef"
    best, _ = elsewhere(nodes, CHANNEL)
    rest = nodes.replace(best, "")
    net = mesh(nodes)
    net.world.set(None, NODES, dict.fromkeys(rest, ()))
    net.world.set(None, TREE, Tree((rest[0], other) for other in rest[1:]))
    net.subscribe(rest)
    net.world.run(10)
    assert {net.at(node).group.tree.root for node in rest} == {elsewhere(rest, CHANNEL)[0]}
    net.world.set(None, TREE, Tree((nodes[0], other) for other in nodes[1:]))
    net.world.set(None, NODES, dict.fromkeys(nodes, ()))
    net.world.run(25)
    assert {net.at(node).group.tree.root for node in rest} == {best}
    assert set(net.at(best).group.tree.nodes) == set(nodes)


def test_a_root_that_forgot_everything_makes_a_newer_tree_not_an_older_one() -> None:
    net = mesh("abcdef")
    net.subscribe("abcdef")
    net.world.run(10)
    root, other = elsewhere("abcdef", CHANNEL)
    before = net.at(other).group.version
    net.world.crash(root)
    net.world.run(11)
    net.world.restart(root)
    net.world.run(30)
    assert net.at(other).group.version == net.at(root).group.version > before
    assert set("abcdef") == set(net.at(root).group.tree.nodes)


def test_a_member_that_falls_silent_is_forgotten_after_some_refreshes() -> None:
    net = Net(Multicast, [("a", "b"), ("b", "c")], {"refresh": 2.0})
    net.subscribe("abc")
    net.world.run(5)
    root = net.at("a").group.root(net.ctx("a"))
    far = "c" if root != "c" else "a"
    net.world.add_rule(Loss(senders=(far,), start=5.0, end=40.0))
    net.world.run(12)
    assert far in net.at(root).group.tree, "a few refreshes are not enough"
    net.world.run(25)
    assert far not in net.at(root).group.tree
    net.world.run(60)
    assert far in net.at(root).group.tree, "it asks again"


# nodes below


def test_a_node_below_says_what_it_wants_to_its_server_only() -> None:
    ctx, template = FakeContext("c", server="b1/s2", now=LATER, role=Role.CLIENT), multicast()
    template.on_open(ctx)
    assert interests(ctx) == [("s2", False, False)]
    ctx.clear()
    subscribe(ctx, template)
    assert interests(ctx) == [("s2", True, False)]
    ctx.clear()
    template.on_publish(ctx, parcel("b1/s2/c"))
    assert interests(ctx) == [("s2", True, True)]
    assert said(ctx, Join) == []


def test_a_node_below_is_told_only_of_channels_it_has_spoken_of() -> None:
    ctx = FakeContext("s", server="b1", below=("c", "d"), now=LATER, role=Role.SECONDARY)
    template = multicast()
    template.hear(ctx, Interest(1, False, False), "c")
    template.hear(ctx, Interest(1, False, False), "b1")
    ctx.clear()
    subscribe(ctx, template)
    assert interests(ctx) == [("b1", True, False), ("c", True, False)]


def test_a_node_below_hears_that_somebody_listens_when_what_it_publishes_can_be_passed_on() -> None:
    ctx, template, root = pair()
    template.hear(ctx, Interest(1, False, True), "c")
    ctx.containers[BELOW] = ("c",)
    subscribe(ctx, template)
    assert interests(ctx) == [], "the node is not in the group: it could keep only a little"
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (LISTENS, LISTENS | PUBLISHES)), root)
    assert interests(ctx) == [("c", True, False)]


def test_publishers_wait_while_parcels_wait_for_the_group() -> None:
    ctx, template, root = pair()
    for number in range(1, MAX_WAITING):
        template.on_publish(ctx, parcel(ctx.node, number))
    assert template.obstacle(ctx) is None
    template.on_publish(ctx, parcel(ctx.node, MAX_WAITING))
    assert "the group" in (template.obstacle(ctx) or "")
    assert ctx.dropped() == []
    template.update(ctx, TreeUpdate(1, 1, (root, ctx.node), (0, 0), (LISTENS, PUBLISHES)), root)
    assert template.obstacle(ctx) is None


def test_an_interest_is_acknowledged_with_its_version_and_an_old_one_never_wins() -> None:
    ctx = FakeContext("s", server="b1", below=("c",), now=LATER, role=Role.SECONDARY)
    template = multicast()
    template.hear(ctx, Interest(5, False, False), "c")
    template.hear(ctx, Interest(4, True, True), "c")
    template.hear(ctx, Interest(5, True, True), "c")
    assert said(ctx, InterestHeard) == [("c", InterestHeard(version)) for version in (5, 4, 5)]
    assert not template.has_subscribers(ctx)
    template.hear(ctx, Interest(6, True, False), "c")
    assert template.has_subscribers(ctx)


def test_an_interest_is_repeated_until_it_is_heard_and_grows_with_the_clock() -> None:
    ctx, template = FakeContext("c", server="s2", now=LATER, role=Role.CLIENT), multicast(retry=2)
    subscribe(ctx, template)
    ((_, told),) = said(ctx, Interest)
    assert told.version >= LATER
    assert ctx.woken() == {"interest": ctx.now + 2 * NANOSECONDS}
    for _ in range(3):
        ctx.clear()
        template.on_timer(ctx, "interest")
        assert said(ctx, Interest) == [("s2", told)]
    template.heard(ctx, InterestHeard(told.version - 1), "s2")
    template.heard(ctx, InterestHeard(told.version), "stranger")
    ctx.clear()
    template.on_timer(ctx, "interest")
    assert said(ctx, Interest) == [("s2", told)]
    template.heard(ctx, InterestHeard(told.version), "s2")
    ctx.clear()
    template.on_timer(ctx, "interest")
    assert ctx.effects == []


def test_an_interest_forgotten_and_told_again_at_one_instant_is_newer() -> None:
    ctx, template = FakeContext("c", server="s2", role=Role.CLIENT), multicast()
    subscribe(ctx, template)
    template.on_membership(ctx, Membership("up", "s2"))
    one, two = (item.version for _, item in said(ctx, Interest))
    assert one < two


def test_a_publisher_goes_on_after_its_link_was_lost_and_found_though_its_server_noticed_nothing() -> None:
    client = FakeContext("c", server="s", now=LATER, role=Role.CLIENT)
    server = FakeContext("s", below=("c",), now=LATER, role=Role.BACKBONE)
    ends = {"c": (client, multicast()), "s": (server, multicast())}

    def exchange() -> None:
        while any(ctx.sent() for ctx, _ in ends.values()):
            for name, (ctx, _) in ends.items():
                items, other = ctx.sent(), ends["s" if name == "c" else "c"]
                ctx.clear()
                for to, item in items:
                    if to in ends:
                        getattr(other[1], "hear" if isinstance(item, Interest) else "heard")(
                            other[0], item, name
                        )

    for ctx, template in ends.values():
        template.on_open(ctx)
    subscribe(server, ends["s"][1])
    ends["s"][1].on_timer(server, "merge")  # alone, it is in the group at once
    server.clear()
    ends["c"][1].on_membership(client, Membership("publishing", ""))
    exchange()
    assert ends["c"][1].ready(client)
    for change in ("down", "up"):
        ends["c"][1].on_membership(client, Membership(change, "s"))
    exchange()
    assert ends["c"][1].ready(client)
    item = parcel("s/c")
    ends["c"][1].on_publish(client, item)
    assert ("s", item) in client.sent()


def test_a_server_joins_for_its_nodes_below_and_passes_parcels_to_those_that_listen() -> None:
    root, node = elsewhere()
    ctx = FakeContext(node, neighbours=root, below=("x", "y"), now=LATER, role=Role.BACKBONE)
    ctx.containers[NODES] = {root: (), node: ()}
    template = multicast()
    template.hear(ctx, Interest(1, True, False), "x")
    template.hear(ctx, Interest(1, False, True), "y")
    template.on_timer(ctx, "merge")
    ((_, join),) = said(ctx, Join)
    assert join.members == ((node, LISTENS | PUBLISHES | LOST),)
    template.update(ctx, TreeUpdate(1, 1, (root, node), (0, 0), (LISTENS, LISTENS)), root)
    ctx.clear()
    item = parcel(root)
    template.on_parcel(ctx, item, root)
    assert ctx.sent() == [("x", item)]
    own = parcel(f"{node}/y")
    ctx.clear()
    template.on_parcel(ctx, own, "y")
    assert ctx.sent() == [(root, own), ("x", own)]


def test_what_a_node_below_publishes_waits_until_its_server_has_spoken() -> None:
    net = Net(Multicast, [("a", "b")], below={"h": "b"})
    net.subscribe("ab")
    net.world.run(10)
    net.world.crash("h")
    net.world.restart("h")
    net.world.publish("h", CHANNEL)
    net.world.run(20)
    assert (net.got["a", "h"], net.got["b", "h"]) == ([1], [1])


def test_when_the_last_node_below_leaves_its_server_leaves_the_group() -> None:
    root, node = elsewhere()
    ctx = FakeContext(node, neighbours=root, below=("x",), now=LATER, role=Role.BACKBONE)
    ctx.containers[NODES] = {root: (), node: ()}
    template = multicast()
    template.hear(ctx, Interest(1, True, False), "x")
    template.update(ctx, TreeUpdate(1, 1, (root, node), (0, 0), (LISTENS, LISTENS)), root)
    ctx.clear()
    ctx.containers[BELOW] = ()
    template.on_container(ctx, BELOW, ())
    assert [leave.member for _, leave in said(ctx, Leave)] == [node]


def test_a_node_below_learns_whether_anybody_elsewhere_listens() -> None:
    net = Net(Multicast, [("a", "b")], below={"x": "a", "y": "b"}, link=LinkModel(loss=0.3))
    net.publish("x")
    net.world.run(5)
    assert not net.at("x").has_subscribers(net.ctx("x"))
    number = net.world.subscribe("y", CHANNEL)
    net.world.run(15)
    assert net.at("x").has_subscribers(net.ctx("x"))
    net.world.unsubscribe("y", CHANNEL, number)
    net.world.run(25)
    assert not net.at("x").has_subscribers(net.ctx("x"))


# feedback


@pytest.mark.parametrize(
    ("ctx", "sender", "hop"),
    [
        (FakeContext("d", server="b3"), None, "b3"),
        (FakeContext("b3", tree=Tree([("b1", "b2"), ("b2", "b3")]), below=("d",)), "d", "b2"),
        (FakeContext("b2", tree=Tree([("b1", "b2"), ("b2", "b3")])), "b3", "b1"),
        (FakeContext("b1", tree=Tree([("b1", "b2"), ("b2", "b3")]), below=("s2",)), "b2", "s2"),
        (FakeContext("s2", server="b1", below=("c",)), "b1", "c"),
    ],
)
def test_an_answer_goes_hop_by_hop_to_the_address_of_its_source(
    ctx: FakeContext, sender: str | None, hop: str
) -> None:
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, sender)
    assert ctx.sent() == [(hop, reply)]
    assert ctx.answered() == []


def test_an_answer_is_delivered_at_its_source_and_nowhere_else() -> None:
    ctx = FakeContext("c", server="b1/s2")
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, "s2")
    assert ctx.answered() == [reply]
    assert ctx.sent() == []


def test_an_answer_to_a_node_that_has_left_is_dropped() -> None:
    ctx = FakeContext("s2", server="b1", below=())
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, "b1")
    assert ctx.dropped() == [(reply, "no way to the source")]


# settings


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"retry": 0}, "retry"),
        ({"retry": 3601}, "retry"),
        ({"merge": 0}, "merge"),
        ({"refresh": 0.5}, "refresh"),
        ({"window": 0}, "window"),
        ({"size": 1}, "size"),
    ],
)
def test_settings_out_of_range_name_their_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Multicast.parse(settings)
    assert caught.value.key == key
