"""The log of a dispatcher's boxes: what is read is what was kept, however the life before ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.effect import Append, Appended, History, Read, Trim
from gossamer.core.event import Criteria
from gossamer.storage.memory import MemoryLog
from gossamer.templates.dispatch import session_log as module
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.session_log import PLACES, Ledger
from gossamer.testing.fake import FakeContext, parcel

LIMIT = 5


class Disk:
    """A dispatcher's disk, which does what was asked for when it is told to."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.ctx = FakeContext("a")
        self.ledger = Ledger(LIMIT)
        self.boxes: dict[str, Box] = {}

    def open(self) -> dict[str, Box]:
        """Begin a life; what is kept from the one before."""
        self.ctx.effects.clear()
        self.ledger = Ledger(LIMIT)
        self.ledger.open(self.ctx)
        found: list[dict[str, Box]] = []
        while isinstance(read := self.ctx.effects.pop(), Read):
            position, records = self.log.read(read.position, read.limit)
            history = History(read.ticket, position, tuple(records), self.log.begin, self.log.end)
            self.ledger.read(self.ctx, history, lambda ctx, boxes: found.append(boxes))
        self.ctx.effects.append(read)
        self.work()
        (self.boxes,) = found
        return self.boxes

    def work(self, records: int = 2**62, error: str = "") -> None:
        """Write so many records; what is written is told, unless the node ends within it."""
        while self.ctx.effects:
            asked = self.ctx.effects.pop(0)
            if isinstance(asked, Trim):
                self.log.trim(asked.position)
                continue
            assert isinstance(asked, Append)
            self.log.append(() if error else asked.records[:records])
            if len(asked.records) > records:
                return
            records -= len(asked.records)
            self.ledger.written(self.ctx, Appended(asked.ticket, self.log.end, error))

    def begin(self, name: str) -> Box:
        box = self.boxes[name] = Box(name, Criteria(("kind", "=", name)), 0)
        self.ledger.state(self.ctx, box, lambda ctx: None)
        return box

    def keep(self, name: str, sequence: int) -> None:
        box, one = self.boxes[name], parcel("s", sequence=sequence, first=sequence)
        if box.add(one):
            self.ledger.kept(self.ctx, box, one)
        list(box.shrink(LIMIT))

    def finish(self, name: str, place: int) -> None:
        self.boxes[name].finish((place, 0))
        self.ledger.done(self.ctx, self.boxes[name])

    def tidy(self) -> None:
        self.ledger.tidy(self.ctx, self.boxes.values())


def content(boxes: dict[str, Box]) -> dict[str, object]:
    return {
        name: (box.criteria, box.done, {place: each.stamp for place, each in box.parcels.items()}, box.marks)
        for name, box in boxes.items()
    }


steps = st.lists(
    st.tuples(st.sampled_from(["begin", "keep", "finish", "left", "tidy", "live"]), st.sampled_from("xyz")),
    max_size=60,
)


@given(steps)
def test_what_is_read_is_what_was_kept(taken: list[tuple[str, str]]) -> None:
    disk = Disk()
    disk.open()
    module_slack, module.SLACK = module.SLACK, 3
    try:
        for sequence, (step, name) in enumerate(taken, 1):
            if step == "begin" and name not in disk.boxes:
                disk.begin(name)
            elif step == "keep" and name in disk.boxes:
                disk.keep(name, sequence)
            elif step == "finish" and name in disk.boxes:
                disk.finish(name, next(iter(disk.boxes[name].parcels), 0))
            elif step == "left" and disk.boxes.pop(name, None):
                disk.ledger.left(disk.ctx, name)
            elif step == "tidy":
                disk.tidy()
            elif step == "live":
                before = content(disk.boxes)
                assert content(disk.open()) == before
            disk.work()
        before = content(disk.boxes)
        assert content(disk.open()) == before
    finally:
        module.SLACK = module_slack


@pytest.mark.parametrize("written", range(5))
def test_a_crash_while_everything_is_written_again_leaves_what_was_there(
    written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLACK", 0)
    disk = Disk()
    disk.open()
    disk.begin("x")
    for sequence in range(1, 20):
        disk.keep("x", sequence)
    disk.work()
    before = content(disk.boxes)
    disk.tidy()
    disk.work(written)
    assert content(disk.open()) == before


def test_a_log_that_is_much_longer_than_what_is_kept_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLACK", 10)
    disk = Disk()
    disk.open()
    disk.begin("x")
    for sequence in range(1, 100):
        disk.keep("x", sequence)
        disk.work()
        disk.tidy()
        disk.work()
    assert disk.log.end - disk.log.begin < 40


def test_what_could_not_be_written_is_written_when_there_is_room_again() -> None:
    disk = Disk()
    disk.open()
    disk.begin("x")
    disk.work()
    disk.keep("x", 1)
    disk.work(error="no room")
    assert disk.ledger.trouble == "no room"
    before = content(disk.boxes)
    disk.tidy()
    disk.work()
    assert not disk.ledger.trouble
    assert content(disk.open()) == before


def test_a_log_that_could_not_be_read_is_read_when_it_can_be() -> None:
    disk = Disk()
    disk.ledger.open(disk.ctx)
    disk.ctx.effects.clear()
    disk.ledger.read(disk.ctx, History(0, 0, (), 0, 0, "no such folder"), lambda ctx, boxes: None)
    assert not disk.ledger.ready
    disk.tidy()
    assert isinstance(disk.ctx.effects.pop(), Read)


def test_what_is_to_happen_when_a_box_is_on_disk_waits_for_that() -> None:
    disk = Disk()
    disk.open()
    heard: list[str] = []
    disk.ledger.state(disk.ctx, Box("x", Criteria(), 0), lambda ctx: heard.append("written"))
    assert not heard
    disk.work()
    assert heard == ["written"]


def test_places_of_a_new_life_lie_behind_all_that_the_last_one_may_have_given_out() -> None:
    disk = Disk()
    disk.open()
    disk.begin("x")
    disk.keep("x", 1)
    disk.work()
    lives = [disk.open()["x"].next for _ in range(3)]
    assert lives == [2 * PLACES, 3 * PLACES, 4 * PLACES]


def test_a_record_that_makes_no_sense_is_counted_and_the_others_are_read() -> None:
    disk = Disk()
    disk.open()
    disk.begin("x")
    disk.work()
    disk.log.append([b"\xc1", b"\x93\x01\xa1x\x01"])
    assert list(disk.open()) == ["x"]
    assert disk.ledger.unreadable == 2


def test_what_is_to_happen_when_a_box_is_on_disk_does_not_happen_while_the_disk_is_full() -> None:
    """Else the dispatcher that had the box forgets it, and a crash here loses all of it."""
    disk = Disk()
    disk.open()
    heard: list[str] = []
    box = disk.begin("x")
    disk.ledger.state(disk.ctx, box, lambda ctx: heard.append("written"))
    disk.work(error="no room")
    disk.tidy()
    disk.work(error="no room")
    assert heard == []
    assert content(disk.open()) == {}, "nothing was written"
    disk.boxes = {"x": box}
    disk.ledger.state(disk.ctx, box, lambda ctx: heard.append("written"))
    disk.work(error="no room")
    disk.tidy()
    disk.work()
    assert heard == ["written"]
    assert list(disk.open()) == ["x"]


def test_a_part_that_was_written_behind_one_that_was_not_makes_nothing_happen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    disk = Disk()
    disk.open()
    box = disk.boxes["x"] = Box("x", Criteria(), 0)
    for sequence in range(1, 4):
        box.add(parcel("s", sequence=sequence, first=sequence))
    heard: list[str] = []
    disk.ledger.state(disk.ctx, box, lambda ctx: heard.append("written"))
    first, second = disk.ctx.effects
    disk.ctx.effects[:] = [first]
    disk.work(error="no room")
    disk.ctx.effects[:0] = [second]
    disk.work()
    assert heard == []
    disk.tidy()
    disk.work()
    assert heard == ["written"]
    assert content(disk.open()) == content({"x": box})


def test_what_does_not_fit_into_the_queue_makes_nothing_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUE", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 1)
    disk = Disk()
    disk.open()
    heard: list[str] = []
    box = disk.begin("x")
    for sequence in range(1, 4):
        disk.keep("x", sequence)
    disk.ledger.state(disk.ctx, box, lambda ctx: heard.append("written"))
    assert "wait for the disk" in disk.ledger.trouble
    assert heard == []
    disk.work()
    disk.tidy()
    disk.work()
    assert heard == ["written"]


def test_a_log_that_is_damaged_stays_closed() -> None:
    disk = Disk()
    disk.ledger.open(disk.ctx)
    assert not disk.ledger.looked
    disk.ctx.effects.clear()
    damage = History(0, 0, (), 0, 0, "a bit", damaged=True)
    disk.ledger.read(disk.ctx, damage, lambda ctx, boxes: None)
    assert disk.ledger.looked
    assert disk.ledger.damaged
    assert not disk.ledger.ready
    disk.tidy()
    assert disk.ctx.effects == [], "reading it again would not help"
