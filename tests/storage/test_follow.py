"""A log read from outside while it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.errors import StorageError
from gossamer.storage import follow
from gossamer.storage.follow import Follower, Piece, records
from gossamer.storage.log import Log
from gossamer.storage.segment import file_name


def everything(follower: Follower, start: int = 0, each: int = 1000) -> list[tuple[int, bytes]]:
    pieces = follower.pieces(start, follower.look(), each)
    return [record for piece in pieces for record in records(piece)]


def numbered(first: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(first, end)]


def bodies(first: int, end: int) -> list[bytes]:
    return [body for _, body in numbered(first, end)]


def test_a_follower_sees_what_a_writer_adds_while_the_writer_has_the_lock(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        follower = Follower(tmp_path)
        assert (follower.begin, follower.end) == (0, 0)
        log.append(bodies(0, 3))
        log.append(bodies(3, 5))
        assert follower.end == 0
        assert everything(follower) == numbered(0, 5)
        log.append(bodies(5, 6))
        assert everything(follower, 4) == numbered(4, 6)


def test_it_goes_on_from_segment_to_segment(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        follower = Follower(tmp_path)
        for first in range(0, 12, 3):
            log.append(bodies(first, first + 3))
            log.seal()
            assert everything(follower) == numbered(0, first + 3)
        assert everything(follower, 5) == numbered(5, 12)


def test_pieces_of_the_last_segment_are_as_small_as_asked_for_and_read_no_more_than_they_need(
    tmp_path: Path,
) -> None:
    with Log(tmp_path) as log:
        for first in range(0, 100, 5):
            log.append(bodies(first, first + 5))
        follower = Follower(tmp_path)
        pieces = follower.pieces(7, 93, 10)
        assert [(piece.first, piece.end) for piece in pieces][:2] == [(7, 17), (17, 27)]
        assert all(piece.at <= piece.first and piece.stop is not None for piece in pieces)
        assert [record for piece in pieces for record in records(piece)] == numbered(7, 93)
        first = pieces[3]
        assert first.stop is not None
        whole = os.path.getsize(first.file)
        assert first.stop - first.offset < whole / 4


def test_a_batch_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 4))
    path = tmp_path / file_name(0)
    before = path.read_bytes()
    with Log(tmp_path) as log:
        log.append(bodies(4, 9))
    whole = path.read_bytes()
    for cut in range(len(before), len(whole)):
        path.write_bytes(whole[:cut])
        assert everything(Follower(tmp_path)) == numbered(0, 4)
    follower = Follower(tmp_path)
    path.write_bytes(whole)
    assert everything(follower) == numbered(0, 9)


def test_damage_before_the_last_batch_is_no_unfinished_write(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 4))
        log.append(bodies(4, 8))
    path = tmp_path / file_name(0)
    data = bytearray(path.read_bytes())
    data[data.index(b"2", 60)] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged"):
        Follower(tmp_path)


def test_damage_to_a_sealed_segment_is_found_by_whoever_reads_it(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 4))
        log.seal()
        log.append(bodies(4, 5))
        path = tmp_path / file_name(0)
        path.write_bytes(path.read_bytes()[:-8])
        with pytest.raises(StorageError, match=r"damaged: bytes are missing"):
            everything(Follower(tmp_path))


def test_a_missing_segment_between_others_is_noticed(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        for first in range(3):
            log.append(bodies(first, first + 1))
            log.seal()
        (tmp_path / file_name(1)).unlink()
        with pytest.raises(StorageError, match="is missing"):
            Follower(tmp_path)


def test_an_empty_last_segment_may_be_replaced_by_another(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 1))
        log.seal()
        follower = Follower(tmp_path)
        path = tmp_path / file_name(1)
        header = path.read_bytes()
        log._suspect = True  # what a failed write leaves behind
        log.append(bodies(1, 2))
        assert path.read_bytes()[: len(header)] != header
        assert everything(follower) == numbered(0, 2)


def test_what_was_trimmed_is_left_out_and_a_piece_of_it_says_so(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 3))
        log.seal()
        log.append(bodies(3, 5))
        follower = Follower(tmp_path)
        old = follower.pieces(0, 5, 100)
        log.trim(3)
        with pytest.raises(StorageError, match="trimmed"):
            list(records(old[0]))
        assert everything(follower) == numbered(3, 5)
        assert follower.begin == 3


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no log here"):
        Follower(tmp_path / "nothing")


def test_what_a_writer_may_not_have_synced_is_synced_before_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    with Log(tmp_path) as log:
        log.append(bodies(0, 1))
        follower = Follower(tmp_path)
        log.append(bodies(1, 2))
        monkeypatch.setattr(follow.os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
        follower.look()
        follower.look()
    assert synced == [os.path.getsize(tmp_path / file_name(0))]


def test_what_a_writer_takes_back_after_a_failed_sync_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log(tmp_path) as log:
        log.append(bodies(0, 1))
        follower = Follower(tmp_path)
        path = tmp_path / file_name(0)
        size = path.stat().st_size
        log.append(bodies(1, 2))
        monkeypatch.setattr(follow.os, "fsync", lambda file: os.truncate(path, size))
        assert follower.look() == 1


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=20),
    st.integers(0, 60),
    st.integers(1, 12),
)
def test_any_range_in_any_pieces_is_just_that_range(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, bool]], start: int, each: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with Log(folder) as log:
        end = 0
        for count, seal in appends:
            end = log.append(bodies(end, end + count))
            if seal:
                log.seal()
        follower = Follower(folder)
        pieces: list[Piece] = follower.pieces(start, end, each)
        assert [record for piece in pieces for record in records(piece)] == numbered(min(start, end), end)
