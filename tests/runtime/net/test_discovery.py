"""Peers of a channel find each other without an address: on the local network, or by a registry."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import gossamer
from gossamer.core.context import CONTACTS
from gossamer.core.errors import BadName, ConfigError
from gossamer.runtime.api.node import Node
from gossamer.runtime.net.discovery import MAX_CONTACTS, Contacts
from tests.runtime.parties import turns, until

LISTEN = "tcp://127.0.0.1:0"


def contacts(node: Node) -> dict[str, tuple[str, ...]]:
    return node._running.engine.containers.get(CONTACTS) or {}


def peer(name: str, *addresses: str, **more: Any) -> Node:
    return gossamer.connect(*addresses, name=name, role="peer", listen=LISTEN, **more)


async def heard(publisher: gossamer.Channel, subscription: gossamer.Subscription) -> gossamer.Event:
    """What is published until it is heard: the group has to be found first."""
    async with asyncio.timeout(60):
        while True:
            await publisher.publish(b"hello")
            try:
                return await subscription.next(timeout=0.5)
            except gossamer.errors.NoAnswer:
                continue


async def test_on_one_network_peers_of_a_channel_find_each_other_without_an_address() -> None:
    async with (
        peer("ann", discover="lan") as ann,
        peer("bob", discover="lan") as bob,
        peer("eve", discover="lan") as eve,
    ):
        hers = await ann.channel("lan-group", template="multiring")
        his = await bob.channel("lan-group", template="multiring")
        await eve.channel("another", template="multiring")
        async with hers.subscribe(), his.subscribe() as events:
            assert (await heard(hers, events)).payload == b"hello"
        assert contacts(ann)["bob"] == tuple(bob.addresses)
        assert "eve" not in contacts(ann)


async def test_a_peer_that_leaves_the_network_is_no_longer_a_contact() -> None:
    async with peer("ann", discover="lan") as ann:
        await ann.channel("lan-leaving", template="multiring")
        async with peer("bob", discover="lan") as bob:
            await bob.channel("lan-leaving", template="multiring")
            async with asyncio.timeout(30):
                await until(lambda: "bob" in contacts(ann))
        async with asyncio.timeout(30):
            await until(lambda: "bob" not in contacts(ann))


async def test_by_the_registry_of_a_backbone_who_only_publishes_finds_an_entry_to_the_group() -> None:
    async with gossamer.connect(name="hub", listen=LISTEN) as hub:
        at = hub.addresses[0]
        async with hub.registry.watch("peers/") as changes:
            async with (
                peer("ann", at, discover="registry") as ann,
                peer("bob", at, discover="registry") as bob,
            ):
                hers = await ann.channel("group", template="multiring")
                his = await bob.channel("group", template="multiring")
                async with his.subscribe() as events:
                    assert (await heard(hers, events)).payload == b"hello"
                assert contacts(ann)["bob"] == tuple(bob.addresses)
                async with asyncio.timeout(30):
                    while len(await hub.registry.list("peers/")) < 2:
                        await turns(1)
            left: set[str] = set()
            while left < {"ann", "bob"}:
                item = await changes.next(timeout=30)
                left |= {item.writer} if item.value is None else set()


async def test_a_peer_that_nobody_could_connect_to_is_not_announced() -> None:
    with pytest.raises(ConfigError, match="discover"):
        async with gossamer.connect(name="ann", role="peer", discover="lan"):
            pass


async def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gossamer.runtime.net.mdns", raising=False)
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with pytest.raises(ConfigError, match=r"gossamer\[lan\]"):
        async with peer("ann", discover="lan"):
            pass


async def test_a_registry_item_that_makes_no_sense_is_passed_over() -> None:
    async with peer("ann", discover="registry") as ann:
        await ann.channel("group", template="multiring")
        async with ann.registry.watch("peers/") as changes:
            prefix = (await changes.next(timeout=30)).key.removesuffix("ann")
        await ann.registry.set(prefix + "mad", b"\xff")
        await ann.registry.set(prefix + "bob", b'["tcp://127.0.0.1:1"]')
        async with asyncio.timeout(30):
            await until(lambda: "bob" in contacts(ann))
        assert "mad" not in contacts(ann)


async def test_contacts_are_bounded_and_the_last_ones_stay() -> None:
    async with peer("ann") as ann:
        told = Contacts(ann._running)
        for number in range(MAX_CONTACTS + 50):
            told.meet(f"p{number}", ("tcp://127.0.0.1:1",))
        assert len(contacts(ann)) <= MAX_CONTACTS + 2
        assert {"ann", f"p{MAX_CONTACTS + 49}"} <= set(contacts(ann))


async def test_unknown_ways_are_refused() -> None:
    with pytest.raises(BadName, match="pigeon"):
        async with peer("ann", discover="pigeon"):
            pass
