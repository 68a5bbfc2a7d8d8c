"""Real processes on small disks that fill up: publishers are told, readers read on, nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import gossamer
from gossamer import Channel, Receipt
from gossamer.errors import DiskFull, NoAnswer
from tests.system.cluster import free_ports, until
from tests.system.programs import PATIENCE, Program
from tests.system.programs import gossamer as command

SIZE = 3 * 1024 * 1024
BALLAST = 1024 * 1024
"""Bytes that are taken first, and given back later."""
PAYLOAD = 20_000
LATE = 3
"""Acknowledged events that may be in the database only while the log has no room for them."""


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of a few MiB; skips where this system does not let tests make one."""
    place.mkdir(parents=True)
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("needs root")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system mounts nothing")
    try:
        (place / "ballast").write_bytes(bytes(BALLAST))
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def up(name: str, address: str, state: Path, seats: int, *others: str) -> Program:
    """A node whose log channel has so many voters."""
    file = state.parent / f"{name}.toml"
    settings = f"{{ seats = {seats}, heartbeat = 0.2, patience = 1.0 }}"
    file.write_text(
        f'name = "{name}"\nlisten = ["{address}"]\nconnect = {list(others)}\nstate = "{state}"\n'
        f'[[channel]]\nname = "log"\ntemplate = "persistent"\nsettings = {settings}\n'
    )
    node = command("up", str(file), "--json")
    node.line()
    return node


def payload(number: int) -> bytes:
    return b"%d " % number + bytes(PAYLOAD)


def number_of(payload: bytes) -> int:
    return int(payload.partition(b" ")[0])


async def fill(channel: Channel, first: int = 0) -> tuple[list[int], DiskFull]:
    """Publish until the disk is full; what was acknowledged, and what a publisher is told."""
    acknowledged: list[int] = []
    for number in range(first, first + 10_000):
        try:
            receipt = await channel.publish(payload(number))
            await channel.acknowledged(receipt, PATIENCE)
        except DiskFull as error:
            return acknowledged, error
        acknowledged.append(number)
    raise AssertionError("the disk never filled up")


async def history(address: str, last: int) -> list[int]:
    """The history up to an event, as a new client gets it."""
    found: list[int] = []
    async with gossamer.connect(address) as node:
        channel = await node.channel("log")
        async with channel.subscribe(from_offset=0) as events:
            try:
                while not found or found[-1] != last:
                    found.append(number_of((await events.next(timeout=PATIENCE / 4)).payload))
            except NoAnswer:
                pytest.fail(f"{node.peers} has {len(found)} events, the last ones are {found[-5:]}")
    assert len(set(found)) == len(found), "nothing is there twice"
    return found


def has(found: list[int], acknowledged: list[int]) -> bool:
    """Whether a history has all that was acknowledged, in its order; it may have more."""
    return [each for each in found if each in set(acknowledged)] == acknowledged


def logged(state: Path) -> int:
    """Bytes in the log of a node; one that is no voter has none."""
    return sum(path.stat().st_size for path in state.glob("logs/log-*/*.log"))


def resize(disk: Path, size: int) -> None:
    """Make room on a disk."""
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)


async def publish_again(channel: Channel, number: int) -> None:
    """Publish once there is room, and wait until it is acknowledged; what was accepted comes only once."""
    receipt: Receipt | None = None
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            receipt = receipt or await channel.publish(payload(number))
            await channel.acknowledged(receipt, PATIENCE)
        except DiskFull:
            await channel._host.until(lambda: channel._failure() is None)
        else:
            return
    raise AssertionError("publishing does not go on")


async def test_a_single_node_on_a_full_disk_refuses_reads_on_and_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        (address,) = (f"tcp://127.0.0.1:{port}" for port in free_ports(1))
        state, quick = disk / "b1", gossamer.Limits(handover=0.5)
        with up("b1", address, state, 1) as node:
            async with gossamer.connect(address, limits=quick) as client:
                channel = await client.channel("log")
                acknowledged, error = await fill(channel)
                assert str(state) in error.file
                assert error.retry
                with pytest.raises(DiskFull, match="make room"):
                    await channel.publish(b"refused at once")
                with pytest.raises(DiskFull):
                    channel.try_publish(b"refused at once")
                with pytest.raises(DiskFull):
                    await channel.drain(PATIENCE)
                with command("pub", "log", "77 refused", "--at", address, "--wait", "0") as publisher:
                    assert publisher.end() == 1
                    assert f"error: {state}" in publisher.errors()
                assert await history(address, acknowledged[-LATE]) == acknowledged[: 1 - LATE]
                (disk / "ballast").unlink()
                await publish_again(channel, 100_000)
                more, _ = await fill(channel, 200_000)
                acknowledged += [100_000, *more]
                node.kill()
                with pytest.raises((NoAnswer, DiskFull)):
                    await client.close()
        with up("b1", address, state, 1) as node:
            assert has(await history(address, acknowledged[-LATE]), acknowledged[: 1 - LATE])
            async with gossamer.connect(address, limits=quick) as client:
                channel = await client.channel("log")
                more, error = await fill(channel, 300_000)
                assert str(state) in error.file
                acknowledged += more
                resize(disk, 2 * SIZE)
                await publish_again(channel, 400_000)
            assert node.stop() == 0
        with up("b1", address, state, 1):
            assert has(await history(address, 400_000), acknowledged)


@pytest.mark.parametrize("small", range(3))
async def test_the_majority_goes_on_while_the_disk_of_one_of_three_is_full(
    tmp_path: Path, small: int
) -> None:
    """Also if it is the one that led."""
    with small_disk(tmp_path / "disk") as disk, ExitStack() as stack:
        addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(3)]
        (tmp_path / "large").mkdir()
        states = [(disk if each == small else tmp_path / "large") / f"b{each}" for each in range(3)]
        for address, state in zip(addresses, states, strict=True):
            others = [each for each in addresses if each != address]
            stack.enter_context(up(state.name, address, state, 3, *others))
        async with gossamer.connect(addresses[small - 1], name="publisher") as client:
            channel = await client.channel("log")
            await channel.acknowledged(await channel.publish(payload(2000)), PATIENCE)
            await until(lambda: all(logged(each) > PAYLOAD for each in states), "every node is a voter")
            for number in range(200):  # more than the small disk has room for
                receipt = await channel.publish(payload(number))
                await channel.acknowledged(receipt, PATIENCE)
            assert shutil.disk_usage(disk).free < 2 * PAYLOAD
            async with gossamer.connect(addresses[small], limits=gossamer.Limits(handover=0.5)) as late:
                theirs = await late.channel("log")
                with pytest.raises(DiskFull) as caught:
                    await theirs.acknowledged(await theirs.publish(b"500 at the full one"), PATIENCE)
                assert str(disk) in caught.value.file
                resize(disk, 20 * SIZE)
                await publish_again(theirs, 1000)
            await channel.acknowledged(await channel.publish(payload(1001)), PATIENCE)
        for address in addresses:
            assert has(await history(address, 1001), [*range(200), 1000])
