"""Every damage to every file that a node keeps: refused by name, or repaired from the other voters.

What was acknowledged is never lost in silence: a node that starts has all of it, and what it acknowledges
afterwards is there too. A node that refused starts again after ``gossamer log repair``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.errors import Damaged, StorageError
from tests.runtime.damages import (
    COUNT,
    FILES,
    KINDS,
    QUICK,
    TOGETHER,
    TOGETHER_KINDS,
    Originals,
    apply,
    contents,
    fill,
    history,
    node,
    numbers,
    prepared,
    recorded,
    seated,
    segments,
    single,
    small_segments,
    soon,
    three,
)
from tests.runtime.parties import SOON, host_of


@pytest.fixture(autouse=True)
def _small_segments() -> Iterator[None]:
    with small_segments():
        yield


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return prepared(tmp_path_factory.mktemp("originals"))


@pytest.fixture
def folder(tmp_path: Path, originals: Originals) -> Path:
    """The folder of a node that was killed."""
    shutil.copytree(originals.one, tmp_path / "node")
    return tmp_path / "node"


def command(*words: str | Path) -> tuple[int, Any]:
    """Exit code and output of ``gossamer log`` with --json."""
    done = CliRunner().invoke(app, ["log", *map(str, words), "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout) if done.stdout else done.stderr


async def test_a_folder_that_a_killed_process_left_is_whole(folder: Path) -> None:
    assert len(segments(folder)) >= 3
    assert command("verify", folder)[0] == 0
    async with single(folder) as channel:
        assert await history(channel, COUNT) == numbers(0, COUNT)
        await fill(channel, COUNT, COUNT + 3)
    async with single(folder) as channel:
        assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES)
async def test_a_single_node_refuses_by_name_or_has_lost_nothing(
    folder: Path, originals: Originals, file: str, kind: str
) -> None:
    apply(kind, file, folder, originals)
    await refuses_or_has_lost_nothing(folder)


@pytest.mark.parametrize("kind", TOGETHER_KINDS)
@pytest.mark.parametrize("files", TOGETHER)
async def test_a_single_node_whose_files_are_damaged_together_refuses_by_name_or_has_lost_nothing(
    folder: Path, originals: Originals, files: str, kind: str
) -> None:
    for file in TOGETHER[files]:
        apply(kind, file, folder, originals)
    await refuses_or_has_lost_nothing(folder)


async def refuses_or_has_lost_nothing(folder: Path) -> None:
    before = contents(folder, "*.log")
    code, found = command("verify", folder)
    try:
        async with asyncio.timeout(SOON), single(folder) as channel:
            await fill(channel, COUNT, COUNT + 3)
            assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)
        async with asyncio.timeout(SOON), single(folder) as channel:
            assert await history(channel, COUNT + 3) == numbers(0, COUNT + 3)
        return
    except StorageError as error:
        refusal = error
    assert f"gossamer log repair {folder}" in str(refusal)
    assert str(folder) in refusal.file
    assert contents(folder, "*.log") == before, "refused, and changed"
    assert code == 1, found
    await goes_on_after_a_repair(folder)


async def goes_on_after_a_repair(folder: Path) -> None:
    """A folder that its node refused: repaired, it has a beginning of what it had, and keeps what is new."""
    _, found = command("verify", folder)
    before = contents(folder)
    code, done = command("repair", folder, "--yes")
    assert (code, done["repaired"]) == (0, True)
    assert command("verify", folder)[0] == 0
    kept, behind = next((each["lost"] for each in done["logs"]), [COUNT, COUNT])
    assert kept == behind or behind == COUNT, "what is lost reaches from the damage to the end"
    after = contents(folder)
    aside = {content for path, content in after.items() if path.parent.name == "damaged"}
    for path, content in before.items():
        if path.suffix == ".log" or path.name in {each["file"] for each in found["damage"]}:
            assert content in aside or after.get(path, b"").startswith(content), f"{path} is gone"
    async with asyncio.timeout(2 * SOON), single(folder) as channel:
        await fill(channel, 1000, 1003)
        expected = [*numbers(0, kept), *numbers(1000, 1003)]
        assert await history(channel, kept + 3) == expected
    async with asyncio.timeout(2 * SOON), single(folder) as channel:
        assert await history(channel, kept + 3) == expected


def removed(folder: Path) -> None:
    shutil.rmtree(next(folder.glob("logs/*")))


async def test_a_removed_log_is_refused_and_repaired(folder: Path) -> None:
    removed(folder)
    with pytest.raises(Damaged, match="were synced, and no segment is here"):
        async with single(folder):
            pass
    await goes_on_after_a_repair(folder)


# one of three

THREE_CASES = [
    ("first segment", "flip"),
    ("middle segment", "delete"),
    ("last segment", "truncate"),
    ("last segment", "delete"),
    ("last segment", "swap"),
    ("bounds", "delete"),
]


@pytest.mark.parametrize(("file", "kind"), THREE_CASES)
async def test_one_voter_of_three_refills_its_log_from_the_others(
    tmp_path: Path, originals: Originals, file: str, kind: str
) -> None:
    async with three(tmp_path) as nodes:
        channel = await nodes[0].channel("log")
        await fill(channel, 0, COUNT)
        await seated(nodes)
        await soon(lambda: all(recorded(each) == COUNT for each in nodes))
        await nodes[2].close()
        apply(kind, file, tmp_path / "b2", originals)
        async with node(tmp_path, 2, nodes[0].addresses[0]) as again:
            theirs = await again.channel("log", template="persistent", settings=QUICK)
            await fill(channel, COUNT, COUNT + 5)
            await soon(lambda: recorded(again) >= COUNT + 5)
            await seated([again])
            assert await history(theirs, COUNT + 5) == numbers(0, COUNT + 5)
            assert list((tmp_path / "b2").glob("logs/*/damaged"))
    (log,) = (tmp_path / "b2").glob("logs/log-*")
    assert sum(each.stat().st_size for each in log.glob("*.log")) > 0


def life(of: Any) -> int:
    instance = host_of(of).engine.instance("log")
    return int(instance.template.raft.life(instance.context))  # type: ignore[attr-defined]


@pytest.mark.parametrize("repaired", [False, True])
async def test_a_voter_that_lost_its_state_is_another_voter_and_refills(
    tmp_path: Path, repaired: bool
) -> None:
    """Also where only its database was lost and the folder was repaired: its votes must not count twice."""
    async with three(tmp_path) as nodes:
        channel = await nodes[0].channel("log")
        await fill(channel, 0, COUNT)
        await seated(nodes)
        old = life(nodes[2])
        await nodes[2].close()
        if repaired:
            (tmp_path / "b2" / "state.db").unlink()
            with pytest.raises(Damaged, match="gossamer log repair"):
                await node(tmp_path, 2, nodes[0].addresses[0]).__aenter__()
            assert command("repair", tmp_path / "b2", "--yes")[0] == 0
        else:
            shutil.rmtree(tmp_path / "b2")
        async with node(tmp_path, 2, nodes[0].addresses[0]) as again:
            theirs = await again.channel("log", template="persistent", settings=QUICK)
            await fill(channel, COUNT, COUNT + 5)
            await seated([again])
            assert life(again) > old
            await soon(lambda: recorded(again) >= COUNT + 5)
            assert await history(theirs, COUNT + 5) == numbers(0, COUNT + 5)
