"""The registry of real nodes: between servers and clients, over restarts and sudden deaths."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer import Node, Role, connect
from gossamer.errors import BadName, Closed, NoAnswer, StorageError, TooLarge, UnknownKey
from gossamer.overlay.registry.items import ITEMS_AT_ONCE, MAX_VALUE
from tests.runtime.parties import ANY_PORT, SOON, client, host_of, linked, server, turns

WRITER = """
import sys
import gossamer

async def main(folder):
    async with gossamer.connect(name="server", state=folder) as node:
        number = 0
        while True:
            await node.registry.set(f"k{number % 50}", b"%d" % number)
            if number % 10 == 0:
                await node.directory.clone("loop", f"channel-{number}")
            print(number, flush=True)
            number += 1

gossamer.run(main(sys.argv[1]))
"""


async def test_what_one_client_sets_another_gets_through_two_servers() -> None:
    async with (
        server("one") as one,
        server("two", one.addresses[0]) as two,
        client(one, "a") as a,
        client(two, "b") as b,
    ):
        await a.registry.set("site/name", b"north")
        assert await b.registry.get("site/name") == b"north"
        for node in (one, two, a, b):
            assert await node.registry.get("site/name") == b"north"
        await b.registry.delete("site/name")
        with pytest.raises(UnknownKey, match="site/name"):
            await two.registry.get("site/name")


async def test_a_value_as_large_as_may_be_passes_and_a_larger_one_is_refused() -> None:
    async with server() as middle, client(middle, "a") as a, client(middle, "b") as b:
        await a.registry.set("big", b"x" * MAX_VALUE)
        assert len(await b.registry.get("big")) == MAX_VALUE
        with pytest.raises(TooLarge):
            await a.registry.set("big", b"x" * (MAX_VALUE + 1))
        with pytest.raises(BadName):
            await a.registry.set("two words", b"")


async def test_a_local_value_stays_on_its_node() -> None:
    async with server() as middle, client(middle, "a") as a:
        await a.registry.set("role", b"mine", scope="local")
        assert await a.registry.get("role") == b"mine"
        with pytest.raises(UnknownKey):
            await middle.registry.get("role")
        await a.registry.delete("role", scope="local")
        with pytest.raises(UnknownKey):
            await a.registry.get("role")


async def test_a_list_shows_every_item_with_a_prefix_and_no_deleted_one() -> None:
    async with server() as middle, client(middle, "a") as a:
        names = [f"k/{number:03}" for number in range(ITEMS_AT_ONCE + 5)]
        for name in (*names, "other"):
            await middle.registry.set(name, b"v")
        await middle.registry.delete(names[3])
        for node in (middle, a):
            found = await node.registry.list("k/")
            assert [item.key for item in found] == [name for name in names if name != names[3]]


async def test_a_watch_shows_what_is_there_and_what_changes() -> None:
    async with server("one") as one, server("two", one.addresses[0]) as two, client(two, "a") as a:
        await one.registry.set("a/1", b"there")
        for node in (one, a):
            async with node.registry.watch("a/") as changes:
                first = await changes.next(timeout=SOON)
                assert (first.key, first.value) == ("a/1", b"there")
                await one.registry.set(f"a/of-{node.name}", b"new")
                async for item in changes:
                    if item.key == f"a/of-{node.name}":
                        break
                await one.registry.delete(f"a/of-{node.name}")
                gone = await changes.next(timeout=SOON)
                assert (gone.key, gone.value) == (f"a/of-{node.name}", None)


async def test_a_slow_reader_of_a_watch_gets_the_newest_value_of_each_key() -> None:
    async with connect() as node:
        async with node.registry.watch() as changes:
            for number in range(100):
                await node.registry.set("k", b"%d" % number)
            assert (await changes.next(timeout=SOON)).value == b"99"
            with pytest.raises(NoAnswer):
                await changes.next(timeout=0.001)
        with pytest.raises(Closed):
            await changes.next(timeout=SOON)


async def test_a_watch_goes_on_when_its_client_has_moved_to_another_server() -> None:
    async with server("one") as one, server("two", one.addresses[0]) as two:
        await linked(one, "two")
        roaming = connect(one.addresses[0], two.addresses[0], name="roaming")
        async with roaming, roaming.registry.watch("a/") as changes:
            await one.registry.set("a/1", b"before")
            assert (await changes.next(timeout=SOON)).value == b"before"
            await one.close()
            await linked(roaming, "two")
            await two.registry.set("a/2", b"after")
            assert (await changes.next(timeout=SOON)).value == b"after"


async def test_a_watch_ends_with_its_node() -> None:
    node = await connect().__aenter__()
    changes = await node.registry.watch("a/").__aenter__()
    reading = asyncio.create_task(anext(changes, None))
    await turns()
    await node.close()
    assert await reading is None
    with pytest.raises(Closed):
        await node.registry.get("k")
    with pytest.raises(Closed):
        node.registry.watch()


async def test_a_restarted_server_has_its_channels_and_items(tmp_path: Path) -> None:
    def at(address: str) -> Node:
        return connect(name="server", role=Role.BACKBONE, listen=address, state=tmp_path)

    async with at(ANY_PORT) as first, client(first, "a") as a:
        address = first.addresses[0]
        await a.registry.set("k", b"v")
        await first.registry.set("mine", b"m", scope="local")
        made = await a.directory.clone("multicast", "news", {"window": 9})
    async with at(address) as second, client(second, "b") as b:
        assert await b.registry.get("k") == b"v"
        assert await second.registry.get("mine") == b"m"
        assert await b.directory.lookup("news") == made
        assert [entry.name for entry in await b.directory.list()] == ["news"]


async def test_without_a_state_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with connect() as node:
        await node.registry.set("k", b"v")
    assert os.listdir(tmp_path) == []


async def test_two_nodes_with_one_state_folder_are_refused(tmp_path: Path) -> None:
    async with connect(state=tmp_path):
        with pytest.raises(StorageError, match="another node"):
            await connect(state=tmp_path).__aenter__()


async def test_a_disk_that_fails_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(state=tmp_path) as node:

        def fail(*_: object) -> None:
            raise StorageError("state.db", "planted")

        monkeypatch.setattr(host_of(node)._values._database, "commit", fail)
        with pytest.raises(StorageError, match="planted"):
            await node.registry.set("k", b"v")


@pytest.mark.parametrize("patience", [1, 7, 40, 130])
def test_killed_at_any_moment_nothing_acknowledged_is_missing(tmp_path: Path, patience: int) -> None:
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            lines = [int(writer.stdout.readline()) for _ in range(patience)]
            writer.send_signal(signal.SIGKILL)
            lines += [int(line) for line in writer.stdout.read().splitlines()]

        async def look() -> tuple[dict[str, int], list[str]]:
            async with connect(name="server", state=tmp_path) as node:
                items = {item.key: int(item.value or b"-1") for item in await node.registry.list("k")}
                return items, [entry.name for entry in await node.directory.list()]

        items, channels = asyncio.run(look())
        for number in lines[-50:]:
            assert items[f"k{number % 50}"] >= number, "the last acknowledged value, or the one being written"
        assert {f"channel-{number}" for number in lines if number % 10 == 0} <= set(channels)
