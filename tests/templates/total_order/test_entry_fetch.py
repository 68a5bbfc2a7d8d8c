"""Parcels of entries: kept, asked for, and given up only where nobody has them."""

from __future__ import annotations

from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import (
    AppendEntriesReply,
    Entry,
    FetchedParcel,
    FetchParcels,
    RaftMessage,
    RequestVoteReply,
    Voters,
)
from gossamer.consensus.node import RaftNode
from gossamer.consensus.stores import MemoryStore, RaftSettings
from gossamer.core.parcel import Parcel
from gossamer.core.wire import encode
from gossamer.templates.total_order.entry_fetch import Fetching
from gossamer.testing.fake import FakeContext, parcel

H = (1, "a")
THREE: Voters = (("a", 1), ("b", 1), ("c", 1))


class Seat:
    """A seat that leads a record of one entry, whose parcel is not here."""

    def __init__(self) -> None:
        self.ctx = FakeContext("a")
        self.wrote: list[RaftMessage] = []
        self.came: dict[int, Parcel] = {}
        self.raft = RaftNode(
            RaftSettings(3),
            live=lambda ctx: "abc",
            send=lambda ctx, message: self.wrote.append(message),
            commit_index=lambda ctx: None,
            elected=lambda ctx: None,
            store=MemoryStore(lambda key, number: self.came.get(number)),
        )
        self.fetching = Fetching(self.raft)
        self.raft.history, self.raft.record = H, RaftLog(0, 0, THREE)
        self.raft.stand(self.ctx)
        self.raft.hear(self.ctx, RequestVoteReply("a", "b", 1, H, self.raft.term, True))
        assert self.raft.leads
        self.raft.propose(self.ctx, Entry(self.raft.term, "x", 1, 1))
        self.wrote.clear()

    def fetched(self, origin: str, frame: bytes, gone: bool = True) -> Parcel | None:
        return self.fetching.fetched(self.ctx, FetchedParcel("a", origin, 1, H, 1, 2, frame), gone)

    def copied(self, origin: str, held: int) -> None:
        term = self.raft.term
        self.raft.hear(self.ctx, AppendEntriesReply("a", origin, 1, H, term, self.raft.written, held, True))

    @property
    def voids(self) -> list[int]:
        record = self.raft.record
        assert record is not None
        return [entry.voids for entry in record.entries(1, 99) if entry.voids]


def test_a_place_may_be_told_when_a_majority_has_its_parcel_and_not_before() -> None:
    seat = Seat()
    assert seat.raft.leading is not None
    seat.copied("b", held=1)
    assert seat.raft.commit_index == 2, "the place is decided"
    assert seat.raft.leading.told(seat.ctx) == 1
    seat.came[1] = parcel("x")
    seat.fetching.arrived(seat.ctx)
    assert seat.raft.leading.told(seat.ctx) == 1, "only this node has it"
    seat.copied("b", held=2)
    assert seat.raft.leading.told(seat.ctx) == 2


def test_a_parcel_that_another_seat_has_is_asked_for_and_taken() -> None:
    seat = Seat()
    seat.fetching.ask(seat.ctx)
    assert [(message.to, message.indexes) for message in seat.wrote if isinstance(message, FetchParcels)] == [
        ("b", (2,)),
        ("c", (2,)),
    ]
    assert seat.fetched("b", encode(parcel("x"))) is not None
    assert seat.fetching.lacking() == []
    seat.wrote.clear()
    seat.fetching.asked(seat.ctx, FetchParcels("a", "c", 1, H, 1, (2, 7)))
    answers = [(each.index, bool(each.parcel)) for each in seat.wrote if isinstance(each, FetchedParcel)]
    assert answers == [(2, True)], "what is not in the log is no entry"


def test_another_parcel_than_the_one_asked_for_is_refused() -> None:
    seat = Seat()
    for wrong in (parcel("x", 2), parcel("y"), parcel("x", incarnation=2)):
        assert seat.fetched("b", encode(wrong)) is None
    assert seat.fetching.lacking() == [2]


def test_an_entry_is_void_when_no_seat_has_its_parcel_and_its_source_has_gone() -> None:
    seat = Seat()
    seat.fetched("b", b"")
    assert seat.voids == [], "c has not said"
    seat.fetched("c", b"", gone=False)
    assert seat.voids == [], "its source may send it yet"
    seat.fetched("c", b"")
    assert seat.voids == [2]


def test_an_entry_whose_parcel_came_meanwhile_is_not_void() -> None:
    seat = Seat()
    seat.fetched("b", b"")
    seat.came[1] = parcel("x")
    seat.fetching.arrived(seat.ctx)
    seat.fetched("c", b"")
    assert seat.voids == []


def test_what_everybody_has_is_forgotten_and_can_be_found_until_then() -> None:
    seat = Seat()
    store = seat.raft.store
    seat.came[1] = parcel("x")
    seat.fetching.arrived(seat.ctx)
    assert store.find(("x", 1), 1) is seat.came[1]
    seat.copied("b", held=2)
    seat.raft.settle(2)
    assert store.find(("x", 1), 1) is None
    assert store.get(2) is None
