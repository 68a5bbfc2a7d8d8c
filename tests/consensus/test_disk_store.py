"""A vault: entries and parcels count when they are on disk, and the leader's letters do not wait for that."""

from __future__ import annotations

import pytest

from gossamer.consensus.disk_store import Vault
from gossamer.consensus.log import Record
from gossamer.consensus.messages import Copied, Copy, Entry, History, Letter, Seats, Vote
from gossamer.consensus.node import Council
from gossamer.consensus.stores import CouncilSettings
from gossamer.core.effect import Store
from gossamer.testing.fake import FakeContext, parcel

H: History = (1, "a")
THREE: Seats = (("a", 1), ("b", 1), ("c", 1))


class Voter:
    """One voter, whose disk does what was asked for when it is told to."""

    def __init__(self, seats: Seats = THREE) -> None:
        self.ctx = FakeContext("a")
        self.wrote: list[Letter] = []
        self.parcels = {1: parcel("a/s", 1, 1)}
        self.vault = Vault(lambda key, number: self.parcels.get(number))
        self.council = Council(
            CouncilSettings(3),
            live=lambda ctx: ("a", "b", "c"),
            send=lambda ctx, letter: self.wrote.append(letter),
            decided=lambda ctx: None,
            elected=lambda ctx: None,
            keeper=self.vault,
        )
        self.vault.open(self.ctx, self.council)
        self.council.history = H
        self.council._take(Record(0, 0, seats))
        self.disk()

    @property
    def asked(self) -> int:
        """The last ticket that was given to the disk."""
        return max(each.ticket for each in self.ctx.effects if isinstance(each, Store))

    def disk(self, ticket: int = 0) -> None:
        self.vault.stored(self.ctx, self.council, ticket or self.asked)

    def hear(self, kind: type[Letter], origin: str, *rest: object) -> None:
        self.council.hear(self.ctx, kind("a", origin, 1, H, self.council.term, *rest))

    def leads(self) -> None:
        self.council.stand(self.ctx)
        self.disk()
        self.hear(Vote, "b", True)
        self.disk()
        self.wrote.clear()
        for name in "bc":
            self.hear(Copied, name, self.council.record.last, 1, True)  # type: ignore[union-attr]

    def publish(self) -> int:
        """An entry for a parcel; its index."""
        stamp = self.parcels[1].stamp
        entry = Entry(self.council.term, stamp.source, stamp.incarnation, 1)
        self.council.propose(self.ctx, entry)
        return self.council.record.last  # type: ignore[union-attr]

    def told(self) -> int:
        assert self.council.leadership is not None
        return min(self.council.decided, self.council.leadership.told(self.ctx))


def test_a_leader_writes_to_the_others_before_its_own_disk_has_an_entry() -> None:
    voter = Voter()
    voter.leads()
    index = voter.publish()
    copies = [each for each in voter.wrote if isinstance(each, Copy)]
    assert {each.to for each in copies} == {"b", "c"}
    assert voter.council.written < index
    assert voter.told() < index


@pytest.mark.parametrize("own", [False, True])
def test_an_entry_is_decided_and_told_when_two_of_three_disks_have_it_whichever_these_are(own: bool) -> None:
    voter = Voter()
    voter.leads()
    index = voter.publish()
    voter.hear(Copied, "b", index, index, True)
    assert voter.council.decided < index
    if own:
        voter.disk()
    else:
        voter.hear(Copied, "c", index, index, True)
    assert voter.council.decided == voter.told() == index


def test_an_only_voter_decides_when_its_disk_has_an_entry_and_not_before() -> None:
    voter = Voter((("a", 1),))
    voter.council.stand(voter.ctx)
    assert voter.council.leads
    assert not voter.vault.sworn, "its letters have to wait"
    assert voter.council.decided == 0
    voter.disk()
    assert voter.vault.sworn
    index = voter.publish()
    assert voter.council.decided < index
    voter.disk()
    assert voter.council.decided == voter.told() == index


def test_a_late_report_does_not_count_entries_that_took_the_place_of_others() -> None:
    voter = Voter()
    voter.hear(Copy, "b", 0, 0, (Entry(0), Entry(0)), 0, 0)
    late = voter.asked
    voter.council.hear(voter.ctx, Copy("a", "c", 1, H, 5, 1, 0, (Entry(5),), 0, 0))
    voter.disk(late)
    assert voter.council.written < 2
    voter.disk()
    assert voter.council.written == 2


def test_a_parcel_that_comes_later_is_told_when_it_is_on_disk() -> None:
    voter = Voter()
    voter.leads()
    stamp = voter.parcels.pop(1).stamp
    entry = Entry(voter.council.term, stamp.source, stamp.incarnation, 1)
    voter.council.propose(voter.ctx, entry)
    index = voter.council.record.last  # type: ignore[union-attr]
    voter.disk()
    voter.hear(Copied, "b", index, index, True)
    assert voter.council.decided == index
    assert voter.told() < index
    voter.parcels[1] = parcel("a/s", 1, 1)
    assert voter.vault.gather(voter.council.record, index)  # type: ignore[arg-type]
    voter.vault.gathered(voter.ctx, voter.council)
    assert voter.told() < index
    voter.disk()
    assert voter.told() == index


def test_a_record_that_goes_on_in_a_later_history_is_found_again_after_a_crash() -> None:
    voter = Voter()
    voter.hear(Copy, "b", 0, 0, (Entry(0), Entry(0)), 0, 0)
    voter.council.stand(voter.ctx)
    voter.council.go_on(voter.ctx)
    history, last = voter.council.history, voter.council.record.last  # type: ignore[union-attr]
    voter.council.keeper.oath(voter.ctx, voter.council, lambda ctx: None)
    values = {each.key: each.value for each in voter.ctx.effects if isinstance(each, Store)}
    again = Voter()
    again.ctx.containers["stored"] = {key: value for key, value in values.items() if value is not None}
    again.vault.open(again.ctx, again.council)
    assert again.council.history == history
    assert again.council.record is not None
    assert again.council.record.last == last
