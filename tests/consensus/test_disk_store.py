"""A vault: entries and parcels count when they are on disk, and the leader's letters do not wait for that."""

from __future__ import annotations

import pytest

from gossamer.consensus.disk_store import DiskStore
from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import (
    AppendEntries,
    AppendEntriesReply,
    Entry,
    History,
    RaftMessage,
    RequestVoteReply,
    Voters,
)
from gossamer.consensus.node import RaftNode
from gossamer.consensus.stores import RaftSettings
from gossamer.core.effect import Store
from gossamer.testing.fake import FakeContext, parcel

H: History = (1, "a")
THREE: Voters = (("a", 1), ("b", 1), ("c", 1))


class Voter:
    """One voter, whose disk does what was asked for when it is told to."""

    def __init__(self, seats: Voters = THREE) -> None:
        self.ctx = FakeContext("a")
        self.wrote: list[RaftMessage] = []
        self.parcels = {1: parcel("a/s", 1, 1)}
        self.disk_store = DiskStore(lambda key, number: self.parcels.get(number))
        self.raft = RaftNode(
            RaftSettings(3),
            live=lambda ctx: ("a", "b", "c"),
            send=lambda ctx, message: self.wrote.append(message),
            commit_index=lambda ctx: None,
            elected=lambda ctx: None,
            store=self.disk_store,
        )
        self.disk_store.open(self.ctx, self.raft)
        self.raft.history = H
        self.raft._take(RaftLog(0, 0, seats))
        self.disk()

    @property
    def asked(self) -> int:
        """The last ticket that was given to the disk."""
        return max(each.ticket for each in self.ctx.effects if isinstance(each, Store))

    def disk(self, ticket: int = 0) -> None:
        self.disk_store.stored(self.ctx, self.raft, ticket or self.asked)

    def hear(self, kind: type[RaftMessage], origin: str, *rest: object) -> None:
        self.raft.hear(self.ctx, kind("a", origin, 1, H, self.raft.term, *rest))

    def leads(self) -> None:
        self.raft.stand(self.ctx)
        self.disk()
        self.hear(RequestVoteReply, "b", True)
        self.disk()
        self.wrote.clear()
        for name in "bc":
            self.hear(AppendEntriesReply, name, self.raft.record.last, 1, True)  # type: ignore[union-attr]

    def publish(self) -> int:
        """An entry for a parcel; its index."""
        stamp = self.parcels[1].stamp
        entry = Entry(self.raft.term, stamp.source, stamp.incarnation, 1)
        self.raft.propose(self.ctx, entry)
        return self.raft.record.last  # type: ignore[union-attr]

    def told(self) -> int:
        assert self.raft.leading is not None
        return min(self.raft.commit_index, self.raft.leading.told(self.ctx))


def test_a_leader_writes_to_the_others_before_its_own_disk_has_an_entry() -> None:
    voter = Voter()
    voter.leads()
    index = voter.publish()
    copies = [each for each in voter.wrote if isinstance(each, AppendEntries)]
    assert {each.to for each in copies} == {"b", "c"}
    assert voter.raft.written < index
    assert voter.told() < index


@pytest.mark.parametrize("own", [False, True])
def test_an_entry_is_decided_and_told_when_two_of_three_disks_have_it_whichever_these_are(own: bool) -> None:
    voter = Voter()
    voter.leads()
    index = voter.publish()
    voter.hear(AppendEntriesReply, "b", index, index, True)
    assert voter.raft.commit_index < index
    if own:
        voter.disk()
    else:
        voter.hear(AppendEntriesReply, "c", index, index, True)
    assert voter.raft.commit_index == voter.told() == index


def test_an_only_voter_decides_when_its_disk_has_an_entry_and_not_before() -> None:
    voter = Voter((("a", 1),))
    voter.raft.stand(voter.ctx)
    assert voter.raft.leads
    assert not voter.disk_store.sworn, "its letters have to wait"
    assert voter.raft.commit_index == 0
    voter.disk()
    assert voter.disk_store.sworn
    index = voter.publish()
    assert voter.raft.commit_index < index
    voter.disk()
    assert voter.raft.commit_index == voter.told() == index


def test_a_late_report_does_not_count_entries_that_took_the_place_of_others() -> None:
    voter = Voter()
    voter.hear(AppendEntries, "b", 0, 0, (Entry(0), Entry(0)), 0, 0)
    late = voter.asked
    voter.raft.hear(voter.ctx, AppendEntries("a", "c", 1, H, 5, 1, 0, (Entry(5),), 0, 0))
    voter.disk(late)
    assert voter.raft.written < 2
    voter.disk()
    assert voter.raft.written == 2


def test_a_parcel_that_comes_later_is_told_when_it_is_on_disk() -> None:
    voter = Voter()
    voter.leads()
    stamp = voter.parcels.pop(1).stamp
    entry = Entry(voter.raft.term, stamp.source, stamp.incarnation, 1)
    voter.raft.propose(voter.ctx, entry)
    index = voter.raft.record.last  # type: ignore[union-attr]
    voter.disk()
    voter.hear(AppendEntriesReply, "b", index, index, True)
    assert voter.raft.commit_index == index
    assert voter.told() < index
    voter.parcels[1] = parcel("a/s", 1, 1)
    assert voter.disk_store.gather(voter.raft.record, index)  # type: ignore[arg-type]
    voter.disk_store.gathered(voter.ctx, voter.raft)
    assert voter.told() < index
    voter.disk()
    assert voter.told() == index


def test_a_record_that_goes_on_in_a_later_history_is_found_again_after_a_crash() -> None:
    voter = Voter()
    voter.hear(AppendEntries, "b", 0, 0, (Entry(0), Entry(0)), 0, 0)
    voter.raft.stand(voter.ctx)
    voter.raft.go_on(voter.ctx)
    history, last = voter.raft.history, voter.raft.record.last  # type: ignore[union-attr]
    voter.raft.store.hard_state(voter.ctx, voter.raft, lambda ctx: None)
    values = {each.key: each.value for each in voter.ctx.effects if isinstance(each, Store)}
    again = Voter()
    again.ctx.containers["stored"] = {key: value for key, value in values.items() if value is not None}
    again.disk_store.open(again.ctx, again.raft)
    assert again.raft.history == history
    assert again.raft.record is not None
    assert again.raft.record.last == last
