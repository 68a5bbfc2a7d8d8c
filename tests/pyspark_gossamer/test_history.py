"""Histories: one run of positions out of a log and an archive. No Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gossamer.core.errors import ConfigError, StorageError
from gossamer.storage.archive import SCHEMA, Archive
from gossamer.storage.log import Log
from pyspark_gossamer import history as module
from pyspark_gossamer.history import Archived, History, batches
from tests.pyspark_gossamer.frames import CHANNEL, Source, folder_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path)


def archived(place: Path, log: Log) -> str:
    files = Archive(place, "b1").put(CHANNEL, log)
    return str(Path(files[0]).parent)


def payloads(history: History, start: int = 0, end: int | None = None) -> list[int]:
    pieces = history.pieces(start, history.end if end is None else end)
    return [
        int(payload)
        for piece in pieces
        for batch in batches(history.channel, piece)
        for payload in batch.column("payload").to_pylist()
    ]


def test_an_event_is_a_row_with_what_the_archive_would_say(folder: Path, tmp_path: Path) -> None:
    source = Source("b1/phone")
    with Log(folder) as log:
        log.append(source.parcel(b"one", b"two", attributes={"price": 1.5, "raw": b"\xff"}))
        history = History(str(folder))
        (batch,) = batches(history.channel, history.pieces(0, 1)[0])
        log.seal()
        place = archived(tmp_path / "archive", log)
    old = History(archive=place)
    (same,) = batches(old.channel, old.pieces(0, 1)[0])
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == same.to_pylist()
    first = batch.to_pylist()[0]
    assert json.loads(first["attributes"]) == {"price": 1.5, "raw": "/w=="}
    assert (first["channel"], first["source"], first["first"]) == (CHANNEL, "b1/phone", 1)


def test_what_was_trimmed_comes_from_the_archive_and_nothing_comes_twice(
    folder: Path, tmp_path: Path
) -> None:
    with Log(folder) as log:
        source = Source()
        for _ in range(3):
            log.append(source.parcels(2, events=2))
            log.seal()
        place = archived(tmp_path / "archive", log)
        log.append(source.parcels(1))
        log.trim(4)
        history = History(str(folder), place)
        assert (history.begin, history.end) == (0, 7)
        pieces = history.pieces(0, 7)
        assert [type(piece) is Archived for piece in pieces] == [True, True, False, False]
        assert payloads(history) == list(range(1, 14))
        assert payloads(history, 1, 5) == list(range(3, 11))
        log.append(source.parcels(1))
        assert history.look() == 8
        assert payloads(history) == list(range(1, 15))


def test_what_nobody_has_is_an_error_or_left_out_as_one_likes(folder: Path) -> None:
    with Log(folder) as log:
        source = Source()
        log.append(source.parcels(2))
        log.seal()
        log.append(source.parcels(1))
        log.trim(2)
        history = History(str(folder))
        with pytest.raises(StorageError, match="no archive has it") as caught:
            history.pieces(0, 3)
        assert caught.value.position == 0
        assert [piece.first for piece in history.pieces(0, 3, skip=True)] == [2]


@pytest.mark.parametrize(("rows", "end"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 3), (7, 3), (8, 4), (99, 6)])
def test_a_limit_is_in_events_and_keeps_parcels_whole(
    folder: Path, tmp_path: Path, rows: int, end: int
) -> None:
    with Log(folder) as log:
        source = Source()
        for _ in range(3):
            log.append(source.parcels(2, events=2))
            log.seal()
        place = archived(tmp_path / "archive", log)
        log.trim(4)
        both, log_alone = History(str(folder), place), History(archive=place)
        assert both.limit(0, 6, rows) == end
        assert log_alone.limit(0, 6, rows) == end
        assert both.limit(4, 6, 1) == 5
        assert both.limit(6, 6, 1) == 6


def test_a_batch_has_so_many_rows_and_no_parcel_is_in_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 5)
    with Log(folder) as log:
        log.append(Source().parcels(7, events=2))
        history = History(str(folder))
        sizes = [batch.num_rows for batch in batches(CHANNEL, history.pieces(0, 7)[0])]
    assert sizes == [6, 6, 2]


def test_the_name_of_a_channel_is_found_where_it_is_whole(tmp_path: Path) -> None:
    for channel, told in [("orders", "orders"), ("a/b", None)]:
        folder = folder_of(tmp_path, channel)
        folder = folder.with_name(folder.name) if told else tmp_path / f"a_b-{folder.name[-16:]}"
        with Log(folder):
            assert History(str(folder)).channel == (told or f"#{folder.name[-16:]}")
            assert History(str(folder), channel="a/b").channel == "a/b"


def test_a_history_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the folder"):
        History()
    with pytest.raises(StorageError, match="no archive of a log here"):
        History(archive=str(tmp_path))
