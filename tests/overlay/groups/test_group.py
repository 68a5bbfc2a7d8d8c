"""The group of a channel, one node at a time."""

from __future__ import annotations

from time import process_time
from typing import Any

import msgspec
import pytest

from gossamer.core.context import LINKS, NODES
from gossamer.core.control import MOST
from gossamer.core.effect import Send, Wake
from gossamer.core.names import channel_id, nanoseconds
from gossamer.overlay.groups.group import Group, GroupTimes
from gossamer.overlay.groups.messages import LISTENS, LOST, MAX_MEMBERS, Join, TreeUpdate
from gossamer.overlay.groups.rendezvous import ranking
from gossamer.testing.fake import CHANNEL, FakeContext


def alive(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names)


def test_a_new_root_begins_with_everybody_that_lives_and_does_not_remember_the_dead() -> None:
    old, here, other = ranking(channel_id(CHANNEL), ("b1", "b2", "b3"), 3)
    ctx = FakeContext(here, containers={NODES: alive(old, here, other), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.update(ctx, TreeUpdate(5, 1, (old, other, here), (0, 0, 0), (1, 2, 1)), old)
    assert group.current(ctx)
    ctx.containers[NODES] = alive(here, other)
    group.backbone_changed(ctx)
    group.timer(ctx, "merge")
    assert group.tree is not None
    assert group.tree.root == here
    assert set(group.tree.nodes) == {here, other}
    assert old not in group.marks
    assert group.version > (5, 1)


def test_a_request_does_not_follow_a_tree_that_is_known_to_be_old() -> None:
    """With the old trees of others it might go round in a circle, and never reach the root."""
    root, here, parent = ranking(channel_id(CHANNEL), ("b1", "b2", "b3"), 3)
    ctx = FakeContext(here, containers={NODES: alive(root, here, parent), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.update(ctx, TreeUpdate(5, 1, (root, parent, here), (0, 0, 1), (1, 1, 1)), parent)

    def asked() -> tuple[str, ...]:
        ctx.clear()
        group.timer(ctx, "refresh")
        return next(send.to for send in ctx.effects if isinstance(send, Send))

    assert asked() == (parent,)
    group.join(ctx, Join(1, 6, (("b9", 1),)), "b9")
    assert asked() == (root,)


def test_who_takes_itself_for_a_member_and_is_none_is_told_the_tree_by_who_it_asks() -> None:
    """Some took it for dead for a while; it would go on with its old tree until somebody tells it."""
    root, here, cut = ranking(channel_id(CHANNEL), ("b1", "b2", "b3"), 3)
    ctx = FakeContext(here, containers={NODES: alive(root, here, cut), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.update(ctx, TreeUpdate(5, 2, (root, here), (0, 0), (1, 1)), root)

    def told(mark: int, sender: str) -> bool:
        ctx.clear()
        group.join(ctx, Join(1, 5, ((cut, mark),)), sender)
        return any(isinstance(message, TreeUpdate) and to == sender for to, message in ctx.sent())

    assert not told(LISTENS | LOST, cut), "it knows that it is not in the tree"
    assert not told(LISTENS, root), "who passes it on is a member"
    assert not told(LISTENS, "b9"), "who passes it on need not be one"
    assert told(LISTENS, cut)


def test_who_only_passes_requests_on_says_them_again_at_every_refresh() -> None:
    """Somebody further on took who asked for dead, and it took itself for a member: nobody said it again.

    Replay: python benchmarks/proof.py total-order --first 17 --seeds 17
    """
    root, here, member = ranking(channel_id(CHANNEL), ("b1", "b2", "b3"), 3)
    ctx = FakeContext(here, containers={NODES: alive(root, here, member), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.join(ctx, Join(1, 5, ((member, LISTENS),)), member)
    group.timer(ctx, "merge")
    for number in range(2, 5):
        group.join(ctx, Join(number, 5, ((member, LISTENS),)), member)
        ctx.clear()
        group.timer(ctx, "refresh")
        assert [
            message.members for to, message in ctx.sent() if isinstance(message, Join) and to == root
        ] == [((member, LISTENS),)]


def test_a_timer_that_fires_a_little_early_ages_members_once() -> None:
    """Clocks of event loops are coarse: the instant was not reached yet, so the next refresh was due at once,
    and five of them within a millisecond dropped every member that lived.
    """
    here, member = ranking(channel_id(CHANNEL), ("b1", "b2"), 2)
    ctx = FakeContext(here, containers={NODES: alive(here, member), LINKS: {}})
    ctx.now = nanoseconds(60.1995)
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.join(ctx, Join(1, 0, ((member, LISTENS),)), member)
    group.timer(ctx, "merge")
    ctx.clear()
    group.timer(ctx, "refresh")
    dues = [each.at for each in ctx.effects if isinstance(each, Wake) and each.name == "refresh"]
    assert dues == [nanoseconds(90.2)]


def test_a_counter_at_its_end_is_followed_by_a_new_epoch() -> None:
    """A neighbour may invent a tree with the greatest counter there is."""
    here = ranking(channel_id(CHANNEL), ("b1", "b2", "b3"), 3)[0]
    others = sorted({"b1", "b2", "b3"} - {here})
    ctx = FakeContext(here, containers={NODES: alive("b1", "b2", "b3"), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.timer(ctx, "merge")
    epoch = group.version[0] + 1000
    group.update(ctx, TreeUpdate(epoch, MOST, (here, others[0]), (0, 0), (1, 1)), others[0])
    assert group.version == (epoch, MOST)
    ctx.clear()
    group.join(ctx, Join(1, 0, ((others[1], LISTENS),)), others[1])
    group.timer(ctx, "merge")
    assert group.version == (epoch + 1, 1)
    for update in (each for _, each in ctx.sent() if isinstance(each, TreeUpdate)):
        msgspec.msgpack.decode(msgspec.msgpack.encode(update), type=TreeUpdate)


def test_a_counter_beyond_its_end_is_no_message() -> None:
    far = msgspec.msgpack.encode(TreeUpdate(1, MOST + 1, ("b1",), (0,), (1,)))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(far, type=TreeUpdate)


def member(names: list[str]) -> tuple[FakeContext, Group]:
    """A node below the root of a channel, that has been asked for these."""
    root, here = ranking(channel_id(CHANNEL), ("b1", "b2"), 2)
    ctx = FakeContext(here, containers={NODES: alive(root, here), LINKS: {}})
    group = Group(GroupTimes(), lambda ctx: None)
    group.want(ctx, listens=True, publishes=False)
    group.join(ctx, Join(1, 1, tuple((name, LISTENS) for name in names)), root)
    return ctx, group


def test_a_deep_tree_costs_a_member_about_what_a_flat_one_does() -> None:
    names = [f"n{number}" for number in range(MAX_MEMBERS - 2)]

    def taken(parents: tuple[int, ...]) -> float:
        times = []
        for _ in range(3):
            ctx, group = member(names)
            update = TreeUpdate(9, 1, ("b1", "b2", *names), parents, (LISTENS,) * MAX_MEMBERS)
            before = process_time()
            group.update(ctx, update, "b1")
            times.append(process_time() - before)
        return min(times)

    assert taken((0, *range(MAX_MEMBERS - 1))) < 10 * taken((0,) * MAX_MEMBERS)


def test_a_tree_leaves_a_member_only_requests_of_those_below_it_and_of_those_without_a_tree() -> None:
    ctx, group = member(["above", "below", "deeper", "beside"])
    group.join(ctx, Join(2, 1, (("lost", LISTENS | LOST),)), "lost")
    nodes = ("above", ctx.node, "beside", "below", "deeper")
    group.update(ctx, TreeUpdate(9, 1, nodes, (0, 0, 0, 1, 3), (1,) * 5), "above")
    assert set(group._members) == {ctx.node, "below", "deeper", "lost"}


def test_the_members_that_a_node_remembers_are_bounded() -> None:
    ctx, group = member([f"n{number}" for number in range(MAX_MEMBERS)])
    group.join(ctx, Join(2, 1, tuple((f"x{number}", LISTENS) for number in range(MAX_MEMBERS))), "b1")
    assert len(group._members) <= MAX_MEMBERS + 1
