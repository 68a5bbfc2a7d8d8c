"""The archive: sealed segments as Parquet that anybody reads, written once and completely."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from gossamer.core.control import Control
from gossamer.core.errors import StorageError
from gossamer.core.event import Attributes, Envelope
from gossamer.core.receipt import Notary
from gossamer.core.sealer import Sealer
from gossamer.core.wire import encode
from gossamer.storage import archive
from gossamer.storage.archive import SCHEMA, Archive
from gossamer.storage.log import Log

CHANNEL = "weather/north"


def parcels(*groups: list[tuple[bytes, Attributes]], source: str = "b1/s2", at: int = 1000) -> list[bytes]:
    """Frames of parcels as a source seals them."""
    sealer = Sealer(CHANNEL, 5, Notary(b"secret"), 65536)
    frames = []
    for number, group in enumerate(groups):
        for payload, attributes in group:
            envelope = Envelope(attributes)
            sealer.add(payload, envelope.attributes, envelope.qos)
        frames += [encode(parcel) for parcel in sealer.seal(source, at + number)]
    return frames


def filled(folder: Path, frames: list[bytes]) -> Log:
    """A log with one sealed segment per frame, and one record that is not sealed."""
    log = Log(folder, segment_bytes=1)
    for frame in frames:
        log.append([frame])
    log.append([b"not sealed, not looked at"])
    return log


@pytest.fixture
def frames() -> list[bytes]:
    return parcels(
        [(b"cold", {"degrees": -3.5, "place": "Tromsø"}), (b"colder", {})],
        [(b"", {"raw": b"\x00\xff", "night": True, "count": 7})],
        [(b"%d" % number, {}) for number in range(3)],
    )


def table(place: Path) -> list[dict[str, Any]]:
    found = ds.dataset(str(place), format="parquet", partitioning="hive").to_table()
    assert set(found.schema.names) == {*SCHEMA.names, "node", "log"}
    return sorted(found.to_pylist(), key=lambda row: (row["position"], row["first"]))


def test_a_dataset_reads_every_event_of_what_was_sealed(tmp_path: Path, frames: list[bytes]) -> None:
    with filled(tmp_path / "log", frames) as log:
        files = Archive(tmp_path / "archive", "b1").put(CHANNEL, log)
    assert len(files) == 3
    rows = table(tmp_path / "archive")
    assert [row["position"] for row in rows] == [0, 0, 1, 2, 2, 2]
    assert [row["first"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["payload"] for row in rows] == [b"cold", b"colder", b"", b"0", b"1", b"2"]
    assert [row["sent"] for row in rows] == [1000, 1000, 1001, 1002, 1002, 1002]
    assert {row["channel"] for row in rows} == {CHANNEL}
    assert {row["source"] for row in rows} == {"b1/s2"}
    assert {row["source_incarnation"] for row in rows} == {5}
    assert {row["node"] for row in rows} == {"b1"}
    raw = base64.b64encode(b"\x00\xff").decode()
    assert [json.loads(row["attributes"]) for row in rows] == [
        {"degrees": -3.5, "place": "Tromsø"},
        {},
        {"raw": raw, "night": True, "count": 7},
        {},
        {},
        {},
    ]


def test_archiving_again_writes_nothing_and_what_is_new_is_added(tmp_path: Path, frames: list[bytes]) -> None:
    place = Archive(tmp_path / "archive", "b1")
    assert place.archived(CHANNEL) == 0
    with filled(tmp_path / "log", frames[:1]) as log:
        assert len(place.put(CHANNEL, log)) == 1
        assert place.put(CHANNEL, log) == []
        assert place.archived(CHANNEL) == 1
    with Log(tmp_path / "other", segment_bytes=1) as log:
        log.append([frames[0]])
        log.seal()
        with pytest.raises(StorageError, match="another history"):
            place.put(CHANNEL, log)
        log.append(frames[1:])
        log.seal()
        other = Archive(tmp_path / "archive", "b2")
        assert [Path(path).name for path in other.put(CHANNEL, log)] == [
            "00000000000000000000-00000000000000000001.parquet",
            "00000000000000000001-00000000000000000003.parquet",
        ]
        log.trim(1)
        assert other.put(CHANNEL, log) == [], "what is gone from the log stays in the archive"
        assert other.archived(CHANNEL) == 3
    assert len(table(tmp_path / "archive")) == 8


def test_a_segment_archived_twice_gives_the_same_file(tmp_path: Path, frames: list[bytes]) -> None:
    with filled(tmp_path / "log", frames) as log:
        one = Archive(tmp_path / "one", "b1").put(CHANNEL, log)
        other = Archive(tmp_path / "other", "b1").put(CHANNEL, log)
    assert [Path(path).read_bytes() for path in one] == [Path(path).read_bytes() for path in other]


def test_a_failure_in_between_leaves_only_complete_files_and_the_next_try_completes_it(
    tmp_path: Path, frames: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = archive.pq.write_table, []

    def fail_the_second_time(table: Any, file: Any, **options: Any) -> None:
        calls.append(table)
        if len(calls) == 2:
            file.write(b"half a file")
            raise OSError("the network is gone")
        write(table, file, **options)

    place = Archive(tmp_path / "archive", "b1")
    with filled(tmp_path / "log", frames) as log:
        with monkeypatch.context() as patch:
            patch.setattr(archive.pq, "write_table", fail_the_second_time)
            with pytest.raises(StorageError, match="the network is gone"):
                place.put(CHANNEL, log)
        assert place.archived(CHANNEL) == 1
        assert len(table(tmp_path / "archive")) == 2
        assert len(place.put(CHANNEL, log)) == 2
    assert len(table(tmp_path / "archive")) == 6
    assert place.archived(CHANNEL) == 3


def test_the_manifest_says_what_is_there(tmp_path: Path, frames: list[bytes]) -> None:
    control = encode(Control(1, None, b"\xc0"))
    place = Archive(tmp_path / "archive", "b1")
    with filled(tmp_path / "log", [frames[0], control]) as log:
        place.put(CHANNEL, log)
        parts = place.manifest(CHANNEL).parts
    assert [(part.first, part.end, part.rows, part.others) for part in parts] == [(0, 1, 2, 0), (1, 2, 0, 1)]
    folder = next((tmp_path / "archive").glob("*/*"))
    assert {part.file for part in parts} == {path.name for path in folder.glob("*.parquet")}
    (folder / archive.MANIFEST).write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        place.put(CHANNEL, log)


def test_a_record_that_is_no_frame_is_named(tmp_path: Path, frames: list[bytes]) -> None:
    with filled(tmp_path / "log", [frames[0], b"nonsense"]) as log:
        with pytest.raises(StorageError, match="no frame") as caught:
            Archive(tmp_path / "archive", "b1").put(CHANNEL, log)
        assert caught.value.position == 1


def test_a_uri_and_any_file_system_will_do(tmp_path: Path, frames: list[bytes]) -> None:
    mock = fs._MockFileSystem(datetime(2026, 1, 1))
    with filled(tmp_path / "log", frames) as log:
        Archive((tmp_path / "archive").as_uri(), "b1").put(CHANNEL, log)
        elsewhere = Archive("bucket/folder", "b1", filesystem=mock)
        files = elsewhere.put(CHANNEL, log)
        assert elsewhere.put(CHANNEL, log) == []
    assert len(table(tmp_path / "archive")) == 6
    assert ds.dataset(files, filesystem=mock, format="parquet").count_rows() == 6


def test_a_place_that_cannot_be_understood_is_refused_at_once() -> None:
    with pytest.raises(StorageError, match="no archive can be here"):
        Archive("gopher://somewhere/else", "b1")
