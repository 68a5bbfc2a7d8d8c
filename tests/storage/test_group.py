"""Group commit: who leads, who waits, and what happens when a leader fails or is stopped."""

from __future__ import annotations

import os
import threading

import pytest

from gossamer.core.errors import DiskFull, StorageError
from gossamer.storage import group
from gossamer.storage.group import Group


class Writer:
    """Writes into a list; the first write waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.groups: list[list[bytes]] = []
        self.failure: BaseException | None = None

    def write(self, records: list[bytes]) -> int:
        self.entered.set()
        assert self.gate.wait(30)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        position = sum(map(len, self.groups))
        self.groups.append(records)
        return position


class Crowd:
    """Threads that append one record each; the first of them is in the middle of writing."""

    def __init__(self, size: int, record: bytes = b"x") -> None:
        self.writer = Writer()
        self.group = Group(self.writer.write)
        self.positions: list[int] = []
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._append, args=(record,)) for _ in range(size)]
        self._threads[0].start()
        assert self.writer.entered.wait(30)
        for thread in self._threads[1:]:
            thread.start()
        while len(self.group.waiting) < size - 1:
            os.sched_yield()

    def _append(self, record: bytes) -> None:
        try:
            self.positions.append(self.group.append([record]))
        except BaseException as error:
            self.errors.append(error)

    def finish(self) -> None:
        self.writer.gate.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


def test_what_comes_during_a_write_shares_the_next_one() -> None:
    crowd = Crowd(9)
    crowd.finish()
    assert [len(each) for each in crowd.writer.groups] == [1, 8]
    assert sorted(crowd.positions) == list(range(1, 10))


def test_a_group_is_bounded_and_the_rest_follows_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_BYTES", 30)
    crowd = Crowd(9, b"ten bytes.")
    crowd.finish()
    assert [len(each) for each in crowd.writer.groups] == [1, 3, 3, 2]
    assert sorted(crowd.positions) == list(range(1, 10))


def test_a_failure_reaches_everybody_of_its_group_and_nobody_else() -> None:
    crowd = Crowd(5)
    crowd.writer.failure = DiskFull("00.log", "writing failed")
    crowd.finish()
    assert [type(error) for error in crowd.errors] == [DiskFull]
    assert sorted(crowd.positions) == [1, 2, 3, 4]


def test_a_leader_that_is_stopped_leaves_nobody_waiting() -> None:
    crowd = Crowd(5)
    crowd.writer.failure = KeyboardInterrupt()
    crowd.finish()
    assert [type(error) for error in crowd.errors] == [KeyboardInterrupt]
    assert sorted(crowd.positions) == [1, 2, 3, 4]
    assert crowd.group.append([b"y"]) == 5


def test_those_who_wait_on_a_leader_that_is_stopped_are_told() -> None:
    crowd = Crowd(3)
    first = crowd.writer.write

    def stop_the_second(records: list[bytes]) -> int:
        if crowd.writer.groups:
            raise KeyboardInterrupt
        return first(records)

    crowd.group._write = stop_the_second
    crowd.finish()
    assert sorted(type(error).__name__ for error in crowd.errors) == ["KeyboardInterrupt", "StorageError"]
    assert any(isinstance(error, StorageError) for error in crowd.errors)
    assert crowd.positions == [1]


def test_one_who_is_stopped_while_waiting_takes_its_records_and_the_lead_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(1)
    stopped = group._Entry([b"gone"])
    crowd.group.waiting.append(stopped)
    monkeypatch.setattr(stopped.woken, "wait", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        crowd.group._wait(stopped)
    crowd.finish()
    assert crowd.writer.groups == [[b"x"]]
    assert crowd.group.append([b"y"]) == 2
