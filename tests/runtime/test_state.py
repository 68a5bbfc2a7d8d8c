"""Values on disk: there after a restart, whatever moment the writer died at, and refused where damaged."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gossamer import connect
from gossamer.errors import StorageError
from gossamer.runtime.api.announcer import Announcer
from gossamer.runtime.state import Pair, State, opened
from gossamer.storage.cipher import Cipher
from gossamer.storage.database import Database


def reopened(folder: Path) -> dict[str, bytes]:
    state = State(folder)
    state.close()
    return state.values


def written(folder: Path, *pairs: Pair) -> Path:
    """The database after each pair was kept by itself."""
    state = State(folder)
    for pair in pairs:
        state.keep([pair])
    state.close()
    return folder / "state.db"


def killed(folder: Path, count: int) -> None:
    """A process that keeps so many values, one after the other, and dies with its WAL as it is."""
    program = (
        "import os, sys, signal\n"
        "from gossamer.runtime.state import State\n"
        "state = State(sys.argv[1])\n"
        "for number in range(int(sys.argv[2])):\n"
        "    state.keep([(f'k{number}', b'v' * 100)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder), str(count)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_was_kept_is_there_and_what_was_forgotten_is_not(tmp_path: Path) -> None:
    written(tmp_path, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", None), ("c", b""))
    assert reopened(tmp_path) == {"a": b"3", "c": b""}


def test_without_a_folder_values_are_in_memory() -> None:
    state = State("")
    state.keep([("a", b"1"), ("b", b"2"), ("a", None)])
    assert state.values == {"b": b"2"}
    state.close()


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    written(tmp_path / "deep" / "down", ("a", b"1"))
    assert reopened(tmp_path / "deep" / "down") == {"a": b"1"}


def test_two_nodes_cannot_share_a_folder(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(StorageError, match="another node"):
        State(tmp_path)
    state.close()
    State(tmp_path).close()


@pytest.mark.parametrize("pairs", [[], [("k" * 500, b"x" * 70_000)], [("ключ/𝄞", b"\x00\xff")]])
def test_any_key_and_value_comes_back(tmp_path: Path, pairs: Iterable[Pair]) -> None:
    written(tmp_path, *pairs)
    assert reopened(tmp_path) == dict(pairs)


def test_a_writer_that_was_killed_has_lost_nothing(tmp_path: Path) -> None:
    killed(tmp_path, 40)
    assert sorted(reopened(tmp_path)) == sorted(f"k{number}" for number in range(40))


def test_a_file_that_is_rewritten_for_ever_stays_small(tmp_path: Path) -> None:
    state = State(tmp_path)
    for number in range(3000):
        state.remember([("k", b"%05d" % number)])
        state.write([(f"entry/{number}", b"x" * 200), (f"entry/{number - 50}", None)])
    state.close()
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 2_000_000


# damage


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def check_refused_or_whole(folder: Path, expected: dict[str, bytes]) -> bool:
    """Whether the folder was refused by name; else nothing is missing."""
    refusal, values = None, {}
    try:
        values = reopened(folder)
    except StorageError as error:
        refusal = error
    if refusal is None:
        assert values == expected
        return False
    assert Path(refusal.file).name in ("state.db", "identity")
    assert f"gossamer log repair {folder}" in str(refusal) or "version" in str(refusal)
    return True


def test_a_flipped_bit_anywhere_in_the_database_is_refused_or_harmless(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    pairs = {f"key/{number}": b"%d" % number * 40 for number in range(60)}
    path = written(origin, *pairs.items())
    size = path.stat().st_size
    refused = 0
    offsets = [*range(0, 200, 3), *range(200, size, size // 150)]
    for number, offset in enumerate(offsets):
        copy = tmp_path / str(number)
        shutil.copytree(origin, copy)
        flip(copy / "state.db", offset)
        refused += check_refused_or_whole(copy, pairs)
        shutil.rmtree(copy)
    assert refused > len(offsets) // 5


def test_a_flipped_bit_anywhere_in_the_write_ahead_log_is_refused_or_harmless(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    killed(origin, 12)
    pairs = {f"k{number}": b"v" * 100 for number in range(12)}
    size = (origin / "state.db-wal").stat().st_size
    refused = 0
    offsets = [*range(0, size, size // 120), size - 1, size - 4097]
    for number, offset in enumerate(offsets):
        copy = tmp_path / str(number)
        shutil.copytree(origin, copy)
        flip(copy / "state.db-wal", offset)
        refused += check_refused_or_whole(copy, pairs)
        shutil.rmtree(copy)
    assert refused > len(offsets) // 2


def test_a_write_ahead_log_cut_anywhere_is_refused(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    killed(origin, 12)
    size = (origin / "state.db-wal").stat().st_size
    for number, length in enumerate([0, 31, 32, *range(100, size, size // 20), size - 1]):
        copy = tmp_path / str(number)
        shutil.copytree(origin, copy)
        os.truncate(copy / "state.db-wal", length)
        with pytest.raises(StorageError, match=r"state\.db.*gossamer log repair"):
            State(copy)


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut(folder: Path) -> None:
    os.truncate(folder / "state.db", 5000)


def zero(folder: Path) -> None:
    path = folder / "state.db"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(4096) + data[8192:])


def swap(folder: Path) -> None:
    written(folder.parent / "other", ("z", b"1"), ("y", b"1"), ("x", b"1"), ("w", b"1"))
    shutil.copy(folder.parent / "other" / "state.db", folder / "state.db")


def set_back(folder: Path) -> None:
    shutil.copy(folder / "state.db", folder / "old")
    written(folder, ("later", b"1"))
    (folder / "old").replace(folder / "state.db")


def lose_a_row(folder: Path) -> None:
    db = sqlite3.connect(folder / "state.db")
    db.execute("DELETE FROM kept WHERE key = 'a'")
    db.commit()
    db.close()


def blank(folder: Path) -> None:
    (folder / "identity").write_bytes(bytes(8192))


@pytest.mark.parametrize(
    "damage",
    [remove("state.db"), remove("identity"), cut, zero, swap, set_back, lose_a_row, blank],
    ids=["database removed", "identity removed", "cut", "zero page", "swap", "set back", "row", "blank"],
)
def test_every_other_damage_is_refused_by_name(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = tmp_path / "node"
    written(folder, ("a", b"1"), ("b", b"2"))
    damage(folder)
    with pytest.raises(StorageError, match=r"(state\.db|identity): damaged.*gossamer log repair"):
        State(folder)


def test_one_slot_of_the_identity_may_be_damaged(tmp_path: Path) -> None:
    written(tmp_path, ("a", b"1"))
    flip(tmp_path / "identity", 30)
    assert reopened(tmp_path) == {"a": b"1"}


def test_another_version_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, ("a", b"1"))
    db = sqlite3.connect(path)
    db.execute("UPDATE about SET value = 99 WHERE name = 'version'")
    db.commit()
    db.close()
    with pytest.raises(StorageError, match="version 99"):
        State(tmp_path)


def test_a_folder_whose_writer_died_before_its_first_commit_is_new(tmp_path: Path) -> None:
    State(tmp_path).close()
    from gossamer.storage.superblock import Superblock

    Superblock.create(tmp_path / "identity", "folder", "0" * 16).close()
    assert reopened(tmp_path) == {}


# a disk that fails


def test_values_that_found_no_room_are_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path)
    state.keep([("a", b"1")])
    database = state._database
    assert database is not None
    right = database.commit

    def fail(*_: object) -> None:
        raise StorageError("state.db", "planted")

    monkeypatch.setattr(database, "commit", fail)
    with pytest.raises(StorageError, match="planted"):
        state.keep([("b", b"2")])
    monkeypatch.setattr(database, "commit", right)
    state.keep([("c", b"3")])
    state.close()
    assert reopened(tmp_path) == {"a": b"1", "b": b"2", "c": b"3"}


# encryption


def test_values_are_encrypted_and_another_key_is_refused_by_name(tmp_path: Path) -> None:
    state = State(tmp_path, Cipher(b"k" * 32))
    state.keep([("a", b"a secret of some length")])
    state.close()
    assert b"a secret" not in (tmp_path / "state.db").read_bytes()
    with pytest.raises(StorageError, match="the key does not fit"):
        State(tmp_path, Cipher(b"j" * 32))
    with pytest.raises(StorageError, match="it is encrypted"):
        State(tmp_path)
    state = State(tmp_path, Cipher(b"k" * 32))
    assert state.values == {"a": b"a secret of some length"}
    state.close()


def test_a_key_for_a_folder_that_is_not_encrypted_is_refused(tmp_path: Path) -> None:
    written(tmp_path, ("a", b"1"))
    with pytest.raises(StorageError, match="not encrypted"):
        State(tmp_path, Cipher(b"k" * 32))


async def test_no_node_and_no_announcer_waits_for_its_disk_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening, keeping and closing: whatever may sync runs in a thread."""
    here, elsewhere = threading.get_ident(), set()

    def watched(owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def seen(*args: Any, **options: Any) -> Any:
            assert threading.get_ident() != here, f"{name} on the event loop"
            elsewhere.add(name)
            return whole(*args, **options)

        monkeypatch.setattr(owner, name, seen)

    for owner, name in (
        (Database, "__init__"),
        (Database, "commit"),
        (Database, "close"),
        (os, "fsync"),
        (os, "fdatasync"),
    ):
        watched(owner, name)
    async with connect(name="keeper", state=tmp_path / "node") as node:
        channel = await node.channel("log", template="persistent", settings={"seats": 1})
        await channel.acknowledged(await channel.publish(b"x"), 20)
        await node.registry.set("k", b"v")
        await node.channel("said", template="multicast")
        where = ["said", "said-data", "said-index"]
        for each in where[1:]:
            await node.channel(each, template="multicast")
        async with Announcer(
            where[0], data=where[1:2], indexes=where[2:], node=node, state=tmp_path / "announcer"
        ) as announcer:
            announcer.thread("weather").announce(b"sunny")
    assert elsewhere >= {"__init__", "commit", "close", "fsync"}


async def test_a_node_that_gave_up_while_its_folder_was_opened_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free, whole = threading.Event(), threading.Event(), Database.__init__

    def slow(*args: Any, **options: Any) -> None:
        begun.set()
        free.wait(10)
        whole(*args, **options)

    monkeypatch.setattr(Database, "__init__", slow)
    opening = asyncio.ensure_future(opened(tmp_path))
    await asyncio.to_thread(begun.wait, 10)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    free.set()
    async with asyncio.timeout(10):
        while True:
            try:
                state = await opened(tmp_path)
                break
            except StorageError:
                await asyncio.sleep(0.01)
    state.close()
