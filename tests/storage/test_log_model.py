"""The log against a plain list, through any sequence of what can be done to it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gossamer.core.errors import StorageError
from gossamer.storage.log import Log
from tests.storage.trials import FailingDisk, contents

RECORDS = st.lists(st.binary(max_size=300), max_size=6)
OPERATIONS = st.sampled_from(["create", "write", "truncate", "sync", "rename", "sync_folder"])


class LogAgainstList(RuleBasedStateMachine):
    """Records are a list; trimming may keep more than it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.disk = FailingDisk("")
        self.records: list[bytes] = []
        self.trimmed = 0
        self.log = self.open()

    def open(self) -> Log:
        return Log(self.folder, segment_bytes=400, disk=self.disk)

    @rule(records=RECORDS)
    def append(self, records: list[bytes]) -> None:
        assert self.log.append(records) == len(self.records) + len(records)
        self.records += records

    @rule(records=RECORDS.filter(bool), operation=OPERATIONS)
    def fail_to_append(self, records: list[bytes], operation: str) -> None:
        self.disk._operation, self.disk.failing = operation, True
        try:
            self.log.append(records)
        except StorageError:
            assert self.log.end == len(self.records)
        else:  # it did not need what fails
            self.records += records
        finally:
            self.disk.failing = False

    @rule(records=RECORDS.filter(bool), operation=OPERATIONS)
    def die_while_failing(self, records: list[bytes], operation: str) -> None:
        self.fail_to_append(records, operation)
        known = len(self.records)
        self.log.close()
        self.log = self.open()
        assert known <= self.log.end <= known + len(records)
        self.records += records[: self.log.end - known]

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open()
        # what was written in vain may have been there after all

    @rule()
    def seal(self) -> None:
        self.log.seal()

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.records)))
        self.trimmed = max(self.trimmed, position)
        assert self.log.trim(position) <= self.trimmed

    @rule(data=st.data(), limit=st.integers(0, 20))
    def read(self, data: st.DataObject, limit: int) -> None:
        position = data.draw(st.integers(-1, len(self.records) + 1))
        start, found = self.log.read(position, limit)
        assert start == max(position, self.log.begin)
        assert found == self.records[start : start + len(found)]
        assert bool(found) == (limit > 0 and start < len(self.records))

    @invariant()
    def the_same(self) -> None:
        assert self.log.end == len(self.records)
        assert self.log.begin <= self.trimmed
        assert contents(self.log) == self.records[self.log.begin :]

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=25)
