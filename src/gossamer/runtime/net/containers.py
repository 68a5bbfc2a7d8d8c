"""Who is around a node, as its containers say it; worked out anew whenever a link comes or goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.core.context import BELOW, CONTACTS, SERVER, TREE
from gossamer.core.engine import Engine
from gossamer.core.names import Role
from gossamer.core.tree import Tree
from gossamer.runtime.net.link import Link

TIER = {Role.BACKBONE: 1, Role.PEER: 1, Role.SECONDARY: 2, Role.CLIENT: 3}


def surroundings(
    engine: Engine, links: Mapping[str, Link], listens: tuple[str, ...], fixed: bool
) -> dict[str, Any]:
    """Containers and their values; with a fixed tree nobody has to be found."""
    mine = TIER[engine.role]
    hellos = {name: link.hello for name, link in sorted(links.items()) if link.hello}
    above = [hello.address for hello in hellos.values() if TIER[hello.role] < mine]
    found: dict[str, Any] = {
        SERVER: above[0] if above else None,
        BELOW: tuple(name for name, hello in hellos.items() if TIER[hello.role] > mine),
    }
    if mine == 1 and not fixed:
        beside = {name: hello.listens for name, hello in hellos.items() if TIER[hello.role] == 1}
        found[CONTACTS] = {**(engine.containers.get(CONTACTS) or {}), engine.node: listens, **beside}
        found[TREE] = _grafted(engine, tuple(beside))
    return found


def _grafted(engine: Engine, neighbours: tuple[str, ...]) -> Tree:
    """The tree with neighbours in it that nobody has measured yet; linkstate soon knows better."""
    tree: Tree = engine.containers.get(TREE) or Tree()
    if tree.nodes and engine.node not in tree.nodes:
        return tree
    return Tree([*tree.edges, *((engine.node, name) for name in neighbours if name not in tree.nodes)])
