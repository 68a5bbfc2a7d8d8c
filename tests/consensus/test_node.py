"""Councils: what a majority has is decided for ever, whoever leads, dies or is cut off."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import (
    AppendEntries,
    AppendEntriesReply,
    BootstrapReply,
    Entry,
    FetchParcels,
    History,
    InstallSnapshot,
    NoSuchLog,
    RaftMessage,
    RequestVote,
    RequestVoteReply,
    Voters,
)
from gossamer.consensus.node import RaftNode
from gossamer.consensus.stores import MemoryStore, RaftSettings
from gossamer.core.errors import ProtocolError
from gossamer.overlay.groups.rendezvous import ranking
from gossamer.testing.fake import FakeContext, parcel
from tests.consensus.clusters import Councils, settled

H: History = (1, "a")
THREE: Voters = (("a", 1), ("b", 1), ("c", 1))


class One:
    """One council by itself, and what it writes."""

    def __init__(self, name: str = "b", record: RaftLog | None = None, **state: Any) -> None:
        self.ctx = FakeContext(name)
        self.wrote: list[RaftMessage] = []
        self.raft = RaftNode(
            RaftSettings(3),
            live=lambda ctx: ("a", "b", "c", "d"),
            send=lambda ctx, message: self.wrote.append(message),
            commit_index=lambda ctx: None,
            elected=lambda ctx: None,
            store=MemoryStore(lambda key, number: None),
        )
        self.raft.history, self.raft.record = H, record
        for key, value in state.items():
            setattr(self.raft, key, value)

    def hear(
        self, kind: type[RaftMessage], origin: str, term: int, *rest: object, life: int = 1
    ) -> list[RaftMessage]:
        """What it answers to a letter."""
        self.wrote.clear()
        self.raft.hear(self.ctx, kind(self.ctx.node, origin, life, H, term, *rest))
        return list(self.wrote)

    def votes(self, origin: str, term: int, index: int = 0, index_term: int = 0) -> bool:
        (vote,) = self.hear(RequestVote, origin, term, index, index_term, False)
        assert isinstance(vote, RequestVoteReply)
        return vote.granted


# votes


def test_nobody_votes_twice_in_one_term() -> None:
    one = One(record=RaftLog(0, 0, THREE))
    assert one.votes("a", 5)
    assert one.votes("a", 5), "the answer may have been lost"
    assert not one.votes("c", 5)
    assert one.votes("c", 6)


def test_who_has_voted_and_is_welcomed_then_has_voted_all_the_same() -> None:
    one = One()
    assert one.votes("a", 5)
    one.hear(InstallSnapshot, "a", 5, 0, 0, THREE, (), 0)
    assert not one.votes("c", 5)


def test_a_welcome_that_was_long_on_its_way_takes_no_vote_back() -> None:
    one = One()
    assert one.votes("a", 6)
    (answer,) = one.hear(InstallSnapshot, "c", 5, 0, 0, THREE, (), 0)
    assert isinstance(answer, AppendEntriesReply)
    assert (answer.term, answer.agreed) == (6, False), "so that whoever wrote it follows"
    assert one.raft.record is None
    assert not one.votes("c", 6)


def test_nobody_votes_for_a_record_that_is_worse_than_its_own() -> None:
    record = RaftLog(10, 3, THREE)
    record.append(Entry(4))
    one = One(record=record, term=4)
    assert not one.votes("a", 5, 10, 4), "shorter"
    assert not one.votes("a", 6, 99, 3), "longer, and of an earlier term"
    assert one.votes("a", 7, 11, 4)


def test_who_follows_a_leader_that_lives_has_no_ear_for_others_unless_the_leader_sent_them() -> None:
    one = One(record=RaftLog(0, 0, THREE), term=1)
    one.hear(AppendEntries, "a", 1, 0, 0, (), 0, 0)
    assert one.hear(RequestVote, "c", 2, 0, 0, False) == []
    (vote,) = one.hear(RequestVote, "c", 2, 0, 0, True)
    assert isinstance(vote, RequestVoteReply)
    assert vote.granted


# majorities


def leader(net: Councils) -> str:
    (name,) = net.leading()
    return name


def others(net: Councils) -> list[str]:
    """Seats that do not lead."""
    return [name for name, _ in net.rafts[leader(net)].seats if name != leader(net)]


def test_the_best_nodes_get_the_seats_and_the_rendezvous_node_leads() -> None:
    net = settled(names="abcdefg")
    first = net.rafts[leader(net)]
    assert leader(net) == net.best()
    assert {name for name, _ in first.seats} == set(ranking(net.contexts["a"].id, net.names, 5))
    assert first.commit_index == first.record.last, "and nothing is left to decide"  # type: ignore[union-attr]


def test_what_a_majority_has_is_decided_and_what_fewer_have_is_not() -> None:
    net = settled()
    head = leader(net)
    entry = net.propose(head)
    copies = [message for message in net.mail if isinstance(message, AppendEntries)]
    assert {message.to for message in copies} == set(others(net))
    net.mail.clear()
    for copy, enough in zip(copies, (False, True, True, True), strict=True):
        net.deliver(copy)
        net.deliver(net.mail.pop())
        assert (entry in net.agreed.values()) == enough


def test_a_leader_that_is_cut_off_decides_nothing_and_follows_when_it_is_back() -> None:
    net = settled()
    old = leader(net)
    net.apart = {old}
    for name in net.names:
        net.known[name] = {old} if name == old else set(net.names) - {old}
    lost = net.propose(old)
    net.passes(30)
    assert lost not in net.agreed.values()
    (new,) = set(net.leading()) - {old}
    entry = net.propose(new)
    net.passes(1)
    assert entry in net.agreed.values()
    net.calm()
    assert len(net.leading()) == 1
    assert lost not in net.agreed.values()
    assert {raft.commit_index for raft in net.rafts.values()} == {net.rafts[new].commit_index}


def test_on_the_smaller_side_of_a_split_nobody_leads() -> None:
    net = settled()
    small = {leader(net), others(net)[0]}
    net.apart = small
    for name in net.names:
        net.known[name] = small if name in small else set(net.names) - small
    before = net.rafts[leader(net)].term
    net.passes(30)
    assert {seat for (_, term), seat in net.leaders.items() if term > before}.isdisjoint(
        (name, 1) for name in small
    )


def test_an_entry_of_an_earlier_term_is_decided_only_together_with_one_of_this() -> None:
    record = RaftLog(0, 0, THREE)
    record.append(Entry(1))
    one = One("a", record, term=1)
    one.raft.store.entries(one.ctx, one.raft)
    one.raft.stand(one.ctx)
    one.hear(RequestVoteReply, "b", 2, True)
    assert one.raft.leads
    one.hear(AppendEntriesReply, "b", 2, 1, 1, True)
    assert one.raft.commit_index == 0
    one.hear(AppendEntriesReply, "b", 2, 2, 2, True)
    assert one.raft.commit_index == 2


# lives


def test_a_new_life_is_a_stranger_and_its_vote_does_not_count_for_its_old_seat() -> None:
    one = One("a", RaftLog(0, 0, THREE), term=1)
    one.raft.stand(one.ctx)
    one.hear(RequestVoteReply, "b", 2, True, life=2)
    assert not one.raft.leads
    one.hear(RequestVoteReply, "c", 2, True)
    assert one.raft.leads
    new = One("b")
    (answer,) = new.hear(AppendEntries, "a", 2, 0, 0, (), 0, 0)
    assert isinstance(answer, NoSuchLog)


def test_a_seat_whose_node_lives_anew_loses_it_and_the_new_life_gets_one() -> None:
    net = settled()
    name = others(net)[0]
    net.begin(name)
    net.calm()
    assert (name, 2) in net.rafts[leader(net)].seats
    assert (name, 1) not in net.rafts[leader(net)].seats


def test_seats_change_one_at_a_time() -> None:
    net = settled()
    head = leader(net)
    gone = others(net)[:2]
    for name in gone:
        net.begin(name)
        net.known[head].discard(name)
    raft = net.rafts[head]
    before = raft.seats
    net.wake(head)
    net.wake(head)
    assert len(raft.seats) == len(before) - 1, "the first change is not decided"
    net.passes(3)
    assert len(raft.seats) == len(before) - 2


def test_a_change_of_the_seats_is_taken_back_if_the_new_one_dies_before_it_has_a_record() -> None:
    net = settled(names="ab")
    head = leader(net)
    other = "ab".replace(head, "")
    net.begin(other)
    net.known[head].discard(other)
    net.passes(2)
    raft = net.rafts[head]
    assert raft.seats == ((head, 1),)
    net.known[head].add(other)
    while (other, 2) not in raft.seats:
        net.deliver(net.mail.pop(0)) if net.mail else net.wake(head)
    net.mail.clear()
    net.begin(other)
    entry = net.propose(head)
    net.calm()
    assert raft.seats == ((head, 1), (other, 3))
    assert entry in net.agreed.values()


# histories


def test_of_two_histories_the_later_holds() -> None:
    one = One(record=RaftLog(7, 1, THREE), term=4)
    later = (H[0] + 1, "d")
    one.raft.hear(one.ctx, AppendEntries("b", "d", 1, later, 1, 0, 0, (), 0, 0))
    assert isinstance(one.wrote.pop(), NoSuchLog)
    assert one.raft.record is not None, "it is kept until the later one is here"
    one.raft.hear(one.ctx, InstallSnapshot("b", "d", 1, later, 1, 99, 1, THREE, (), 0))
    assert (one.raft.history, one.raft.commit_index) == (later, 99)
    (answer,) = one.hear(RequestVote, "a", 9, 7, 1, False)
    assert isinstance(answer, InstallSnapshot)
    assert answer.history == later


@pytest.mark.parametrize(
    "message",
    [
        NoSuchLog("b", "z", 1, (9, "z"), 1),
        AppendEntries("b", "z", 1, (9, "z"), 1, 7, 1, (), 99, 99),
        InstallSnapshot("b", "z", 1, (9, "z"), 1, 99, 1, THREE, (), 0),
        InstallSnapshot("b", "a", 1, (9, "z"), 1, 99, 1, THREE, (), 2**62),
        RequestVoteReply("b", "a", 1, (9, "z"), 1, True),
        NoSuchLog("b", "a", 1, (9, "z"), 1),
        AppendEntries("b", "a", 1, (9, "z"), 1, 7, 1, (), 99, 99),
        RequestVote("b", "a", 1, (9, "z"), 1, 99, 9, True),
        InstallSnapshot("b", "a", 1, H, 4, 99, 4, THREE, (), 93),
        InstallSnapshot("b", "a", 1, H, 4, 8, 2, THREE, (), 1),
        AppendEntries("b", "a", 1, H, 4, 7, 1, (Entry(3),), 8, 8),
    ],
    ids=lambda message: f"{type(message).__name__} of {message.origin} in {message.history[0]}",
)
def test_no_claim_of_a_letter_ends_a_history_or_what_is_decided_in_it(message: RaftMessage) -> None:
    record = RaftLog(7, 1, THREE)
    record.append(Entry(1, "a/a", 1, 1))
    one = One(record=record, term=4, commit_index=8)
    one.raft.hear(one.ctx, message)
    assert (one.raft.history, one.raft.commit_index) == (H, 8)
    assert one.raft.record is record
    assert record.entry(8).term == 1


def test_a_later_history_is_taken_when_the_log_has_what_the_earlier_decided() -> None:
    record = RaftLog(7, 1, THREE)
    record.append(Entry(1))
    one = One(record=record, term=4, commit_index=8)
    one.raft.store.held, one.raft.store.logged = 8, 7
    welcome = InstallSnapshot("b", "d", 1, (9, "d"), 1, 99, 1, THREE, (), 0)
    one.raft.hear(one.ctx, welcome)
    assert one.raft.record is record
    one.raft.store.logged = 8
    one.raft.hear(one.ctx, welcome)
    assert one.raft.history == (9, "d")


def test_a_seat_that_founds_anew_goes_on_with_all_that_its_record_has() -> None:
    record = RaftLog(7, 1, (("b", 1),), (("a", 1, 4),), 4, ("a", 1, 4))
    for entry in (Entry(1, "a/a", 1, 5), Entry(1, "a/a", 1, 6), Entry(2, voids=9)):
        record.append(entry)
    one = One(record=record, term=2)
    one.raft.store.put(8, parcel("a/a", 5, 1))
    one.raft.found(one.ctx, (50, "z"))
    assert one.raft.leads
    assert one.raft.history > (50, "z")
    after = one.raft.record
    assert after is not None
    assert (after.base, after.number, after.tip) == (one.raft.history[0], 4, ("a", 1, 4))
    assert [each.sequence for each in after.entries(after.base + 1, 2)] == [5, 6]
    assert one.raft.commit_index == after.last
    assert after.void(after.base + 2, one.raft.commit_index)
    assert one.raft.store.held == after.last
    assert after.seats == (("b", 1),)


@pytest.mark.parametrize(
    "message",
    [
        NoSuchLog("b", "a", 2**62, H, 1),
        RequestVote("b", "a", 1, H, 1, 2**60, 1, False),
        AppendEntriesReply("b", "a", 1, H, 1, 2**60, 1, True),
        InstallSnapshot("b", "a", 1, H, 1, 2**60, 1, THREE, (), 0),
        InstallSnapshot("b", "a", 1, H, 1, 9, 1, (("a", 2**62),), (), 0),
        InstallSnapshot("b", "a", 1, H, 1, 9, 1, THREE, (("a", 1, 2**62),), 0),
        AppendEntries("b", "a", 1, H, 1, 9, 1, (Entry(1, "a/a", 2**62, 1),), 9, 9),
        AppendEntries("b", "a", 1, H, 1, 9, 1, (Entry(1, "a/a", 1, 2**62),), 9, 9),
        AppendEntries("b", "a", 1, H, 1, 9, 1, (Entry(1, seats=(("a", 2**62),)),), 9, 9),
        FetchParcels("b", "a", 1, H, 1, (1, 2**62)),
        BootstrapReply("b", "a", 1, H, 1, True, (2**62, "z"), 1, (), ()),
        BootstrapReply("b", "a", 1, H, 1, True, H, 2**60, (), ()),
        BootstrapReply("b", "a", 1, H, 1, True, H, 1, (("a", 2**62),), ()),
    ],
)
def test_numbers_that_cannot_be_true_are_refused(message: RaftMessage) -> None:
    one = One()
    with pytest.raises(ProtocolError):
        one.raft.check(one.ctx, message)


def test_when_too_many_have_forgotten_the_best_record_that_is_left_goes_on_in_a_later_history() -> None:
    net = settled(careful=False)
    head = leader(net)
    history = net.rafts[head].history
    entry = net.propose(head)
    net.passes(2)
    for name in (head, *others(net)[:2]):
        net.begin(name)
    net.calm(60)
    raft = net.rafts[leader(net)]
    assert raft.history > history
    assert len(raft.seats) == 5
    assert raft.record is not None
    assert entry in raft.record.entries(raft.record.base + 1, 10**6), "it was not lost"


def test_no_later_history_begins_while_somebody_knows_more() -> None:
    """One that missed the last change of the seats finds the only other one of its list in a new life."""
    net = Councils("abc")
    head, late, third = ranking(net.contexts["a"].id, net.names, 3)
    net.found(head)
    net.known[head] = net.known[late] = {head, late}
    net.passes(10)
    net.apart = {late}
    net.known[head] = {head, late, third}
    while (third, 1) not in net.rafts[head].seats:
        net.wake(head)
        net.passes(0.1)
    net.propose(head)
    net.passes(2)
    assert net.rafts[late].seats == ((head, 1), (late, 1))
    net.begin(head)
    net.calm()
    assert len({history for history, _ in net.leaders}) == 1
    assert third in dict(net.rafts[leader(net)].seats)


def test_when_all_have_forgotten_a_council_is_founded_anew() -> None:
    net = settled(careful=False)
    first = net.rafts[leader(net)]
    for name in net.names:
        net.begin(name)
    net.calm()
    assert net.rafts[leader(net)].history > first.history


def test_an_index_never_means_two_things_though_the_clock_goes_back() -> None:
    one = One(record=RaftLog(10**9, 1, THREE))
    one.ctx.now = 1
    one.raft.history = (10**9, "a")
    one.raft.found(one.ctx)
    assert one.raft.leads
    assert one.raft.record is not None
    assert one.raft.record.base > 10**9 + 10**6
    assert one.raft.history > (10**9, "a")


# whatever happens


def whole(net: Councils) -> None:
    """However it went, in a calm network there is one leader and entries are decided everywhere."""
    net.calm(120)
    entry = net.propose(leader(net))
    net.passes(3)
    assert entry in net.agreed.values()
    raft = net.rafts[leader(net)]
    for name, _ in raft.seats:
        assert net.rafts[name].commit_index == raft.commit_index


@pytest.mark.parametrize("names", ["abc", "abcd", "abcde"])
@pytest.mark.parametrize("seed", range(20))
def test_nobody_ever_decides_two_different_entries_at_one_index(names: str, seed: int) -> None:
    net = Councils(names)
    net.found(net.best())
    net.play(random.Random(seed).randbytes(3000))
    whole(net)


def test_in_these_runs_enough_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        net = Councils("abcd")
        net.found(net.best())
        net.play(random.Random(seed).randbytes(3000))
        counts += net.counts
    assert counts["elected"] > 30
    assert counts["crashed"] > 60
    assert counts["decided"] > 500


@pytest.mark.parametrize("seed", range(20))
def test_within_one_history_there_is_one_order_though_majorities_forget(seed: int) -> None:
    net = settled(names="abcde"[: 3 + seed % 3], careful=False)
    net.play(random.Random(seed).randbytes(3000))
    whole(net)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=600), st.sampled_from(["abc", "abcde"]), st.booleans())
def test_no_script_makes_two_entries_of_one_index(script: bytes, names: str, fresh: bool) -> None:
    net = Councils(names) if fresh else settled(names=names)
    if fresh:
        net.found(net.best())
    net.play(script)
