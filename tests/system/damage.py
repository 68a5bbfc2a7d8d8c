"""Every damage to every file that a node keeps, with nodes as processes that are killed.

``python -m tests.system.damage [FILE [KIND]]``. A node refuses by name and goes on after ``gossamer log
repair``, or it has lost nothing. One voter of three may also take what it lost from the others. What is
acknowledged afterwards is there after the next kill.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

import gossamer
from gossamer import Channel, Role
from tests.runtime.damages import COUNT, FILES, KINDS, QUICK, Originals, apply, small_segments
from tests.system.cluster import free_ports
from tests.system.programs import PATIENCE, Program
from tests.system.programs import gossamer as command

NEW = 3
"""Events that are published after the damage."""


async def serve(name: str, folder: str, address: str, seats: int, others: list[str]) -> None:
    """A node with small segments; it says when its channel is open."""
    with small_segments():
        node = gossamer.connect(*others, name=name, role=Role.BACKBONE, listen=address, state=folder)
        async with node:
            await node.channel("log", template="persistent", settings={**QUICK, "seats": seats})
            print("open", flush=True)
            await asyncio.Event().wait()


def start(name: str, folder: Path, address: str, seats: int = 1, others: tuple[str, ...] = ()) -> Program:
    return Program("-m", "tests.system.damage", "serve", name, str(folder), address, str(seats), *others)


def refusal(node: Program) -> str:
    """What a node says that does not start; empty if it does."""
    if node.line_within(PATIENCE) == "open":
        return ""
    node.end()
    return node.errors()


async def publish(channel: Channel, numbers: range) -> None:
    for number in numbers:
        await channel.acknowledged(await channel.publish(b"%d" % number), PATIENCE)


async def talk(address: str, numbers: range, count: int) -> list[int]:
    """Publish numbers, and read the history."""
    async with gossamer.connect(address) as client:
        channel = await client.channel("log")
        await publish(channel, numbers)
        async with channel.subscribe(from_offset=0) as events:
            return [int((await events.next(timeout=PATIENCE)).payload) for _ in range(count)]


async def prepared(folder: Path) -> Originals:
    """Folders that killed nodes left."""
    for name in ("one", "other"):
        address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        with start("b0", folder / name, address) as node:
            assert not (said := refusal(node)), said
            await talk(address, range(COUNT - 10), COUNT - 10)
            shutil.copytree(folder / name, folder / f"{name}-earlier")
            await talk(address, range(COUNT - 10, COUNT), COUNT)
            node.kill()
    return Originals(folder / "one", folder / "other", folder / "one-earlier")


def repaired(folder: Path, said: str) -> int:
    """Run the command that a refusal names; how many records are left."""
    assert f"gossamer log repair {folder}" in said, said
    with command("log", "repair", str(folder), "--yes", "--json") as repair:
        assert repair.end() == 0, repair.errors()
        logs = json.loads(repair.rest())["logs"]
    return int(logs[0]["lost"][0]) if logs else COUNT


async def single(folder: Path) -> str:
    """A single node on a damaged folder; what became of it."""
    address, kept = f"tcp://127.0.0.1:{free_ports(1)[0]}", COUNT
    with start("b0", folder, address) as node:
        said = refusal(node)
        if not said:
            await talk(address, range(1000, 1000 + NEW), 0)
        node.kill()
    if said:
        kept = repaired(folder, said)
        with start("b0", folder, address) as node:
            assert not (again := refusal(node)), again
            await talk(address, range(1000, 1000 + NEW), 0)
            node.kill()
    with start("b0", folder, address) as node:
        assert not (again := refusal(node)), again
        found = await talk(address, range(0), kept + NEW)
        assert found == [*range(kept), *range(1000, 1000 + NEW)], found
        node.kill()
    return f"refused, repaired, {kept} of {COUNT} left" if said else "nothing lost"


async def one_of_three(folder: Path, originals: Originals, file: str, kind: str) -> str:
    """A voter whose folder is damaged while the others go on; what became of it."""
    addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(3)]
    nodes: list[Program] = []

    def begin(number: int) -> Program:
        others = tuple(each for each in addresses[:number])
        nodes.append(start(f"b{number}", folder / f"b{number}", addresses[number], 3, others))
        return nodes[-1]

    try:
        for number in range(3):
            assert not (said := refusal(begin(number))), said
        await talk(addresses[0], range(COUNT), COUNT)
        nodes[2].kill()
        apply(kind, file, folder / "b2", originals)
        said = refusal(begin(2))
        if said:
            repaired(folder / "b2", said)
            assert not (again := refusal(begin(2))), again
        expected = [*range(COUNT), *range(1000, 1000 + NEW)]
        for address, more in ((addresses[0], range(1000, 1000 + NEW)), (addresses[2], range(0))):
            found = await talk(address, more, COUNT + NEW)
            assert found == expected, found
        return "refused, repaired, nothing lost" if said else "nothing lost"
    finally:
        for node in nodes:
            node.__exit__()


async def prove(files: list[str], kinds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        originals = await prepared(Path(place))
        for file in files:
            for kind in kinds:
                folder = Path(place) / "case"
                shutil.copytree(originals.one, folder)
                apply(kind, file, folder, originals)
                print(f"{file}, {kind}: single node: {await single(folder)}", flush=True)
                shutil.rmtree(folder)
                try:
                    result = await one_of_three(folder, originals, file, kind)
                except (FileNotFoundError, StopIteration, IndexError):
                    result = "this voter has no such file"
                print(f"{file}, {kind}: one of three: {result}", flush=True)
                shutil.rmtree(folder)


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["serve"]:
        name, folder, address, seats, *others = words[1:]
        try:
            gossamer.run(serve(name, folder, address, int(seats), others))
        except gossamer.GossamerError as error:
            sys.exit(f"error: {error}")
        return
    gossamer.run(prove(words[:1] or list(FILES), words[1:2] or list(KINDS)))


if __name__ == "__main__":
    main()
