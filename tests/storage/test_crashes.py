"""Writers that die: killed at random instants, and with the power gone. Nothing acknowledged is missing."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gossamer.storage.log import Log
from tests.storage.trials import contents, kills, power_cuts

KILLS = 200


def test_two_hundred_killed_writers_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    assert kills(tmp_path / "log", KILLS) > KILLS


def test_power_cuts_lose_nothing_that_was_acknowledged_and_leave_a_log_that_opens(tmp_path: Path) -> None:
    assert power_cuts(tmp_path / "log", 250) > 200


# a file system that is switched off

SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, struct.pack("I", 2)
"""EXT4_IOC_SHUTDOWN without flushing the journal: what a power cut leaves behind."""


@contextmanager
def real_disk(image: Path, place: Path) -> Iterator[None]:
    """An ext4 file system in a file; skips where this system lets nobody make one."""
    place.mkdir(exist_ok=True)
    tools = all(shutil.which(each) for each in ("mkfs.ext4", "mount", "umount"))
    if os.geteuid() or not tools:
        pytest.skip("needs root and ext4")
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(16 * 1024 * 1024)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, check=False).returncode:
        pytest.skip("needs loop devices")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def switch_off(place: Path) -> None:
    file = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(file, SHUTDOWN, NO_LOG_FLUSH)
    finally:
        os.close(file)


def test_a_disk_that_is_switched_off_has_everything_acknowledged(tmp_path: Path) -> None:
    dice = random.Random(3)
    image, place = tmp_path / "image", tmp_path / "disk"
    acknowledged: list[bytes] = []
    for _ in range(8):
        with real_disk(image, place), Log(place / "log", segment_bytes=20_000) as log:
            assert contents(log) == acknowledged
            for _ in range(dice.randrange(1, 15)):
                records = [dice.randbytes(dice.randrange(3000)) for _ in range(dice.randrange(1, 4))]
                log.append(records)
                acknowledged += records
            (place / "unsynced").write_bytes(b"this must be gone, or the test shows nothing")
            switch_off(place)
        with real_disk(image, place):
            unsynced = place / "unsynced"
            assert not unsynced.exists() or unsynced.stat().st_size == 0
