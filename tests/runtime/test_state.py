"""Values on disk: there after a restart, whatever moment the writer died at, and reported where damaged."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import DiskFull, StorageError
from gossamer.runtime import state as module
from gossamer.runtime.state import MAGIC, Pair, State
from gossamer.storage.disk import Disk


def reopened(folder: Path) -> dict[str, bytes]:
    state = State(folder)
    state.close()
    return state.values


def written(folder: Path, *pairs: Pair) -> Path:
    """The file after each pair was kept by itself."""
    state = State(folder)
    for pair in pairs:
        state.keep([pair])
    state.close()
    return folder / "values"


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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=20)), min_size=1, max_size=8),
    st.data(),
)
def test_cut_anywhere_the_file_holds_what_was_kept_before(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("state")
    state = State(folder)
    path, expected, ends = folder / "values", {}, [(len(MAGIC), {})]
    for key, value in pairs:
        state.keep([(key, value)])
        expected = {name: kept for name, kept in expected.items() if name != key}
        if value is not None:
            expected[key] = value
        ends.append((path.stat().st_size, expected))
    state.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(len(MAGIC), len(content)))
    path.write_bytes(content[:cut])
    assert reopened(folder) == next(kept for end, kept in reversed(ends) if end <= cut)


def test_a_damaged_end_is_ignored_set_aside_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, ("a", b"1"), ("b", b"2"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        state = State(tmp_path)
    assert state.values == {"a": b"1"}
    assert state.damaged > 0
    assert "set aside" in caplog.text
    assert (tmp_path / "values.damaged").read_bytes() == bytes(content[-state.damaged :])
    state.keep([("c", b"3")])
    state.close()
    assert reopened(tmp_path) == {"a": b"1", "c": b"3"}, "what comes after the damage counts again"


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "values").write_bytes(b"a diary")
    with pytest.raises(StorageError, match="no file of values"):
        State(tmp_path)
    assert (tmp_path / "values").read_bytes() == b"a diary"


def test_two_nodes_cannot_share_a_folder(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(StorageError, match="another node"):
        State(tmp_path)
    state.close()
    State(tmp_path).close()


def test_the_file_is_written_anew_when_most_of_it_is_no_longer_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLACK", 1000)
    state = State(tmp_path)
    sizes = []
    for number in range(200):
        state.keep([("k", b"%050d" % number), ("other", b"kept")])
        sizes.append((tmp_path / "values").stat().st_size)
    state.close()
    assert max(sizes) < 1500
    assert reopened(tmp_path) == {"k": b"%050d" % 199, "other": b"kept"}


def test_what_was_begun_and_never_renamed_does_not_count(tmp_path: Path) -> None:
    written(tmp_path, ("a", b"1"))
    (tmp_path / "values.new").write_bytes(MAGIC + b"half a record")
    assert reopened(tmp_path) == {"a": b"1"}


class WorseDisk(Disk):
    """Fails at one operation of a kind, and notes all of them."""

    def __init__(self, fails: str = "", code: int = errno.EIO) -> None:
        self.fails, self.code = fails, code
        self.done: list[str] = []

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails:
            raise OSError(self.code, "planted")

    def write(self, file: int, data: bytes, offset: int) -> None:
        if self.fails == "write":
            super().write(file, data[: len(data) // 2], offset)
        self._do("write")
        super().write(file, data, offset)

    def sync(self, file: int) -> None:
        self._do("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._do("rename")
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        self._do("sync_folder")
        super().sync_folder(folder)


def test_keep_returns_after_one_sync_for_all_its_values(tmp_path: Path) -> None:
    disk = WorseDisk()
    state = State(tmp_path, disk)
    disk.done.clear()
    state.keep([(str(number), b"x") for number in range(50)])
    state.close()
    assert disk.done == ["write", "sync"]


def test_a_new_file_is_synced_before_it_takes_the_place_of_the_old(tmp_path: Path) -> None:
    disk = WorseDisk()
    State(tmp_path, disk).close()
    assert disk.done[-4:] == ["write", "sync", "rename", "sync_folder"]


@pytest.mark.parametrize("fails", ["write", "sync"])
def test_after_a_failure_nothing_that_was_kept_is_lost_and_the_next_keep_works(
    tmp_path: Path, fails: str
) -> None:
    disk = WorseDisk()
    state = State(tmp_path, disk)
    state.keep([("a", b"1")])
    disk.fails = fails
    for _ in range(2):
        with pytest.raises(StorageError, match="planted"):
            state.keep([("b", b"2")])
    disk.fails = ""
    state.keep([("c", b"3")])
    state.close()
    values = reopened(tmp_path)
    assert (values["a"], values["c"]) == (b"1", b"3")


def test_a_full_disk_is_called_full(tmp_path: Path) -> None:
    disk = WorseDisk()
    state = State(tmp_path, disk)
    disk.fails, disk.code = "write", errno.ENOSPC
    with pytest.raises(DiskFull):
        state.keep([("a", b"1")])
    state.close()


@pytest.mark.parametrize("pairs", [[], [("k" * 500, b"x" * 70_000)], [("ключ/𝄞", b"\x00\xff")]])
def test_any_key_and_value_comes_back(tmp_path: Path, pairs: Iterable[Pair]) -> None:
    written(tmp_path, *pairs)
    assert reopened(tmp_path) == dict(pairs)
