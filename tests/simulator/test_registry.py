"""The registry in virtual time: half of everything is lost, nodes crash, and servers still agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gossamer.core.context import BELOW, SERVER, TREE
from gossamer.core.control import Control
from gossamer.core.effect import Reply
from gossamer.core.names import Role, channel_id
from gossamer.core.template import Template
from gossamer.core.tree import Tree
from gossamer.core.wire import Item as Sent
from gossamer.core.wire import encode
from gossamer.overlay.registry.api import Follow, Get, RegistrySettings, Set
from gossamer.overlay.registry.replication import Feed
from gossamer.overlay.registry.service import Registry
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.world import World

SERVERS = [f"b{number}" for number in range(10)]
EDGES = [(f"b{number}", f"b{(number - 1) // 2}") for number in range(1, 10)]
SETTINGS = RegistrySettings(period=5.0, patience=120.0)


class Network:
    """Ten servers in a binary tree and a client below the last, on links that lose half of everything."""

    def __init__(self, seed: int, loss: float = 0.5) -> None:
        self.world = World(
            seed, services=self._services, link=LinkModel(latency=0.01, loss=loss, jitter=0.05)
        )
        for name in SERVERS:
            self.world.add_node(name, Role.BACKBONE)
        self.world.add_node("c", Role.CLIENT)
        for a, b in EDGES:
            self.world.link(a, b)
        self.world.link("c", "b9")
        for name in SERVERS:
            self.world.set(name, TREE, Tree(EDGES))
        self.world.set("b9", BELOW, ("c",))
        self.world.set("c", SERVER, "b9")

    def _services(self, stored: Mapping[str, bytes]) -> list[Template[Any]]:
        return [Registry(stored, SETTINGS)]

    def call(self, node: str, request: Any) -> list[Reply]:
        replies: list[Reply] = []
        self.world.call(node, Registry.name, request, replies.append)
        return replies

    def shelf(self, node: str) -> dict[str, bytes | None]:
        engine = self.world.engine(node)
        assert engine is not None
        registry = engine._instances[channel_id(Registry.name)].template
        assert isinstance(registry, Registry)
        return {item.key: item.value for item in registry.shelf}


@pytest.mark.parametrize("seed", range(1, 6))
def test_at_half_loss_all_servers_end_with_the_newest_of_every_item(seed: int) -> None:
    network = Network(seed)
    dice = network.world.dice("test")
    for second in range(1, 41):
        node, key = dice.choice([*SERVERS, "c"]), f"k{dice.randrange(5)}"
        value = None if dice.randrange(5) == 0 else f"{second}".encode()
        network.world.at(second, lambda node=node, key=key, value=value: network.call(node, Set(key, value)))  # type: ignore[misc]
    network.world.run(300)
    shelves = [network.shelf(node) for node in SERVERS]
    assert len(shelves[0]) == 5
    assert all(shelf == shelves[0] for shelf in shelves)


@pytest.mark.parametrize("seed", range(1, 6))
def test_at_half_loss_a_client_sets_finds_and_watches(seed: int) -> None:
    network = Network(seed)
    watched = network.call("c", Follow("a/"))
    written = network.call("c", Set("a/1", b"from below"))
    far = network.call("b8", Set("a/2", b"from afar"))
    found = network.call("c", Get("a/2"))
    network.world.run(120)
    assert [reply.error for reply in (*written, *far)] == [None, None]
    assert [reply.error or reply.value.value for reply in found] == [b"from afar"]
    told = [(item.key, item.value) for reply in watched for item in reply.value]
    assert sorted(told) == [("a/1", b"from below"), ("a/2", b"from afar")]


@pytest.mark.parametrize("seed", range(1, 4))
def test_what_was_acknowledged_survives_a_crash_of_all_nodes(seed: int) -> None:
    network = Network(seed)
    acknowledged: set[str] = set()

    def note(reply: Reply) -> None:
        if reply.error is None:
            acknowledged.add(reply.value.key)

    for number in range(20):
        node = ["c", "b0", "b5"][number % 3]
        network.world.call(node, Registry.name, Set(f"k{number}", b"v"), note)
    network.world.run(1.5)
    for node in (*SERVERS, "c"):
        network.world.crash(node)
    assert 13 < len(acknowledged) <= 20
    network.world.run(3)
    for node in (*SERVERS, "c"):
        network.world.restart(node)
    network.world.run(120)
    assert acknowledged <= set(network.shelf("b0"))
    assert all(network.shelf(node) == network.shelf("b0") for node in SERVERS)


def test_the_same_seed_sends_the_same_frames() -> None:
    def frames() -> list[tuple[str, str, bytes]]:
        network, sent = Network(7), []
        network.world.add_tap(lambda a, b, item: sent.append((a, b, encode(item))))
        for node in ("b3", "c"):
            network.call(node, Set(f"of/{node}", b"v"))
        network.call("b9", Get("of/b3"))
        network.world.run(60)
        return sent

    assert frames() == frames() != []


def test_a_node_never_feeds_faster_than_its_budget() -> None:
    network = Network(1)
    sent: dict[str, list[tuple[float, int]]] = {}

    def tap(sender: str, target: str, item: Sent) -> None:
        if isinstance(item, Control) and isinstance(item.message, Feed):
            sent.setdefault(sender, []).append((network.world.now, len(encode(item))))

    network.world.add_tap(tap)
    for number in range(60):
        network.call("b0", Set(f"k{number}", b"x" * 20_000))
    network.world.run(60)
    assert sum(size for _, size in sent["b0"]) > SETTINGS.burst
    for rows in sent.values():
        for position, (start, _) in enumerate(rows):
            spent = 0
            for at, size in rows[position:]:
                spent += size
                assert spent <= SETTINGS.burst + SETTINGS.budget * (at - start) + 1
