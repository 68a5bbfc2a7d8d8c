"""Segments: written aside and renamed, typed, and readable after the worst of ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossamer.core.errors import ConfigError
from gossamer.core.trace import COLUMNS, Row
from gossamer.traces import writer as writing
from gossamer.traces.writer import SCHEMA, TraceWriter, read


def row(position: int, node: str = "a") -> Row:
    return (position, 5, node, 1, "parcel", "sent", "news", "ä", 1, 1, 1, 2**63 - 1, "", 90, "reason", 7)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".begun")


def positions(folder: Path) -> list[int]:
    found: list[int] = read(folder).column("position").to_pylist()
    return found


def test_rows_come_back_as_they_went_in_with_their_types(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")
    rows = [row(n) for n in range(1, 8)]
    for each in rows:
        writer(each)
    writer.close()
    table = read(tmp_path)
    assert table.schema == SCHEMA
    assert [tuple(each.values()) for each in table.to_pylist()] == rows
    kinds = {"int64": pa.int64(), "text": pa.string()}
    assert [(field.name, field.type) for field in table.schema] == [(n, kinds[kind]) for n, kind in COLUMNS]


def test_a_segment_is_renamed_when_it_is_full_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a", segment_rows=3)
    for n in range(1, 8):
        writer(row(n))
    assert files(tmp_path) == ["a-000001.parquet", "a-000002.parquet"]
    assert positions(tmp_path) == [1, 2, 3, 4, 5, 6], "the seventh is in memory"
    writer.close()
    assert files(tmp_path) == ["a-000001.parquet", "a-000002.parquet", "a-000003.parquet", "a.json"]
    assert positions(tmp_path) == list(range(1, 8))
    assert (tmp_path / "run=r1").is_dir()


def test_the_end_says_how_many_segments_and_rows_there_are(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a", segment_rows=2)
    for n in range(5):
        writer(row(n))
    writer.close()
    said = json.loads((tmp_path / "run=r1" / "a.json").read_text())
    assert said == {"name": "a", "segments": 3, "rows": 5}


def test_who_began_and_has_not_ended_is_known_even_without_a_segment(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")
    assert (tmp_path / "run=r1" / ".a.begun").exists()
    writer.close()
    assert not (tmp_path / "run=r1" / ".a.begun").exists()


def test_a_damaged_page_is_noticed_by_its_checksum(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")
    for n in range(1000):
        writer(row(n))
    writer.close()
    path = tmp_path / "run=r1" / "a-000001.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 8] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OSError, match="could not verify page integrity"):
        pq.read_table(path, schema=SCHEMA, partitioning=None, page_checksum_verification=True)


def test_flushing_nothing_writes_nothing(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")
    writer.flush()
    assert files(tmp_path) == []
    writer.close()
    assert files(tmp_path) == ["a.json"]
    assert read(tmp_path).num_rows == 0
    assert read(tmp_path).schema == SCHEMA


def test_writers_of_one_run_stand_side_by_side_and_are_read_in_order(tmp_path: Path) -> None:
    for node in "ba":
        writer = TraceWriter(tmp_path, "r1", node, segment_rows=2)
        for n in range(3):
            writer(row(n, node))
        writer.close()
    nodes = read(tmp_path).column("node").to_pylist()
    assert nodes == ["a"] * 3 + ["b"] * 3


def test_a_segment_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")

    def full(table: pa.Table, where: Path, **_: object) -> None:
        Path(where).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.pq, "write_table", full)
    writer(row(1))
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    assert files(tmp_path) == []


def test_a_half_written_file_is_never_read(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r1", "a")
    writer(row(1))
    writer.close()
    (tmp_path / "run=r1" / ".a-000002.parquet.tmp").write_bytes(b"PAR1 half")
    assert positions(tmp_path) == [1]


def test_a_folder_that_cannot_be_written_to_is_a_mistake_in_the_configuration(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("x")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        TraceWriter(in_the_way, "r1", "a")
    assert caught.value.key == "trace"
    assert str(in_the_way) in str(caught.value)


WRITING = """
import sys
from gossamer.traces.writer import TraceWriter
writer = TraceWriter(sys.argv[1], "r1", "a", segment_rows=50)
position = 0
while True:
    position += 1
    writer((position, 5, "a", 1, "parcel", "sent", "news", "a", 1, 1, 1, 1, "b", 90, "", 0))
    if position % 50 == 0:
        print(position, flush=True)
"""


@pytest.mark.parametrize("segments", [1, 4, 9])
def test_a_killed_writer_leaves_only_readable_files_and_loses_at_most_the_open_part(
    tmp_path: Path, segments: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout as said:
        for _ in range(segments):
            known = int(said.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = said.read().splitlines()
    known = max([known, *(int(each) for each in rest if each)])
    for path in tmp_path.rglob("*.parquet"):
        assert pq.read_table(path, schema=SCHEMA, partitioning=None).num_rows == 50
    found = positions(tmp_path)
    assert found == list(range(1, len(found) + 1)), "no gap and no copy"
    assert len(found) >= known, "every segment that was complete is there"
    assert not (tmp_path / "run=r1" / "a.json").exists(), "nobody says that it is whole"
    hidden = [name for name in files(tmp_path) if not name.endswith(".parquet")]
    assert len(hidden) <= 1
    assert all(name.startswith(".") for name in hidden)


def test_segments_may_be_written_elsewhere_and_in_order(tmp_path: Path) -> None:
    """A node hands them to a thread: the event loop does not wait for the disk."""
    waiting: list[Callable[[], None]] = []
    writer = TraceWriter(tmp_path, "r", "n", segment_rows=2, carry_out=waiting.append)
    for position in range(3):
        writer(row(position))
    writer.close()
    assert not list(tmp_path.rglob("*.parquet"))
    for write in waiting:
        write()
    assert read(tmp_path).num_rows == 3
    assert json.loads((tmp_path / "run=r" / "n.json").read_text())["segments"] == 2
