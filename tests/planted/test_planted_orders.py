"""Bugs planted into total order and its council, to show that checks and scripts catch them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from gossamer.consensus.messages import RequestVote
from gossamer.consensus.node import RaftNode
from gossamer.core.context import Context
from gossamer.core.names import VIRTUAL
from gossamer.core.parcel import Parcel
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import Loss
from gossamer.templates.total_order.template import TotalOrder, TotalOrderSettings
from tests.consensus.clusters import Councils
from tests.templates.worlds import Net


class Impatient(TotalOrder[TotalOrderSettings]):
    """Total order that delivers what comes as it comes."""

    name = "impatient"

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        return True

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        super().in_order(ctx, parcel, sender) if parcel.stamp.node[0] == VIRTUAL else ctx.deliver(
            parcel, sender
        )


class Talkative(TotalOrder[TotalOrderSettings]):
    """Total order whose sequencer tells places that nobody else has written down."""

    name = "talkative"

    def tell_order(self, ctx: Context) -> None:
        raft, leads = self.raft, self.raft.leading
        if raft.record is not None and leads is not None:
            commit_index, raft.commit_index = raft.commit_index, raft.record.last
            leads.told = lambda ctx: raft.commit_index  # type: ignore[method-assign]
            super().tell_order(ctx)
            raft.commit_index = commit_index


class Forgetful(TotalOrder[TotalOrderSettings]):
    """Total order in which whoever takes over begins an order of its own, and the others believe it."""

    name = "forgetful-order"

    def __init__(self, settings: TotalOrderSettings) -> None:
        super().__init__(settings)
        self.raft.contradicted = lambda copy: False  # type: ignore[method-assign]

    def _elected(self, ctx: Context) -> None:
        record = self.raft.record
        assert record is not None
        record.cut(record.base)
        self.raft.commit_index = self.raft.settled = record.base
        super()._elected(ctx)


def broken(template: type[TotalOrder[Any]], seed: int) -> set[str]:
    """The promises broken when a sequencer that is busy is cut off for a while and comes back."""
    edges = [("b", each) for each in "acde"]
    net = Net(template, edges, {"patience": 1.0}, seed=seed, link=LinkModel(jitter=0.05, loss=0.2))
    net.subscribe("abcde")
    net.publish("a", 1, start=1.0)
    net.world.run(10)
    heads = [node for node in "abcde" if net.at(node).raft.leads]
    for source in "abcde":
        net.publish(source, 60, start=10.0 + ord(source) / 1000, every=0.1)
    net.world.add_rule(Loss(senders=tuple(heads), start=12.0, end=20.0))
    net.world.add_rule(Loss(receivers=tuple(heads), start=12.0, end=20.0))
    net.world.run(60)
    net.ledger.finish(net.world, 30)
    return {violation.promise for violation in net.ledger.examples}


def test_without_a_bug_no_promise_is_broken() -> None:
    assert [broken(TotalOrder, seed) for seed in range(1, 5)] == [set()] * 4


@pytest.mark.parametrize("planted", [Impatient, Talkative, Forgetful], ids=lambda each: each.name)
def test_the_check_of_one_order_catches(planted: type[TotalOrder[Any]]) -> None:
    assert "total-order" in set().union(*(broken(planted, seed) for seed in range(1, 5)))


class Alone(RaftNode):
    """A council whose leader decides by itself."""

    def _decide(self, ctx: Context) -> None:
        assert self.record is not None
        if self.record.term(self.written) == self.term:
            self.commit_index = max(self.commit_index, self.written)


class Lenient(RaftNode):
    """A council whose seats vote for any record."""

    def _ask(self, ctx: Context, ask: RequestVote) -> None:
        super()._ask(ctx, msgspec.structs.replace(ask, index=2**60, index_term=2**60))


class Fickle(RaftNode):
    """A council whose seats vote for whoever asks last."""

    def _ask(self, ctx: Context, ask: RequestVote) -> None:
        if ask.term == self.term:
            self.voted = ""
        super()._ask(ctx, ask)


class Undying(RaftNode):
    """A council in which a new life sits on the seat of the one before, though it has forgotten all."""

    def life(self, ctx: Context) -> int:
        return 1


@pytest.mark.parametrize("planted", [Alone, Lenient, Fickle, Undying])
def test_scripts_catch(planted: type[RaftNode]) -> None:
    def runs() -> None:
        for seed in range(200):
            net = Councils("abc", raft=planted)
            net.found(net.best())
            net.play(random.Random(seed).randbytes(4000))

    with pytest.raises(AssertionError, match=r"somebody had|two lead|more is decided than there is"):
        runs()
