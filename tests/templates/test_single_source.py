"""Single-source: the tree's root is where the source is, wherever its members met before."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gossamer.core.context import TREE
from gossamer.core.tree import Tree
from gossamer.overlay.groups.rendezvous import rendezvous
from gossamer.templates.single_source import SingleSource
from tests.templates.worlds import Net

NODES = "abcdefg"


def roots(net: Net) -> set[str]:
    """Who each node thinks is the root of the tree that it is in."""
    return {net.at(node).group.tree.root for node in net.world.nodes}


def far(net: Net) -> str:
    """A node that is not the rendezvous node."""
    meeting = rendezvous(net.ctx("a").id, net.world.nodes)
    return "a" if meeting != "a" else "g"


def test_the_root_moves_from_the_rendezvous_node_to_the_source() -> None:
    net = Net(SingleSource, pairwise(NODES))
    net.subscribe(NODES)
    net.world.run(10)
    source = far(net)
    assert roots(net) == {rendezvous(net.ctx("a").id, NODES)} != {source}
    net.publish(source, 20)
    net.world.run(20)
    assert roots(net) == {source}
    assert all(net.got[node, source] == list(range(1, 21)) for node in NODES)


def test_nodes_that_began_alone_follow_nobody_but_the_source_once_they_have_met() -> None:
    """Each was its own rendezvous node once, and led itself for ever: nobody heard the source.

    Replay: python benchmarks/proof.py single-source --first 1 --seeds 1 --nodes 20 --duration 600
    """
    net = Net(SingleSource, pairwise(NODES))
    for node in NODES:
        net.world.set(node, TREE, Tree())
    net.subscribe(NODES)
    net.world.run(5)
    assert roots(net) == set(NODES)
    for node in NODES:
        net.world.set(node, TREE, Tree(pairwise(NODES)))
    net.world.run(15)
    source = far(net)
    net.publish(source, 20)
    net.world.run(60)
    assert roots(net) == {source}
    assert all(net.got[node, source] == list(range(1, 21)) for node in NODES)


@pytest.mark.parametrize("newcomer", ["h", "i", "j", "k", "l", "m"])
def test_members_find_the_source_though_their_rendezvous_node_is_another_meanwhile(newcomer: str) -> None:
    net = Net(SingleSource, pairwise(NODES + newcomer))
    for node in NODES + newcomer:
        net.world.set(node, TREE, Tree(pairwise(NODES)))
    net.subscribe(NODES)
    net.world.run(10)
    for node in NODES + newcomer:
        net.world.set(node, TREE, Tree(pairwise(NODES + newcomer)))
    net.world.run(20)
    source = far(net)
    net.publish(source, 20)
    net.world.run(60)
    assert all(net.got[node, source] == list(range(1, 21)) for node in NODES)


def test_a_source_that_comes_back_is_the_root_again_and_is_heard() -> None:
    net = Net(SingleSource, pairwise(NODES))
    net.subscribe(NODES)
    net.world.run(10)
    source = far(net)
    net.publish(source, 5)
    net.world.run(20)
    net.world.crash(source)
    net.world.run(20.5)
    net.world.restart(source)
    net.world.run(60)
    net.publish(source, 5)
    net.world.run(90)
    assert all(net.got[node, source] == [*range(1, 6), *range(1, 6)] for node in NODES if node != source)


def test_what_a_second_source_publishes_is_dropped_and_counted() -> None:
    net = Net(SingleSource, pairwise(NODES))
    net.subscribe(NODES)
    net.world.run(10)
    source = far(net)
    net.publish(source, 5)
    net.world.run(20)
    net.publish("c", 5)
    net.world.run(30)
    assert net.world.drops["another node is the source"] > 0
    assert net.ledger.counts.duplicates == 0
