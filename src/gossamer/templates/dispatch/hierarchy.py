"""Where a dispatcher stands in the hierarchy: as a deployment gives it, or as the tree of the backbone is."""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.core.context import BELOW, NODES, TREE, Context
from gossamer.core.tree import Tree
from gossamer.overlay.groups.rendezvous import rendezvous


def neighbourhood(ctx: Context, root: str, given: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Who is above a node, and all that are next to it.

    root
        Name of the dispatcher at the top; without one, or while it is not there, the rendezvous node.
    given
        Who is above whom on the backbone; if it says nothing, the backbone's tree does, seen from the root.
    """
    below = tuple(ctx.container(BELOW) or ())
    if ctx.server:
        return ctx.server, (ctx.server, *below)
    if given:
        above = given.get(ctx.node)
        children = tuple(sorted(node for node, up in given.items() if up == ctx.node))
        return above, (*((above,) if above else ()), *children, *below)
    tree: Tree | None = ctx.container(TREE)
    nodes = ctx.container(NODES)
    live = nodes if nodes is not None else (tree.nodes if tree else ())
    top = root if root in live else rendezvous(ctx.id, live)
    above = tree.next_hop(ctx.node, top) if tree and top else None
    return above, ((*tree.neighbours(ctx.node), *below) if tree else below)
