"""Which traces there are, whether they are whole, and their rows for Spark.

A trace is whole if every writer said at its end how many segments and rows it wrote, and all of them are
there and readable. Anything else is said: a writer that never ended, a segment that is missing, a file that
is damaged. A damaged file is kept out (quarantined) and counted, so that the rest can still be looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from gossamer.core.errors import ConfigError
from gossamer.pipeline.schema import ARROW, ROWS

_SEGMENT = re.compile(r"^(?P<name>.+)-(?P<number>\d{6,})\.parquet$")
_END = re.compile(r"^(?P<name>[^.].*)\.json$")
_BEGUN = re.compile(r"^\.(?P<name>.+)\.begun$")
_RUN = re.compile(r"(?:^|/)run=([^/]+)/")
_THREADS = 8


class Segment(msgspec.Struct, frozen=True):
    """One readable file."""

    path: str
    number: int
    rows: int


class Fault(msgspec.Struct, frozen=True):
    """Something that is not as it should be; ``quarantined`` if it is a file that is kept out."""

    run: str
    writer: str
    file: str
    reason: str
    quarantined: bool


class Writer(msgspec.Struct, frozen=True):
    """What one writer left: a live node in one life, or a whole simulated world."""

    run: str
    name: str
    segments: tuple[Segment, ...]


class Survey(msgspec.Struct, frozen=True):
    """What a folder of traces holds.

    folder
        Path or address, as given.
    faults
        What is missing or damaged; a survey without any is complete.
    """

    folder: str
    writers: tuple[Writer, ...]
    faults: tuple[Fault, ...]

    @property
    def complete(self) -> bool:
        return not self.faults

    @property
    def quarantined(self) -> int:
        """Files that are kept out."""
        return sum(fault.quarantined for fault in self.faults)

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(sorted({writer.run for writer in self.writers}))

    @property
    def rows(self) -> int:
        return sum(segment.rows for writer in self.writers for segment in writer.segments)

    @property
    def files(self) -> list[str]:
        return [segment.path for writer in self.writers for segment in writer.segments]

    def only(self, runs: Iterable[str]) -> Survey:
        """The part about some runs; raises ConfigError for a run that is not there."""
        wanted = set(runs)
        known = {*self.runs, *(fault.run for fault in self.faults)}
        if not wanted <= known:
            unknown, there = min(wanted - known), ", ".join(sorted(known))
            raise ConfigError(f"there is no run {unknown!r} in {self.folder}; there are {there}", key="run")
        return Survey(
            self.folder,
            tuple(writer for writer in self.writers if writer.run in wanted),
            tuple(fault for fault in self.faults if fault.run in wanted),
        )


def survey(folder: str, deep: bool = False) -> Survey:
    """Look at all traces below a folder; ``deep`` reads every page of every file.

    The folder may also be that of one run. Raises ConfigError if there are none.
    """
    system, root = opened(folder)
    prefix = folder.removesuffix(root) if "://" in folder else ""
    try:
        listed = system.get_file_info(fs.FileSelector(root, recursive=True))
    except OSError as error:
        raise ConfigError(f"no traces can be read there: {error}", file=folder) from None
    found = _by_writer(listed)
    if not found:
        raise ConfigError("there are no traces below this folder: no file run=NAME/…parquet", file=folder)
    faults: list[Fault] = []
    writers = []
    with ThreadPoolExecutor(_THREADS) as pool:
        looks = {
            key: [pool.submit(_look, prefix, system, *segment, deep) for segment in each.in_order()]
            for key, each in found.items()
        }
        for (run_name, name), each in found.items():
            segments = []
            for look in looks[run_name, name]:
                seen = look.result()
                if isinstance(seen, Segment):
                    segments.append(seen)
                else:
                    path, reason = seen
                    faults.append(Fault(run_name, name, path, reason, True))
            for reason in each.incomplete(system, segments):
                faults.append(Fault(run_name, name, "", reason, False))
            writers.append(Writer(run_name, name, tuple(segments)))
    return Survey(folder, tuple(writers), tuple(faults))


def opened(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or an address, and the path there."""
    if "://" in place:
        system, path = fs.FileSystem.from_uri(place)
        return system, path
    return fs.LocalFileSystem(), os.path.abspath(place)


def segment(place: str, number: int) -> Segment | str:
    """A file of which every page was read, or why it cannot be used."""
    system, path = opened(place)
    found = _look(place.removesuffix(path) if "://" in place else "", system, number, path, deep=True)
    return found if isinstance(found, Segment) else found[1]


def rows(spark: SparkSession, traces: Survey) -> DataFrame:
    """All rows of all readable segments, with the name of their run."""
    places: dict[str, list[str]] = {}
    for file in traces.files:
        places.setdefault(file.rpartition("/run=")[0] or ".", []).append(file)
    found = [
        spark.read.schema(ROWS).option("basePath", base).parquet(*files) for base, files in places.items()
    ]
    return reduce(DataFrame.unionByName, found) if found else spark.createDataFrame([], ROWS)


def _by_writer(listed: Iterable[fs.FileInfo]) -> dict[tuple[str, str], _Found]:
    """Files of traces, by run and name of their writer."""
    found: dict[tuple[str, str], _Found] = {}
    for info in sorted(listed, key=lambda info: info.path):
        run = _RUN.search(info.path)
        if info.type != fs.FileType.File or run is None or info.base_name.endswith(".tmp"):
            continue
        for pattern in (_SEGMENT, _END, _BEGUN):
            match = pattern.match(info.base_name)
            if match:
                found.setdefault((run[1], match["name"]), _Found()).add(pattern, info.path, match)
    return found


class _Found:
    """Files of one writer."""

    def __init__(self) -> None:
        self.segments: dict[int, str] = {}
        self.end = ""

    def add(self, pattern: re.Pattern[str], path: str, match: re.Match[str]) -> None:
        if pattern is _SEGMENT:
            self.segments[int(match["number"])] = path
        elif pattern is _END:
            self.end = path

    def in_order(self) -> list[tuple[int, str]]:
        return sorted(self.segments.items())

    def incomplete(self, system: fs.FileSystem, readable: list[Segment]) -> list[str]:
        """What keeps this trace from being whole, but for damaged files."""
        reasons = []
        last = max(self.segments, default=0)
        rows = None
        if not self.end:
            reasons.append("it was not ended: the writer still writes, or was killed with rows in memory")
        else:
            try:
                said = json.loads(system.open_input_stream(self.end).read())
                last, rows = max(last, int(said["segments"])), int(said["rows"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                reasons.append(f"its end cannot be read: {error}")
        missing = [number for number in range(1, last + 1) if number not in self.segments]
        if missing:
            some = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
            reasons.append(f"{len(missing)} of {last} segments are missing: {some}")
        there = sum(segment.rows for segment in readable)
        if rows is not None and len(readable) == last and there != rows:
            reasons.append(f"it has {there} rows, its end says {rows}")
        return reasons


def _look(
    prefix: str, system: fs.FileSystem, number: int, path: str, deep: bool
) -> Segment | tuple[str, str]:
    """A segment, or why it cannot be used."""
    try:
        with pq.ParquetFile(path, filesystem=system, page_checksum_verification=True) as file:
            if file.schema_arrow.remove_metadata() != ARROW:
                return path, "its columns are not those of a trace"
            if deep:
                for _ in file.iter_batches():
                    pass
            return Segment(prefix + path, number, file.metadata.num_rows)
    except (OSError, pa.ArrowException) as error:
        return path, str(error).splitlines()[0][:200]
