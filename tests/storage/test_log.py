"""The log: positions, segments, reopening, trimming, one writer, group commit, torn ends and damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gossamer.core.errors import Closed, Damaged, StorageError, TooLarge
from gossamer.storage import segment, shelf
from gossamer.storage.cipher import Cipher
from gossamer.storage.disk import Disk
from gossamer.storage.known import Known
from gossamer.storage.log import Log
from gossamer.storage.segment import HEADER_BYTES, MAX_RECORD, SECTOR
from gossamer.storage.superblock import NOBODY, Superblock
from tests.storage.trials import contents, unnoticed_flips


def last_file(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def filled(folder: Path, *records: bytes, segment_bytes: int = 10**9) -> list[bytes]:
    """A closed log with one batch per record."""
    with Log(folder, segment_bytes=segment_bytes) as log:
        for record in records:
            log.append([record])
    return list(records)


# positions


def test_positions_are_consecutive_from_zero_and_append_returns_the_next_one(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        assert (log.begin, log.end) == (0, 0)
        assert log.append([b"a", b"b"]) == 2
        assert log.append([]) == 2
        assert log.append(iter([b""])) == 3
        assert log.read(0, 10) == (0, [b"a", b"b", b""])
        assert log.read(1, 1) == (1, [b"b"])
        assert log.read(-5, 1) == (0, [b"a"])
        assert log.read(3, 10) == (3, [])
        assert log.read(99, 10) == (99, [])
        assert log.read(0, 0) == (0, [])


def test_a_log_goes_on_where_it_was_when_it_is_opened_again(tmp_path: Path) -> None:
    for life in range(4):
        with Log(tmp_path, segment_bytes=100) as log:
            assert log.cut is None
            assert contents(log) == [b"%d" % each for each in range(10 * life)]
            for number in range(10 * life, 10 * life + 10):
                assert log.append([b"%d" % number]) == number + 1
    with Log(tmp_path) as log:
        assert log.verify() == 40


def test_a_read_across_batches_skips_what_stands_between_them(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append([b"a", b"b"])
        log.append([b"c"])
        log.append([b"d", b"e", b"f"])
        assert log.read(1, 4) == (1, [b"b", b"c", b"d", b"e"])


def test_a_read_is_bounded_in_bytes_and_gives_at_least_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "READ_BYTES", 1000)
    with Log(tmp_path) as log:
        log.append([bytes([number]) * 300 for number in range(10)])
        log.append([b"x" * 5000])
        for position in range(10):
            _, records = log.read(position, 100)
            assert 1 <= len(records) <= 3
        assert log.read(10, 100) == (10, [b"x" * 5000])
        assert len(contents(log)) == 11


def test_a_record_over_the_limit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        with pytest.raises(TooLarge):
            log.append([b"fine", bytes(MAX_RECORD + 1)])
        assert log.end == 0
        assert log.append([b"x"]) == 1


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.close()
    log.close()
    for use in (
        lambda: log.append([b"x"]),
        lambda: log.read(0, 1),
        lambda: log.trim(0),
        log.seal,
        log.verify,
    ):
        with pytest.raises(Closed):
            use()


# segments


def test_a_segment_is_sealed_when_it_is_large_enough(tmp_path: Path) -> None:
    with Log(tmp_path, segment_bytes=1000) as log:
        for _ in range(10):
            log.append([bytes(400)])
        assert log.sealed == [(0, 3), (3, 6), (6, 9)]
    assert len(list(tmp_path.glob("*.log"))) == 4


def test_a_segment_is_sealed_when_it_is_old_enough_also_after_a_restart(tmp_path: Path) -> None:
    now = 1_000_000_000_000
    with Log(tmp_path, segment_seconds=10, clock=lambda: now) as log:
        log.append([b"a"])
        now += 9_999_999_999
        log.append([b"b"])
        assert log.sealed == []
    now += 1
    with Log(tmp_path, segment_seconds=10, clock=lambda: now) as log:
        log.append([b"c"])
        assert log.sealed == [(0, 2)]


def test_sealing_by_hand_needs_records_and_changes_no_positions(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.seal()
        log.append([b"a"])
        log.seal()
        log.seal()
        assert log.sealed == [(0, 1)]
        assert log.append([b"b"]) == 2
        assert contents(log) == [b"a", b"b"]


def test_offsets_of_many_segments_are_not_all_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "KNOWN_SEGMENTS", 2)
    expected = filled(tmp_path, *(b"%d" % number for number in range(30)), segment_bytes=100)
    with Log(tmp_path, segment_bytes=100) as log:
        for _ in range(2):
            assert contents(log) == expected
            known = [each for each in log._shelf.segments if each.offsets is not None]
            assert len(known) <= 3


def test_trimming_removes_whole_sealed_segments_and_never_the_last_one(tmp_path: Path) -> None:
    expected = filled(tmp_path, *(b"%d" % number for number in range(20)), segment_bytes=150)
    with Log(tmp_path, segment_bytes=150) as log:
        (_, first_end), (_, second_end) = log.sealed[:2]
        assert log.trim(first_end - 1) == 0
        assert log.trim(second_end + 1) == second_end
        assert not (tmp_path / segment.file_name(0)).exists()
        assert log.read(0, 1) == (second_end, [expected[second_end]])
        last = log.trim(10**9)
        assert last == log.begin < log.end == 20
        assert log.sealed == []
    with Log(tmp_path) as log:
        assert (log.begin, log.end) == (last, 20)
        assert contents(log) == expected[last:]


# one writer


def test_a_second_writer_is_told_who_has_the_log(tmp_path: Path) -> None:
    with Log(tmp_path):
        with pytest.raises(StorageError, match=f"process {os.getpid()} writes this log"):
            Log(tmp_path)
        script = "import sys; from gossamer.storage.log import Log; Log(sys.argv[1])"
        other = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
        )
        assert other.returncode
        assert f"process {os.getpid()} writes this log" in other.stderr
    Log(tmp_path).close()


def test_a_log_that_cannot_be_opened_lets_go_of_its_lock(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    path = last_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(b"nonsense")
    with pytest.raises(StorageError):
        Log(tmp_path)
    path.write_bytes(whole)
    Log(tmp_path).close()


# group commit


class GatedDisk(Disk):
    """The first sync after ``shut`` waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.shut = False

    def sync(self, file: int) -> None:
        if self.shut:
            self.entered.set()
            assert self.gate.wait(30)
        super().sync(file)


def test_all_who_wait_share_one_sync_and_each_learns_its_own_position(tmp_path: Path) -> None:
    disk = GatedDisk()
    with Log(tmp_path, disk=disk) as log:
        disk.shut = True
        positions: dict[int, int] = {}

        def append(number: int) -> None:
            positions[number] = log.append([b"%d" % number, b"%d again" % number])

        threads = [threading.Thread(target=append, args=(number,)) for number in range(21)]
        threads[0].start()
        assert disk.entered.wait(30)
        for thread in threads[1:]:
            thread.start()
        while len(log._group.waiting) < 20:
            os.sched_yield()
        assert positions == {}
        assert log.read(0, 10) == (0, []), "not on disk yet, so nobody may see it"
        disk.gate.set()
        for thread in threads:
            thread.join()
        assert log.syncs == 2
        assert sorted(positions.values()) == list(range(2, 43, 2))
        for number, position in positions.items():
            assert log.read(position - 2, 2) == (position - 2, [b"%d" % number, b"%d again" % number])


def test_readers_and_trimming_and_appending_go_on_at_the_same_time(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with Log(tmp_path, segment_bytes=500) as log:
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    start, records = log.read(log.begin, 50)
                    assert records == [b"%d" % number for number in range(start, start + len(records))]
            except BaseException as error:
                problems.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(400):
            log.append([b"%d" % number])
            if number % 20 == 0:
                log.trim(number - 30)
        done.set()
        for reader in readers:
            reader.join()
        assert problems == []
        assert log.begin > 300


# torn ends


def without_power(folder: Path, end: int) -> None:
    """What the file of bounds is after a power cut: it knows of the records before, and of no more."""
    Superblock.create(folder / "bounds", "log", NOBODY, 0, end).close()


def test_an_end_torn_at_any_byte_is_cut_off_and_reported(tmp_path: Path) -> None:
    original = tmp_path / "original"
    kept = filled(original, b"a" * 40, b"b" * 40)
    begin = last_file(original).stat().st_size
    filled(original, b"the last record")
    whole = last_file(original).read_bytes()
    for length in range(begin, len(whole) + 1):
        folder = tmp_path / str(length)
        shutil.copytree(original, folder)
        last_file(folder).write_bytes(whole[:length])
        without_power(folder, 2)
        with Log(folder) as log:
            expected = [*kept, b"the last record"] if length == len(whole) else kept
            assert contents(log) == expected
            torn = begin < length < len(whole)
            assert (log.cut is not None) == torn
            if log.cut is not None:
                assert (log.cut.position, log.cut.bytes) == (2, length - begin)
                assert log.cut.file == str(last_file(folder))
            assert log.append([b"next"]) == len(expected) + 1
        with Log(folder) as log:
            assert log.cut is None
            assert contents(log) == [*expected, b"next"]


def test_a_torn_group_goes_as_a_whole(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    with Log(tmp_path) as log:
        log.append([b"b" * 100, b"c" * 100])
    path = last_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-50])
    without_power(tmp_path, 1)
    with Log(tmp_path) as log:
        assert contents(log) == [b"a"]


@pytest.mark.parametrize("lost", [0, 1, 2, 3, (0, 1), (1, 3), (0, 1, 2, 3)])
def test_a_last_batch_with_a_lost_sector_is_torn(tmp_path: Path, lost: int | tuple[int, ...]) -> None:
    filled(tmp_path, b"a")
    path = last_file(tmp_path)
    begin = path.stat().st_size
    filled(tmp_path, b"x" * 1600)
    data = bytearray(path.read_bytes())
    for sector in (lost,) if isinstance(lost, int) else lost:
        start, end = max(begin, sector * SECTOR), min(len(data), (sector + 1) * SECTOR)
        data[start:end] = bytes(end - start)
    path.write_bytes(data)
    without_power(tmp_path, 1)
    with Log(tmp_path) as log:
        assert log.cut is not None
        assert contents(log) == [b"a"]


def test_what_stands_behind_a_segment_that_was_given_up_is_no_part_of_the_log(tmp_path: Path) -> None:
    filled(tmp_path, b"a", b"b")
    with Log(tmp_path) as log:
        log.seal()
        log.append([b"c"])
    first = tmp_path / segment.file_name(0)
    header = segment.read_header(first, first.read_bytes())
    first.write_bytes(first.read_bytes() + segment.encode_batch(header, 2, [b"never acknowledged"])[:-3])
    with Log(tmp_path) as log:
        assert contents(log) == [b"a", b"b", b"c"]
        assert log.verify() == 3


def test_leftovers_of_a_segment_that_was_being_made_are_swept(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    leftover = tmp_path / f".{segment.file_name(1)}.tmp"
    leftover.write_bytes(b"half a header")
    with Log(tmp_path) as log:
        assert contents(log) == [b"a"]
    assert not leftover.exists()


# damage


def test_every_flipped_bit_of_a_log_is_noticed_and_blamed_on_its_file(tmp_path: Path) -> None:
    filled(tmp_path, b"first record", b"second", b"", b"third one", segment_bytes=HEADER_BYTES + 70)
    paths = sorted(tmp_path.glob("*.log"))
    assert len(paths) == 2
    bits = ((path, bit) for path in paths for bit in range(8 * path.stat().st_size))
    assert unnoticed_flips(tmp_path, bits) == []


def test_damage_names_the_position(tmp_path: Path) -> None:
    filled(tmp_path, b"a" * 50, b"b" * 50, b"c" * 50)
    path = last_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"b" * 50, b"b" * 49 + b"B"))
    with pytest.raises(StorageError, match="checksum") as caught:
        Log(tmp_path)
    assert (caught.value.position, caught.value.file) == (1, str(path))


def test_damage_before_the_last_batch_is_never_taken_for_a_torn_end(tmp_path: Path) -> None:
    filled(tmp_path, b"a" * 2000, b"b")
    path = last_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[SECTOR : 2 * SECTOR] = bytes(SECTOR)
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged") as caught:
        Log(tmp_path)
    assert caught.value.position == 0


def test_a_payload_cannot_pass_for_a_batch(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    header = segment.Header(0, 0, 0, salt=0)
    fake = segment.encode_batch(header, 2, [b"a record that comes later"])
    filled(tmp_path, fake + b"x" * 100)
    path = last_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    without_power(tmp_path, 1)
    with Log(tmp_path) as log:
        assert contents(log) == [b"a"]


def test_damage_in_a_sealed_segment_is_found_when_it_is_read(tmp_path: Path) -> None:
    filled(tmp_path, *(b"%d" % number * 20 for number in range(9)), segment_bytes=150)
    path = min(tmp_path.glob("*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damaged, match=f"gossamer log repair {tmp_path}"):
        Log(tmp_path)
    with Log(tmp_path, segment_bytes=150, check_bytes=0) as log:
        assert log.append([b"x"]) == 10
        with pytest.raises(StorageError, match="damaged"):
            log.read(0, 1)
        with pytest.raises(StorageError, match="damaged"):
            log.verify()
        with pytest.raises(Damaged):
            log.check_next() and all(iter(log.check_next, False))


# synced records that are missing


def test_a_torn_end_behind_which_records_were_synced_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, b"a", b"b")
    path = last_file(tmp_path)
    whole = path.read_bytes()
    for length in range(HEADER_BYTES, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged, match="records up to 1 were synced"):
            Log(tmp_path)
        assert path.read_bytes() == whole[:length], "an open that raises changes nothing"


@pytest.mark.parametrize("gone", ["first", "last", "all", "bounds"])
def test_whatever_is_missing_is_noticed_with_its_position(tmp_path: Path, gone: str) -> None:
    filled(tmp_path, *(b"%d" % number * 20 for number in range(9)), segment_bytes=150)
    paths = sorted(tmp_path.glob("*.log"))
    removed = {"first": paths[:1], "last": paths[-1:], "all": paths, "bounds": [tmp_path / "bounds"]}[gone]
    for path in removed:
        path.unlink()
    with pytest.raises(Damaged, match="gossamer log repair") as caught:
        Log(tmp_path)
    assert caught.value.position == (int(paths[-1].stem) if gone == "last" else 0)


def test_a_log_that_its_database_knows_and_that_is_gone_is_damage(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="records up to 6 were synced"):
        Log(tmp_path / "log", known=Known("0123456789abcdef", (2, 7)))


def test_a_log_of_another_folder_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path, known=Known("0123456789abcdef")) as log:
        log.append([b"a"])
    with pytest.raises(Damaged, match="belongs to folder 0123456789abcdef"):
        Log(tmp_path, known=Known("f" * 16))


def test_a_database_that_is_older_than_the_log_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path, known=Known(commit=lambda: 8)) as log:
        log.append([b"a"])
    with pytest.raises(Damaged, match=r"state\.db.*ends with commit 7.*after commit 8"):
        Log(tmp_path, known=Known(commit=lambda: 7, folder="node"))


def test_records_that_were_trimmed_are_not_missed(tmp_path: Path) -> None:
    filled(tmp_path, *(b"%d" % number * 20 for number in range(9)), segment_bytes=150)
    with Log(tmp_path, segment_bytes=150) as log:
        begin = log.trim(5)
    with Log(tmp_path) as log:
        assert log.begin == begin > 0


def test_segments_expire_by_age_and_by_size(tmp_path: Path) -> None:
    clock = [10**9]
    with Log(tmp_path, segment_bytes=100, clock=lambda: clock[0]) as log:
        for number in range(10):
            clock[0] += 10**9
            log.append([b"%d" % number * 60])
        assert log.expired(0, 0) == 0
        assert 0 < log.expired(4.5, 0) < log.expired(1.5, 0) <= 9
        assert log.expired(0, 1) == log.sealed[-1][1]
        assert log.expired(0, 10**6) == 0
        assert log.trim(log.expired(4.5, 0)) == log.begin > 0


def test_records_are_encrypted_and_another_key_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path, cipher=Cipher(b"k" * 32)) as log:
        log.append([b"a secret of some length", b""])
        assert log.read(0, 9) == (0, [b"a secret of some length", b""])
    assert b"a secret" not in last_file(tmp_path).read_bytes()
    with Log(tmp_path, cipher=Cipher(b"j" * 32)) as log, pytest.raises(StorageError, match="does not fit"):
        log.read(0, 1)
    with pytest.raises(StorageError, match="storage_key does not fit"):
        Log(tmp_path)
    with Log(tmp_path, cipher=Cipher(b"k" * 32)) as log:
        assert log.verify() == 2


def test_a_missing_segment_is_noticed_when_the_log_is_opened(tmp_path: Path) -> None:
    filled(tmp_path, *(b"%d" % number * 20 for number in range(9)), segment_bytes=150)
    second = sorted(tmp_path.glob("*.log"))[1]
    second.unlink()
    with pytest.raises(StorageError, match=f"{second.name}, is missing"):
        Log(tmp_path)


def test_a_renamed_segment_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    last_file(tmp_path).rename(tmp_path / segment.file_name(5))
    with pytest.raises(StorageError, match="renamed"):
        Log(tmp_path)


def test_a_log_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    filled(tmp_path, b"a")
    path = last_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"gslg\0\2", b"gslg\0\3", 1))
    with pytest.raises(StorageError, match="version 3"):
        Log(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file"):
        Log(tmp_path / "file" / "log")
