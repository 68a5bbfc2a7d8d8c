"""Traces are whole or it is said what is missing; damaged files are kept out and counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossamer.core.errors import ConfigError
from gossamer.pipeline.reading import Survey, survey
from gossamer.traces.writer import TraceWriter
from tests.pipeline.stories import STORIES


def written(folder: Path, run: str = "gap", name: str = "w", segment: int = 4, end: bool = True) -> Path:
    writer = TraceWriter(folder, run, name, segment_rows=segment)
    for row in STORIES["gap"].rows:
        writer(row)
    if end:
        writer.close()
    return folder / f"run={run}"


def reasons(found: Survey) -> list[str]:
    return [fault.reason for fault in found.faults]


def test_a_whole_trace_is_complete(tmp_path: Path) -> None:
    written(tmp_path)
    written(tmp_path, "other", "x-17")
    found = survey(str(tmp_path))
    assert found.complete
    assert found.runs == ("gap", "other")
    assert found.rows == 2 * len(STORIES["gap"].rows)
    assert [writer.name for writer in found.writers] == ["w", "x-17"]


def test_one_run_can_be_looked_at_by_its_folder_or_its_name(tmp_path: Path) -> None:
    folder = written(tmp_path)
    written(tmp_path, "other", end=False)
    assert survey(str(folder)).runs == ("gap",)
    assert survey(str(tmp_path)).only(["gap"]).complete
    assert survey(f"file://{folder}").complete
    with pytest.raises(ConfigError, match="no run 'gpa'"):
        survey(str(tmp_path)).only(["gpa"])


def test_a_missing_segment_is_noticed_in_the_middle_and_at_the_end(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "w-000002.parquet").unlink()
    assert reasons(survey(str(tmp_path))) == ["1 of 4 segments are missing: 2"]
    (folder / "w-000004.parquet").unlink()
    assert reasons(survey(str(tmp_path))) == ["2 of 4 segments are missing: 2, 4"]


def test_a_writer_that_never_ended_is_noticed_even_without_a_segment(tmp_path: Path) -> None:
    written(tmp_path, end=False)
    TraceWriter(tmp_path, "gap", "z")
    found = survey(str(tmp_path))
    assert [fault.writer for fault in found.faults] == ["w", "z"]
    assert all("not ended" in reason for reason in reasons(found))


def test_a_file_that_is_cut_short_is_kept_out_and_counted(tmp_path: Path) -> None:
    folder = written(tmp_path)
    whole = folder / "w-000003.parquet"
    whole.write_bytes(whole.read_bytes()[:-20])
    found = survey(str(tmp_path))
    assert found.quarantined == 1
    assert str(whole) in found.faults[0].file
    assert str(whole) not in found.files
    assert len(found.files) == 3


def test_a_damaged_page_is_found_by_a_deep_look(tmp_path: Path) -> None:
    folder = written(tmp_path, segment=50)
    file = folder / "w-000001.parquet"
    column = pq.read_metadata(file).row_group(0).column(0)
    damaged = bytearray(file.read_bytes())
    damaged[column.data_page_offset + column.total_compressed_size - 2] ^= 255
    file.write_bytes(damaged)
    assert survey(str(tmp_path)).complete, "nobody has read the page"
    assert survey(str(tmp_path), deep=True).quarantined == 1


def test_something_else_in_parquet_is_no_trace(tmp_path: Path) -> None:
    folder = written(tmp_path)
    pq.write_table(pa.table({"x": [1]}), folder / "y-000001.parquet")
    assert "columns" in reasons(survey(str(tmp_path)))[0]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_traces_is_said_so(tmp_path: Path, there: bool) -> None:
    with pytest.raises(ConfigError, match="no traces"):
        survey(str(tmp_path if there else tmp_path / "nowhere"))
