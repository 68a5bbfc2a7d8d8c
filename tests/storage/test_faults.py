"""Disks that are full or fail: nothing is acknowledged, nothing lost, and the log works when it is over."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gossamer.core.errors import DiskFull, StorageError
from gossamer.storage.log import Log
from tests.storage.trials import FailingDisk, contents


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_write_that_finds_no_room_is_not_acknowledged_and_takes_no_room(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append([b"a" * 1000])
        path = max(tmp_path.glob("*.log"))
        before = path.stat().st_size
        with file_limit(4096):
            with pytest.raises(DiskFull) as caught:
                log.append([b"b" * 10_000])
            assert caught.value.retry
            assert caught.value.file == str(path)
            assert path.stat().st_size == before
            assert log.end == 1
            assert contents(log) == [b"a" * 1000]
            assert log.append([b"small"]) == 2, "what fits is still taken"
        assert log.append([b"b" * 10_000]) == 3
        assert contents(log) == [b"a" * 1000, b"small", b"b" * 10_000]
        assert log.verify() == 3
    with Log(tmp_path) as log:
        assert log.cut is None
        assert log.end == 3


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 256 KiB; skips where this system lets nobody make one."""
    place.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this system mounts nothing")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(log: Log) -> None:
    """Append until something happens."""
    while True:
        log.append([b"%d" % log.end * 1000])


def test_a_full_disk_refuses_reads_on_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as place, Log(place / "log", segment_bytes=20_000) as log:
        ballast = place / "ballast"
        ballast.write_bytes(bytes(100_000))
        with pytest.raises(DiskFull, match="make room"):
            fill(log)
        kept = log.end
        for _ in range(3):
            with pytest.raises(DiskFull):
                log.append([b"x" * 50_000])
        assert log.end == kept
        expected = [b"%d" % number * 1000 for number in range(kept)]
        assert contents(log) == expected
        log.close()
        with Log(place / "log") as again:
            assert contents(again) == expected
            with pytest.raises(DiskFull):
                again.append([b"x" * 50_000])
            ballast.unlink()
            assert again.append([b"x" * 50_000]) == kept + 1
            assert again.verify() == kept + 1


def test_trimming_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as place, Log(place / "log", segment_bytes=20_000) as log:
        with pytest.raises(DiskFull):
            fill(log)
        end = log.end
        log.trim(end)
        assert log.append([bytes(5000)]) == end + 1


def test_a_failed_sync_acknowledges_nothing_and_nothing_more_is_written_to_that_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log(tmp_path) as log:
        log.append([b"a"])
        path = max(tmp_path.glob("*.log"))
        before = path.read_bytes()
        with monkeypatch.context() as patch:

            def fail(file: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            patch.setattr(os, "fsync", fail)
            for _ in range(3):
                with pytest.raises(StorageError, match="Input/output error") as caught:
                    log.append([b"never acknowledged"])
                assert not isinstance(caught.value, DiskFull)
            assert contents(log) == [b"a"]
        assert log.append([b"b"]) == 2
        assert path.read_bytes() == before
        assert log.sealed == [(0, 1)]
        assert contents(log) == [b"a", b"b"]
    with Log(tmp_path) as log:
        assert contents(log) == [b"a", b"b"]


def test_after_a_failed_sync_acknowledged_records_are_checked_again_and_their_loss_is_told(
    tmp_path: Path,
) -> None:
    disk = FailingDisk("sync")
    with Log(tmp_path, disk=disk) as log:
        log.append([b"acknowledged"])
        disk.failing = True
        with pytest.raises(StorageError):
            log.append([b"b"])
        disk.failing = False
        path = max(tmp_path.glob("*.log"))
        path.write_bytes(path.read_bytes().replace(b"acknow", b"lostit"))
        for _ in range(2):
            with pytest.raises(StorageError, match="damaged") as caught:
                log.append([b"b"])
            assert caught.value.position == 0


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_folder"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("empty", [True, False])
def test_whatever_fails_when_a_segment_begins_the_log_goes_on_afterwards(
    tmp_path: Path, operation: str, number: int, empty: bool
) -> None:
    disk = FailingDisk(operation, number)
    with Log(tmp_path, segment_bytes=1, disk=disk) as log:
        if not empty:
            log.append([b"a"])
        disk.failing = True
        start = log.end
        if not empty or operation in ("write", "sync"):
            for _ in range(2):
                with pytest.raises(DiskFull if number == errno.ENOSPC else StorageError):
                    log.append([b"b"])
        disk.failing = False
        assert log.append([b"c"]) == start + 1
        assert contents(log) == [b"a", b"c"][empty:]
    with Log(tmp_path) as log:
        assert contents(log) == [b"a", b"c"][empty:]
        assert log.verify() == log.end


def test_trimming_that_fails_leaves_a_log_without_holes(tmp_path: Path) -> None:
    disk = FailingDisk("remove")
    with Log(tmp_path, segment_bytes=1, disk=disk) as log:
        for number in range(5):
            log.append([b"%d" % number])
        disk.failing = True
        with pytest.raises(StorageError):
            log.trim(3)
        assert log.begin == 0
        assert len(contents(log)) == 5
        disk.failing = False
        assert log.trim(3) == 3
    with Log(tmp_path) as log:
        assert (log.begin, log.end) == (3, 5)
