"""Bugs planted into storage, to show that its trials catch them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gossamer.core.errors import StorageError
from gossamer.storage import segment
from gossamer.storage.log import Log
from gossamer.storage.superblock import NOBODY, Superblock
from tests.storage.trials import FrailDisk, kills, power_cuts, unnoticed_flips


class NeverSynced(FrailDisk):
    """Acknowledges what it has only written."""

    def sync(self, file: int) -> None:
        self._step()


class NamelessDisk(FrailDisk):
    """Syncs files and forgets their names."""

    def sync_folder(self, folder: Path) -> None:
        self._step()


class HastyDisk(FrailDisk):
    """Now and then says that it has synced before it has."""

    def sync(self, file: int) -> None:
        if random.Random(self._patience).random() < 0.8:
            super().sync(file)


@pytest.mark.parametrize("disk", [NeverSynced, NamelessDisk, HastyDisk])
def test_power_cuts_show_what_was_acknowledged_and_not_synced(tmp_path: Path, disk: type[FrailDisk]) -> None:
    complaint = r"missing|gone|not what they were|damaged|a segment begins with"
    with pytest.raises((AssertionError, StorageError), match=complaint):
        power_cuts(tmp_path / "log", 250, disk)


def test_kills_show_a_writer_that_acknowledges_before_it_writes(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="records are missing"):
        kills(tmp_path / "log", 50, acknowledge_first=True)


def test_flipped_bits_show_a_log_without_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "checksum", lambda salt, position, data: 7)
    with Log(tmp_path) as log:
        for record in (b"first", b"second"):
            log.append([record])
    (path,) = tmp_path.glob("*.log")
    bits = ((path, bit) for bit in range(8 * path.stat().st_size))
    assert any("other records" in each for each in unnoticed_flips(tmp_path, bits))


def test_torn_ends_show_a_log_that_takes_every_flaw_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "is_torn", lambda *where: True)
    with Log(tmp_path) as log:
        for record in (b"first", b"second"):
            log.append([record])
    (path,) = tmp_path.glob("*.log")
    Superblock.create(tmp_path / "bounds", "log", NOBODY).close()  # as after a power cut
    bits = ((path, bit) for bit in range(8 * segment.HEADER_BYTES, 8 * path.stat().st_size, 5))
    assert unnoticed_flips(tmp_path, bits) != []
