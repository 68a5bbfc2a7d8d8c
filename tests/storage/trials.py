"""What a log is put through: a disk that forgets, killed writers, flipped bits.

Each trial takes what it tries as an argument, so that planted bugs go through the same.
"""

from __future__ import annotations

import errno
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.core.errors import StorageError
from gossamer.storage.disk import Disk
from gossamer.storage.log import Log
from gossamer.storage.segment import SECTOR


def contents(log: Log) -> list[bytes]:
    """All records, in order."""
    found: list[bytes] = []
    position = log.begin
    while position < log.end:
        start, records = log.read(position, 1000)
        assert start == position
        found += records
        position += len(records)
    return found


# disks


class LazyDisk(Disk):
    """A disk for tests that never lose power."""

    def sync(self, file: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass

    def forget(self, file: int) -> None:
        pass


# a disk that loses power


class PowerCut(Exception):
    """The lights went out."""


class FrailDisk(Disk):
    """A disk that keeps for sure only what was synced, and loses power after so many operations.

    Of a file's bytes that were not synced any sectors may be there and others read as zeros, or the file is
    shorter. Of names in the folder that changed and were not synced any may have changed.
    """

    def __init__(self, dice: random.Random, patience: int, folder: Path) -> None:
        self._dice = dice
        self._patience = patience
        self._files: dict[int, Path] = {}
        self._inode: dict[Path, int] = {}
        self._inodes = 0
        self._now: dict[int, bytes] = {}
        self._safe: dict[int, bytes] = {}
        self._names: dict[Path, int] = {}
        """Names that would survive."""
        for path in folder.glob("*.log"):
            self._add(path, path.read_bytes())
            self._names[path] = self._inodes

    def _add(self, path: Path, data: bytes) -> None:
        self._inodes += 1
        self._inode[path] = self._inodes
        self._now[self._inodes] = self._safe[self._inodes] = data

    def _step(self) -> None:
        self._patience -= 1
        if self._patience < 0:
            raise PowerCut

    def _number(self, file: int) -> int:
        return self._inode[self._files[file]]

    def create(self, path: Path) -> int:
        self._step()
        file = super().create(path)
        self._files[file] = path
        self._add(path, b"")
        return file

    def open(self, path: Path) -> int:
        self._step()
        file = super().open(path)
        self._files[file] = path
        return file

    def write(self, file: int, data: bytes, offset: int) -> None:
        number = self._number(file)
        old = self._now[number]
        self._now[number] = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]
        self._step()
        super().write(file, data, offset)

    def truncate(self, file: int, size: int) -> None:
        self._now[self._number(file)] = self._now[self._number(file)][:size]
        self._step()
        super().truncate(file, size)

    def sync(self, file: int) -> None:
        self._step()
        self._safe[self._number(file)] = self._now[self._number(file)]

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self._inode[new] = self._inode.pop(old)
        for file, path in self._files.items():
            if path == old:
                self._files[file] = new
        self._step()

    def remove(self, path: Path) -> None:
        super().remove(path)
        del self._inode[path]
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()
        self._names = {path: number for path, number in self._inode.items() if path.parent == folder} | {
            path: number for path, number in self._names.items() if path.parent != folder
        }

    def after(self, folder: Path) -> None:
        """Make a folder what it is when the lights are on again."""
        dice = self._dice
        names = dict(self._names)
        for path in {*self._names, *self._inode}:
            if self._names.get(path) != self._inode.get(path) and dice.random() < 0.5:
                names.pop(path, None)
                if path in self._inode:
                    names[path] = self._inode[path]
        for path in folder.iterdir():
            if path in self._inode or path in self._names:
                path.unlink()
        for path, number in names.items():
            path.write_bytes(self._survives(self._safe[number], self._now[number]))

    def _survives(self, safe: bytes, now: bytes) -> bytes:
        dice = self._dice
        if safe == now:
            return safe
        if len(now) < len(safe):
            return dice.choice((safe, now))
        found = bytearray(safe.ljust(len(now), b"\0"))
        start = len(safe)
        while start < len(now):
            border = min(len(now), (start // SECTOR + 1) * SECTOR)
            if dice.random() < 0.6:
                found[start:border] = now[start:border]
            start = border
        whole = dice.random() < 0.5
        return bytes(found) if whole else bytes(found[: dice.randrange(len(safe), len(now) + 1)])


def power_cuts(folder: Path, trials: int, disk: type[FrailDisk] = FrailDisk, kind: type[Log] = Log) -> int:
    """Cut the power of a writing log again and again; how often it was in the middle of something.

    Raises AssertionError if something acknowledged is missing, or something else is there.
    """
    dice = random.Random(7)
    acknowledged: list[bytes] = []
    begun: list[bytes] = []
    trimmed = cuts = 0
    for trial in range(trials):
        frail = disk(dice, dice.randrange(3, 60), folder)
        log = None
        try:
            log = kind(folder, segment_bytes=dice.choice((200, 3000)), disk=frail)
            check(log, acknowledged, begun, trimmed, f"power cut {trial}")
            acknowledged = begun[: log.end]
            begun = list(acknowledged)
            while True:
                records = [dice.randbytes(dice.choice((0, 5, 700))) for _ in range(dice.randrange(1, 4))]
                begun = acknowledged + records
                assert log.append(records) == len(begun)
                acknowledged = list(begun)
                if dice.random() < 0.1:
                    trimmed = max(trimmed, dice.randrange(len(acknowledged)))
                    log.trim(trimmed)
        except PowerCut:
            pass
        finally:
            if log is not None:
                cuts += 1
                log.close()
        frail.after(folder)
    return cuts


def check(log: Log, acknowledged: list[bytes], begun: list[bytes], trimmed: int, when: str) -> None:
    """A log holds all that was acknowledged, perhaps what was begun behind it, and nothing else."""
    assert log.begin <= trimmed, f"{when}: records that nobody trimmed are gone"
    found = contents(log)
    assert log.begin + len(found) >= len(acknowledged), f"{when}: acknowledged records are missing"
    assert found == begun[log.begin : log.end], f"{when}: records are not what they were"


# flipped bits


def unnoticed_flips(folder: Path, bits: Iterator[tuple[Path, int]], kind: type[Log] = Log) -> list[str]:
    """Flip one bit after the other, each in an otherwise whole log; those that nobody noticed."""
    with kind(folder) as log:
        before = contents(log)
    unnoticed = []
    for path, bit in bits:
        whole, size = path.read_bytes(), path.stat().st_size
        flip(path, bit)
        try:
            with kind(folder, disk=LazyDisk()) as log:
                if contents(log) != before or log.verify() != len(before):
                    unnoticed.append(f"{path.name}, byte {bit // 8}: other records")
                else:
                    unnoticed.append(f"{path.name}, byte {bit // 8}")
        except StorageError as error:
            if not error.file.endswith(path.name):
                unnoticed.append(f"{path.name}, byte {bit // 8}: blamed on {error.file}")
        if path.stat().st_size != size:
            path.write_bytes(whole)
        else:
            flip(path, bit)
    return unnoticed


def flip(path: Path, bit: int) -> None:
    with path.open("r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, bit // 8)
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)


# killed writers

NURSERY = '''
import os, random, sys
from gossamer.storage.log import Log

def write(folder, seed, acknowledge_first):
    """Append until killed; say after each append how far the log reaches."""
    dice = random.Random(seed)
    log = Log(folder, segment_bytes=20_000)
    number = log.end
    os.write(1, b"%d\\n" % number)
    while True:
        size = dice.choice((20, 200, 300_000))
        records = [(b"%d:" % each).ljust(size, b".") for each in range(number, number + dice.randrange(1, 5))]
        number += len(records)
        if acknowledge_first:
            os.write(1, b"%d\\n" % number)
        assert log.append(records) == number
        if not acknowledge_first:
            os.write(1, b"%d\\n" % number)
        if dice.random() < 0.05:
            log.trim(number - 50)

for line in sys.stdin:
    folder, seed, first = line.split()
    child = os.fork()
    if not child:
        write(folder, int(seed), first == "True")
    os.write(1, b"pid %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
'''
"""A process that has imported everything and forks a writer per line: real processes, without their start."""


@contextmanager
def nursery() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def kills(folder: Path, count: int, acknowledge_first: bool = False) -> int:
    """Kill writers at random instants; how many records there are in the end. Each one is checked.

    Raises AssertionError if an acknowledged record is missing or another stands in its place.
    """
    dice = random.Random(11)
    acknowledged = 0
    with nursery() as process:
        for number in range(count):
            told = one_life(process, folder, number, dice, acknowledge_first)
            acknowledged = max([acknowledged, *told])
            with Log(folder) as log:
                assert log.end >= acknowledged, f"kill {number}: {acknowledged - log.end} records are missing"
                for position, record in enumerate(contents(log), log.begin):
                    assert record.startswith(b"%d:" % position), f"kill {number}: out of order at {position}"
                acknowledged = log.end
                if number % 20 == 0:
                    log.verify()
    return acknowledged


def one_life(
    process: subprocess.Popen[bytes], folder: Path, seed: int, dice: random.Random, acknowledge_first: bool
) -> list[int]:
    """Start a writer and kill it; what it had acknowledged."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{folder} {seed} {acknowledge_first}\n".encode())
    wanted, pid, text = dice.randrange(8), 0, b""
    output = process.stdout.fileno()
    while True:
        ready, _, _ = select.select([output], [], [], 30)
        assert ready, "the writer says nothing"
        piece = os.read(output, 65536)
        assert piece, "the writers have died"
        text += piece
        lines = text.split(b"\n")[:-1]
        told = [int(line) for line in lines if line.isdigit()]
        pids = [int(line[4:]) for line in lines if line.startswith(b"pid ")]
        if pids and len(told) > wanted and not pid:
            pid = pids[0]
            for _ in range(dice.randrange(30_000)):  # some way into the next append
                pass
            os.kill(pid, signal.SIGKILL)
        if b"dead" in lines:
            assert pid, "the writer died by itself"
            return told


# a disk that fails


class FailingDisk(LazyDisk):
    """A disk whose operations fail while ``failing`` says so; writes leave half of their bytes behind."""

    def __init__(self, operation: str, number: int = errno.EIO) -> None:
        self.failing = False
        self._operation = operation
        self._number = number

    def _fail(self, operation: str) -> None:
        if self.failing and operation == self._operation:
            raise OSError(self._number, os.strerror(self._number))

    def create(self, path: Path) -> int:
        self._fail("create")
        return super().create(path)

    def write(self, file: int, data: bytes, offset: int) -> None:
        if self.failing and self._operation == "write":
            super().write(file, data[: len(data) // 2], offset)
        self._fail("write")
        super().write(file, data, offset)

    def truncate(self, file: int, size: int) -> None:
        self._fail("truncate")
        super().truncate(file, size)

    def sync(self, file: int) -> None:
        self._fail("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._fail("rename")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._fail("remove")
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self._fail("sync_folder")
        super().sync_folder(folder)
