"""What a sink remembers. No Spark is needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gossamer.core.errors import StorageError
from pyspark_gossamer.manifest import Committed, Progress, SinkManifest

EVENTS = pa.table({"payload": [b"a", b"b"]})


def test_a_committed_batch_is_remembered_and_its_events_are_not(tmp_path: Path) -> None:
    with SinkManifest(tmp_path, "q") as manifest:
        assert manifest.committed == Committed(-1, 0)
        manifest.prepare(0, EVENTS, 7)
        manifest.commit(0, 2)
    with SinkManifest(tmp_path, "q") as manifest:
        assert manifest.committed == Committed(0, 2)
        assert manifest.prepared(0) is None


def test_what_was_written_down_for_a_batch_outlives_the_process(tmp_path: Path) -> None:
    with SinkManifest(tmp_path, "q") as manifest:
        manifest.prepare(3, EVENTS, 7)
        manifest.advance(Progress(3, 1, 7))
    with SinkManifest(tmp_path, "q") as manifest:
        assert manifest.prepared(3) == EVENTS
        assert manifest.progress(3) == Progress(3, 1, 7)
        assert manifest.prepared(4) is None
        assert manifest.progress(4) == Progress(4, 0, 0)


def test_the_progress_of_the_batch_before_is_none_of_the_next(tmp_path: Path) -> None:
    with SinkManifest(tmp_path, "q") as manifest:
        manifest.prepare(0, EVENTS, 0)
        manifest.advance(Progress(0, 2, 0))
        manifest.commit(0, 2)
        manifest.prepare(1, EVENTS, 5)
        assert manifest.progress(1) == Progress(1, 0, 5)


def test_a_file_that_has_no_name_yet_is_no_batch_and_is_swept(tmp_path: Path) -> None:
    with SinkManifest(tmp_path, "q"):
        pass
    (tmp_path / f"{0:020d}.tmp").write_bytes(b"half")
    with SinkManifest(tmp_path, "q") as manifest:
        assert manifest.prepared(0) is None
    assert not list(tmp_path.glob("*.tmp"))


def test_another_query_is_refused(tmp_path: Path) -> None:
    with SinkManifest(tmp_path, "q"):
        pass
    with pytest.raises(StorageError, match="belongs to query q, and this is r"), SinkManifest(tmp_path, "r"):
        pass


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        SinkManifest(tmp_path, "q"),
        pytest.raises(StorageError, match="another process"),
        SinkManifest(tmp_path, "q", patience=0.0),
    ):
        pass
