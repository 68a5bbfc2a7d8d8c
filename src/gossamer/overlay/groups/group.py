"""The group of a channel on the backbone: who is in it, and the tree that joins them (seed 000, 4.1.1).

Nodes that listen or publish ask the root to be in the tree. Requests travel one hop at a time, towards the
rendezvous node along the backbone's tree at first and along the group's own tree later; each node merges
what it hears into one larger request, and each hop is repeated until it is acknowledged. Refreshes are
aligned so that the deepest nodes speak first: the root hears about as many requests as it has children.
The root makes a tree over the members, numbered (epoch, counter), and each node hands it on to its
children until they acknowledge. Whoever leaves tells the root until it hears back. When the rendezvous
node changes, every member knows all the others from the tree, so the new root starts with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from gossamer.core.context import CONTACTS, LINKS, NODES, TREE, Context
from gossamer.core.control import MOST
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.core.tree import Tree
from gossamer.overlay.groups.messages import (
    ANY,
    LISTENS,
    LOST,
    MAX_MEMBERS,
    PUBLISHES,
    Join,
    JoinHeard,
    Leave,
    LeaveHeard,
    TreeHeard,
    TreeUpdate,
)
from gossamer.overlay.groups.rendezvous import rendezvous
from gossamer.overlay.groups.tree import Rooted, packed, span, unpacked

FOREVER = 2**63 - 1
KEPT, REMEMBERED = 5, 2
"""Refreshes that a member outlives without a word: one that asked, and one known from a tree only."""
LISTEN = 4
"""Retries for which a new root listens for members before it calls its tree complete."""
CHECK = 2.0
"""Seconds after which a node that is still not in a tree asks again."""

Version = tuple[int, int]


class GroupTimes(msgspec.Struct, frozen=True):
    """Seconds.

    retry
        Until something not acknowledged is said again.
    merge
        That a request waits for others to be merged with it.
    refresh
        Between refreshes of membership and of the tree; a member silent for five is dropped.
    """

    retry: float = 0.5
    merge: float = 0.1
    refresh: float = 30.0


class Wanted(msgspec.Struct):
    """A member known from requests; forgotten after so many refreshes, which no jump of a clock hastens."""

    mark: int
    left: int


class Group:
    """The group of one channel, as one backbone node sees it.

    changed
        Called when this node has another tree.
    follow
        Whether members keep to the root of their tree while it lives, instead of the rendezvous node; nobody
        is a root to itself but the rendezvous node and whom that lets lead.
    """

    def __init__(self, times: GroupTimes, changed: Callable[[Context], None], follow: bool = False) -> None:
        self.times = times
        self.tree: Rooted | None = None
        self.version: Version = (0, 0)
        self.marks: dict[str, int] = {}
        self.claimed: str | None = None
        """A node that the rendezvous node lets lead."""
        self.follow = follow
        self._changed = changed
        self._mine = 0
        self._members: dict[str, Wanted] = {}
        self._seen = 0
        """The newest epoch heard of."""
        self._leads = False
        self._whole = False
        """Whether the tree has all members: its root has listened long enough."""
        self._listening = False
        self._backbone: object = None
        self._meeting: str | None = None
        self._last_root: str | None = None
        self._number = 0
        self._unheard: Join | None = None
        self._untold: set[str] = set()
        """Children, and those cut off and not aware of it, that have not acknowledged the tree."""
        self._bypass = False
        """Whether somebody between this node and the root asks to be in the tree: requests go round it."""
        self._leaving = 0
        self._flushing = False
        self._refreshed = 0
        """When the last refresh was."""

    # reading

    def root(self, ctx: Context) -> str:
        """Where requests go."""
        live = self.live(ctx)
        if self.claimed is not None and self.claimed in live:
            return self.claimed
        if self.follow and self.tree is not None and self.tree.root in live and self.tree.root != ctx.node:
            return self.tree.root
        return self.meeting(ctx)

    def meeting(self, ctx: Context) -> str:
        """The rendezvous node; asked for with every parcel, found anew when the backbone is another."""
        nodes = ctx.container(NODES)
        backbone = ctx.container(TREE) if nodes is None else nodes
        if self._meeting is None or backbone is not self._backbone:
            self._backbone = backbone
            self._meeting = rendezvous(ctx.id, self.live(ctx)) or ctx.node
        return self._meeting

    def live(self, ctx: Context) -> Collection[str]:
        """Who lives, as far as this node knows."""
        if (nodes := ctx.container(NODES)) is not None:
            return dict.keys(nodes)
        tree: Tree | None = ctx.container(TREE)
        return tree.nodes if tree and tree.nodes else (ctx.node,)

    def joined(self, ctx: Context) -> bool:
        """Whether this node is in a tree with others, or in that of the root it knows."""
        return self.current(ctx) or (self.tree is not None and bool(self.tree.neighbours(ctx.node)))

    def current(self, ctx: Context) -> bool:
        """Whether this node is in a tree of the root it knows, and not of one that was."""
        return self.tree is not None and ctx.node in self.tree and self.tree.root == self.root(ctx)

    def complete(self, ctx: Context) -> bool:
        """Whether this node is in the tree of the root it knows, and that tree has every member.

        A root that has just taken over knows members from the tree before it, if it was in that; others
        notice later that the root is another, and join then.
        """
        return self._whole and self.current(ctx)

    def lost(self, ctx: Context) -> bool:
        """Whether this node should have met others, and has not."""
        contacts = ctx.container(CONTACTS) or ()
        return any(name != ctx.node for name in contacts) and len(self.live(ctx)) < 2

    def neighbours(self, ctx: Context) -> tuple[str, ...]:
        """Who is next to this node in the group's tree."""
        return self.tree.neighbours(ctx.node) if self.tree else ()

    def listeners(self, ctx: Context) -> bool:
        """Whether a member elsewhere listens."""
        return any(mark & LISTENS for node, mark in self.marks.items() if node != ctx.node)

    def way(self, ctx: Context, target: str) -> str:
        """The next node towards another: itself where everybody can reach everybody, else along the tree."""
        tree: Tree | None = None if ctx.container(NODES) is not None else ctx.container(TREE)
        return (tree.next_hop(ctx.node, target) if tree else None) or target

    # what this node wants

    def want(self, ctx: Context, listens: bool, publishes: bool) -> None:
        """Say what this node wants to be; nothing means to leave."""
        mark = LISTENS * listens + PUBLISHES * publishes
        if mark == self._mine:
            return
        self._mine = mark
        if mark:
            self._leaving = 0
            self._members[ctx.node] = Wanted(mark if self.current(ctx) else mark | LOST, FOREVER)
            self._soon(ctx)
            ctx.wake("check", CHECK)
        else:
            self._members.pop(ctx.node, None)
            self._leave(ctx)

    def _leave(self, ctx: Context) -> None:
        if self.root(ctx) == ctx.node:
            self._soon(ctx)
        elif self.marks.get(ctx.node):
            self._number += 1
            self._leaving = self._number
            self._again(ctx)

    # timers and changes

    def timer(self, ctx: Context, name: str) -> None:
        match name:
            case "merge":
                self._flush(ctx)
            case "retry":
                self._again(ctx)
            case "refresh":
                self._refreshed = ctx.now
                self._age(ctx)
                if self._leads or self._members or self.joined(ctx):  # who only passes on says it again too
                    self._flush(ctx)
                    self._schedule(ctx)
            case "listened":
                self._listening = False
                if self._leads and self.tree is not None:
                    self._adopt(ctx, self.tree, self.marks, self._following)
            case "check":
                if self._mine and not self.current(ctx):
                    self._members[ctx.node] = Wanted(self._mine | LOST, FOREVER)
                    self._soon(ctx)
                    ctx.wake("check", CHECK)

    def _schedule(self, ctx: Context) -> None:
        """Refresh in step with all others, the deepest nodes first, so that each merges what is below it.

        A host may call a little before the instant it was asked for. The next refresh is at least half a
        period after the last one, or several within a millisecond would age members that live.
        """
        period = nanoseconds(self.times.refresh)
        below = self.tree.height - self.tree.depth(ctx.node) if self.tree and ctx.node in self.tree else 0
        offset = nanoseconds(2 * self.times.merge * below) % period
        half = period // 2
        soonest = self._refreshed + half if 0 <= ctx.now - self._refreshed < half else ctx.now
        due = (soonest - offset) // period * period + period + offset
        ctx.wake("refresh", (due - ctx.now) / NANOSECONDS)

    def _age(self, ctx: Context) -> None:
        for name, wanted in tuple(self._members.items()):
            wanted.left -= name != ctx.node
            if not wanted.left:
                del self._members[name]

    def backbone_changed(self, ctx: Context) -> None:
        """Nodes came or went: if the root is another, it has to learn of everybody."""
        live = self.live(ctx)
        root = self.root(ctx)
        if root != self._last_root:
            moved, self._last_root = self._last_root is not None, root
            if moved or root == ctx.node:
                self._remember(ctx)
            self._unheard = None
            if self._members or root == ctx.node:
                self._soon(ctx)
            if self._mine:
                ctx.wake("check", CHECK)
        elif root == ctx.node and any(node not in live for node in self.marks):
            self._soon(ctx)
        self._untold.intersection_update(live)

    def _remember(self, ctx: Context) -> None:
        """Take everybody in the tree for a member that asks again."""
        live = self.live(ctx)
        for node, mark in self.marks.items():
            if mark and node in live and node != ctx.node:
                self._members.setdefault(node, Wanted(mark, REMEMBERED))

    def neighbour_back(self, ctx: Context, node: str) -> None:
        """A neighbour may have lost its tree; if it is the root, it has lost its members too."""
        if self.tree is not None and node == self.tree.root == self.root(ctx):
            self._remember(ctx)
            self._unheard = None
            self._soon(ctx)
        if self.tree is not None and node in self.tree.children(ctx.node):
            self._untold.add(node)
            self._again(ctx)

    def _again(self, ctx: Context) -> None:
        """Say again what was not acknowledged."""
        if self._unheard is not None:
            target = self._unheard.target
            ctx.send(self.way(ctx, target) if target else self._hop(ctx), self._unheard)
        if self._leaving:
            ctx.send(self.way(ctx, self.root(ctx)), Leave(ctx.node, self._leaving))
        if self._untold and self.tree is not None:
            ctx.send(sorted(self._untold), packed(self.version, self.tree, self.marks, self._whole))
        if self._unheard is not None or self._leaving or self._untold:
            ctx.wake("retry", self.times.retry)

    # requests towards the root

    def _soon(self, ctx: Context) -> None:
        """Something is new: pass it on, or make a tree of it, together with what comes in the meantime."""
        if not self._flushing:
            self._flushing = True
            ctx.wake("merge", self.times.merge)

    def _flush(self, ctx: Context) -> None:
        self._flushing = False
        live = self.live(ctx)
        self._members = {
            name: wanted for name, wanted in self._members.items() if name in live or name == ctx.node
        }
        self._last_root = self.root(ctx)
        if self._last_root == ctx.node:
            self._lead(ctx)
            return
        self._leads = False
        if self._members:
            self._number += 1
            members = tuple(sorted((name, wanted.mark) for name, wanted in self._members.items()))
            # whoever led hands everybody over, not hop by hop: on the way some may follow it still
            led = self.follow and len(members) > 1 and (self.tree is None or self.tree.root == ctx.node)
            ends = (self._last_root, ctx.node) if led or self.claimed is not None else ("", "")
            self._unheard = Join(self._number, max(self._seen, self.version[0]), members[:MAX_MEMBERS], *ends)
            self._again(ctx)

    def _hop(self, ctx: Context) -> str:
        """The next node towards the root: the parent in the group, else along the backbone's tree."""
        root, tree = self.root(ctx), self.tree  # not one known to be old: it may lead round in a circle
        if tree is not None and tree.root == root and self.version[0] >= self._seen and not self._bypass:
            parent = tree.parent(ctx.node)
            if parent is not None and parent in self.live(ctx):
                return parent
        backbone: Tree | None = ctx.container(TREE)
        return (backbone.next_hop(ctx.node, root) if backbone else None) or root

    def join(self, ctx: Context, join: Join, sender: str) -> None:
        if join.target and join.target != ctx.node:
            ctx.send(self.way(ctx, join.target), join)
            return
        ctx.send(self.way(ctx, join.origin) if join.origin else sender, JoinHeard(join.number, join.origin))
        self._seen = max(self._seen, join.epoch)
        self._bypass |= self.tree is not None and self.tree.above(ctx.node, sender)
        news = False
        for name, mark in join.members:
            if name != ctx.node:
                known = self._members.get(name)
                if known is None and len(self._members) > MAX_MEMBERS:
                    continue  # names that no node has go with the next merge
                news = news or known is None or known.mark & ANY != mark & ANY or bool(mark & LOST)
                self._members[name] = Wanted(mark, KEPT)
        if news:
            self._soon(ctx)
        if not self.joined(ctx):
            self._schedule(ctx)
        elif self.tree and sender not in self.tree and not dict(join.members).get(sender, LOST) & LOST:
            self._untold.add(sender)  # it does not know that it is not in the tree
            self._again(ctx)

    def join_heard(self, ctx: Context, heard: JoinHeard, sender: str) -> None:
        if heard.target and heard.target != ctx.node:
            ctx.send(self.way(ctx, heard.target), heard)
        elif self._unheard is not None and self._unheard.number == heard.number:
            for name, _ in self._unheard.members:  # whoever still has no tree says so again itself
                if name in self._members:
                    self._members[name].mark &= ANY
            self._unheard = None

    def leave(self, ctx: Context, leave: Leave, sender: str) -> None:
        if self.root(ctx) != ctx.node:
            ctx.send(self.way(ctx, self.root(ctx)), leave)
            return
        ctx.send(self.way(ctx, leave.member), LeaveHeard(leave.member, leave.number))
        if self._members.pop(leave.member, None) is not None:
            self.marks[leave.member] = 0
            self._soon(ctx)

    def leave_heard(self, ctx: Context, heard: LeaveHeard, sender: str) -> None:
        if heard.member != ctx.node:
            ctx.send(self.way(ctx, heard.member), heard)
        elif heard.number == self._leaving:
            self._leaving = 0

    # the tree, from the root down

    def _lead(self, ctx: Context) -> None:
        """Make the tree that the members need; tell them if it is another."""
        if not self._leads:
            self._leads = True
            self._remember(ctx)
            self.version = (max(ctx.now, self._seen + 1, self.version[0] + 1), 0)
            self._schedule(ctx)
            self._listening = len(self.live(ctx)) > 1
            if self._listening:
                ctx.wake("listened", LISTEN * self.times.retry)
        elif self._seen > self.version[0]:
            self.version = (self._seen + 1, 0)
        members = {name: wanted.mark & ANY for name, wanted in self._members.items()}
        lost = any(wanted.mark & LOST for wanted in self._members.values())
        for wanted in self._members.values():
            wanted.mark &= ANY
        tree = span(ctx.node, members, ctx.container(LINKS), ctx.container(TREE))
        marks = {node: members.get(node, 0) for node in tree.nodes}
        if lost or self.tree is None or (self.tree.tree, self.marks) != (tree.tree, marks):
            silent = {node for node, mark in self.marks.items() if mark and node not in tree}
            cut = silent.intersection(ctx.container(NODES) or ())
            self._adopt(ctx, tree, marks, self._following, cut)

    @property
    def _following(self) -> Version:
        """The version of the next tree: a new epoch where the counter has reached its end."""
        epoch, counter = self.version
        return (epoch, counter + 1) if counter < MOST else (epoch + 1, 1)

    def _adopt(
        self,
        ctx: Context,
        tree: Rooted,
        marks: dict[str, int],
        version: Version,
        cut: Collection[str] = (),
        whole: bool | None = None,
    ) -> None:
        """Take a tree; whom the root has cut off hears of it too, for it may think that it is in it."""
        self.tree, self.marks, self.version = tree, marks, version
        self._whole = not self._listening if whole is None else whole
        self._untold = {*tree.children(ctx.node), *cut}
        self._bypass = False
        if ctx.node in self._members:
            self._members[ctx.node].mark &= ANY
        self._changed(ctx)
        self._again(ctx)

    def update(self, ctx: Context, update: TreeUpdate, sender: str) -> None:
        if (update.epoch, update.counter) > self.version:
            self._take(ctx, update)
        ctx.send(sender, TreeHeard(update.epoch, update.counter))

    def _take(self, ctx: Context, update: TreeUpdate) -> None:
        tree, marks = unpacked(update)
        self._seen = max(self._seen, update.epoch)
        mine = {ctx.node, *tree.below(ctx.node)}
        self._members = {
            name: wanted for name, wanted in self._members.items() if name in mine or wanted.mark & LOST
        }
        self._last_root = tree.root
        self._adopt(ctx, tree, marks, (update.epoch, update.counter), whole=update.complete)
        self._schedule(ctx)
        if not self._mine and self.marks.get(ctx.node):
            self._leave(ctx)
        elif self._mine and ctx.node not in tree:  # cut off: nothing else would let it ask again
            ctx.wake("check", CHECK)

    def update_heard(self, ctx: Context, heard: TreeHeard, sender: str) -> None:
        if (heard.epoch, heard.counter) >= self.version:
            self._untold.discard(sender)
