"""Subscriptions that are kept while nobody is there, and move: complete, causal, nothing twice."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gossamer.core.context import NODES, TREE
from gossamer.core.control import Control
from gossamer.core.effect import Reply
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS
from gossamer.core.operations import ForgetSession, KeepSession, SessionDone
from gossamer.core.tree import Tree
from gossamer.core.wire import decode, decode_message, encode
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.session_messages import Claim, Filled, Outrun, Passed
from gossamer.templates.dispatch.template import Dispatch
from gossamer.testing.fake import FakeContext, parcel
from tests.templates.dispatch.histories import History
from tests.templates.worlds import CHANNEL, Net

EDGES = [("A", "B"), ("A", "C"), ("B", "D")]


class Moving(Net):
    """A hierarchy below A in which one subscription is kept as "ann"."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(Dispatch, EDGES, {"root": "A", **settings}, below={"c": "C"})
        self.replies: list[Reply] = []
        self.place = 0
        self.settle()

    def settle(self) -> None:
        self.world.run(self.world.now + 5)

    def come(self, node: str, after: int = 0) -> int:
        number = self.world.subscribe(node, CHANNEL, Criteria())
        self.world.call(node, CHANNEL, KeepSession(number, "ann", after), self.replies.append)
        self.settle()
        return number

    def go(self, node: str, number: int, done: int = 0) -> None:
        if done:
            self.world.call(node, CHANNEL, SessionDone("ann", (done, 0)), lambda reply: None)
        self.world.unsubscribe(node, CHANNEL, number)
        self.settle()

    def lost(self) -> int:
        """How many parcels were told as lost, at least."""
        return sum(reply.value[1] for reply in self.replies if reply.value)

    def send(self, node: str = "A", count: int = 1) -> None:
        self.publish(node, count)
        self.settle()


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_random_history_is_complete_causal_and_has_nothing_twice(seed: int) -> None:
    history = History(seed).run()
    assert not history.wrong
    assert history.moves > len(history.objects)
    assert all(each.got for each in history.objects)


@pytest.mark.parametrize(("here", "there"), [("D", "D"), ("D", "C"), ("D", "c"), ("c", "D"), ("A", "B")])
def test_what_comes_while_nobody_is_there_is_kept_for_who_comes_back(here: str, there: str) -> None:
    net = Moving()
    number = net.come(here)
    net.send()
    net.go(here, number, done=1)
    net.send(count=3)
    net.come(there)
    net.send()
    assert net.got[here, "A"] + (net.got[there, "A"] if there != here else []) == [1, 2, 3, 4, 5]
    assert [reply.value for reply in net.replies] == [((-1, -1), 0), ((1, 0), 0)]


def test_what_was_not_done_comes_again_unless_who_comes_remembers_it() -> None:
    net = Moving()
    number = net.come("D")
    net.send(count=2)
    net.go("D", number, done=1)
    number = net.come("C")
    assert net.got["C", "A"] == [2]
    net.go("C", number)
    net.come("B", after=2)
    assert net.got["B", "A"] == []


def test_too_much_pushes_out_the_oldest_and_who_comes_back_hears_how_much() -> None:
    net = Moving(kept=3)
    number = net.come("D")
    net.go("D", number)
    net.send(count=5)
    net.come("C")
    assert net.got["C", "A"] == [3, 4, 5]
    assert net.replies[-1].value == ((-1, -1), 2)
    assert net.world.drops["kept no longer"] == 2


def test_who_does_not_come_back_for_long_is_given_up() -> None:
    net = Moving(absence=30.0)
    number = net.come("D")
    net.go("D", number)
    net.send()
    net.world.run(net.world.now + 60)
    assert not net.at("D").keeping.boxes
    assert not net.at("B").telling.said["D"].table, "nobody there wants anything any more"


def test_what_is_forgotten_is_not_kept() -> None:
    net = Moving()
    number = net.come("c")
    net.go("c", number)
    net.world.call("c", CHANNEL, ForgetSession("ann"), lambda reply: None)
    net.settle()
    net.send()
    net.come("D")
    assert net.got["D", "A"] == []


def test_who_comes_elsewhere_takes_over_and_the_first_is_told() -> None:
    net = Moving()
    net.come("c")
    net.come("D")
    assert [str(reply.error) for reply in net.replies if reply.error] == [
        "the subscription kept as 'ann', which somebody has taken over elsewhere is closed: open it again"
    ]
    net.send()
    assert (net.got["c", "A"], net.got["D", "A"]) == ([], [1])


def test_a_long_backlog_moves_in_pieces() -> None:
    net = Moving()
    number = net.come("D")
    net.go("D", number)
    net.publish("A", 500, every=0.001)
    net.settle()
    net.come("c")
    net.settle()
    assert net.got["c", "A"] == list(range(1, 501))


def two_that_meet() -> list[int]:
    """What is got at C of two events, if C does not know at first that A, where one was kept, is above it."""
    net = Moving()
    net.go("A", net.come("A"))
    net.send()
    net.world.set("C", TREE, Tree([("B", "C"), ("C", "A")]))
    net.world.set("C", NODES, {"C": ()})
    number = net.world.subscribe("C", CHANNEL, Criteria())
    net.world.call("C", CHANNEL, KeepSession(number, "ann"), net.replies.append)
    net.settle()
    net.world.set("C", NODES, dict.fromkeys("ABCD", ()))
    net.world.set("C", TREE, Tree(EDGES))
    net.send()
    return net.got["C", "A"]


def test_a_dispatcher_that_has_not_found_the_others_lets_who_comes_wait() -> None:
    assert two_that_meet() == [1, 2]


def test_what_comes_meanwhile_does_not_push_out_what_is_on_its_way() -> None:
    net = Moving(kept=3)
    net.go("D", net.come("D"))
    net.send(count=3)
    number = net.world.subscribe("C", CHANNEL, Criteria())
    net.world.call("C", CHANNEL, KeepSession(number, "ann"), net.replies.append)
    net.publish("A", 2)
    net.settle()
    assert net.got["C", "A"][-3:] == [3, 4, 5]
    (_, lost) = net.replies[-1].value
    assert len(net.got["C", "A"]) + lost == 5


def test_who_publishes_waits_until_its_subscription_has_come() -> None:
    net = Moving()
    number = net.come("D")
    net.go("D", number)
    number = net.world.subscribe("C", CHANNEL, Criteria())
    net.world.call("C", CHANNEL, KeepSession(number, "ann"), lambda reply: None)
    assert "'ann'" in str(net.obstacle("C"))
    net.settle()
    assert net.obstacle("C") is None


def test_a_dispatcher_on_the_way_that_begins_anew_learns_where_boxes_are() -> None:
    net = Moving()
    number = net.come("D")
    net.go("D", number)
    net.send()
    net.world.crash("B")
    net.world.run(net.world.now + 2)
    net.world.restart("B")
    net.settle()
    net.come("C")
    net.world.run(net.world.now + 60)
    assert net.got["C", "A"] == [1]


def test_what_is_kept_on_disk_is_there_in_the_next_life_and_moves_from_there() -> None:
    net = Moving(disk=True)
    number = net.come("D")
    net.send(count=2)
    net.go("D", number, done=1)
    net.send(count=2)
    net.world.crash("D")
    net.world.run(net.world.now + 2)
    net.world.restart("D")
    net.settle()
    net.send()
    net.come("C")
    assert net.got["C", "A"] == [2, 3, 4, 5]
    assert not net.at("D").keeping.boxes
    net.world.crash("D")
    net.world.restart("D")
    net.settle()
    assert not net.at("D").keeping.boxes, "it has gone from the disk too"


def test_without_a_disk_a_new_life_begins_with_nothing() -> None:
    net = Moving()
    net.go("D", net.come("D"))
    net.send()
    net.world.crash("D")
    net.world.restart("D")
    net.settle()
    net.come("D")
    assert net.got["D", "A"] == []


@pytest.mark.parametrize("disk", [False, True])
def test_a_client_whose_dispatcher_begins_anew_gets_what_comes_then(disk: bool) -> None:
    net = Moving(disk=disk)
    net.come("c")
    net.send(count=5)
    net.world.crash("C")
    net.world.run(net.world.now + 2)
    net.world.restart("C")
    net.world.run(net.world.now + 60)
    net.send(count=3)
    assert net.got["c", "A"] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_who_comes_before_the_disk_is_read_waits_for_it() -> None:
    net = Moving(disk=True)
    net.go("D", net.come("D"))
    net.send()
    net.world.crash("D")
    net.world.restart("D")
    assert "on disk" in str(net.obstacle("D"))
    net.come("D")
    assert net.got["D", "A"] == [1]


# two copies, and what came while a dispatcher was down


def cut(net: Moving, *sides: str) -> None:
    """Dispatchers know only those on their side; all are on one again if there is one side."""
    for side in sides:
        for node in side:
            net.world.set(node, NODES, dict.fromkeys(side, ()))
            net.world.set(node, TREE, Tree(edge for edge in EDGES if set(edge) <= set(side)))
    net.settle()


@pytest.mark.parametrize("there", ["C", "c"])
def test_two_copies_after_a_partition_are_merged(there: str) -> None:
    net = Moving()
    number = net.come("D")
    net.send(count=2)
    net.go("D", number, done=2)
    cut(net, "AC", "BD")
    net.come(there, after=2)
    net.send("A", 3)
    net.send("B", 2)
    cut(net, "ABCD")
    net.world.run(net.world.now + 60)
    net.send("A")
    net.send("B")
    assert net.got[there, "A"] == [3, 4, 5, 6]
    assert net.got[there, "B"] == [1, 2, 3]
    assert not net.at("D").keeping.boxes
    assert not any(reply.error for reply in net.replies)
    assert net.lost() == 1, "nobody could know on that side what was kept on the other"


def test_the_copy_whose_subscriber_came_last_gets_what_the_other_has() -> None:
    net = Moving()
    number = net.come("C")
    cut(net, "AC", "BD")
    there = net.come("D")
    net.go("C", number)
    net.send("A", 2)
    cut(net, "ABCD")
    net.world.run(net.world.now + 60)
    net.send("B")
    assert (net.got["D", "A"], net.got["D", "B"]) == ([1, 2], [1])
    assert not net.at("C").keeping.boxes
    net.go("D", there)
    net.send("A")
    net.come("B")
    assert net.got["B", "A"][-1] == 3


def test_what_an_older_copy_has_too_late_is_told_as_lost() -> None:
    net = Moving(disk=True)
    number = net.come("D")
    net.go("D", number)
    net.send(count=2)
    net.world.crash("D")
    cut(net, "ABC")
    net.come("C")
    net.send()
    net.world.restart("D")
    cut(net, "ABCD")
    net.world.run(net.world.now + 60)
    net.send()
    assert net.got["C", "A"] == [3, 4], "the first two would come after what may depend on them"
    assert net.lost() >= 2
    assert not net.at("D").keeping.boxes


def test_what_an_older_copy_has_comes_first_if_nothing_has_come_since() -> None:
    net = Moving(disk=True)
    number = net.come("D")
    net.go("D", number)
    net.send(count=2)
    net.world.crash("D")
    cut(net, "ABC")
    net.come("C")
    net.world.restart("D")
    cut(net, "ABCD")
    net.world.run(net.world.now + 60)
    net.send()
    assert net.got["C", "A"] == [1, 2, 3]


def test_what_comes_while_its_dispatcher_is_down_is_told_as_a_gap() -> None:
    net = Moving(disk=True)
    number = net.come("D")
    net.send()
    net.go("D", number, done=1)
    net.world.crash("D")
    cut(net, "ABC")
    net.send(count=2)
    net.world.restart("D")
    cut(net, "ABCD")
    net.come("D")
    net.send()
    assert net.got["D", "A"][-1] == 4
    assert net.lost() >= 1


@pytest.mark.parametrize("after", [2**61, 2**62, 2**63])
@pytest.mark.parametrize("there", ["D", "c"])
def test_a_box_that_begins_at_the_farthest_place_still_moves(there: str, after: int) -> None:
    net = Moving()
    net.go(there, net.come(there, after=after))
    net.send(count=2)
    net.come("B")
    net.send()
    assert net.got["B", "A"] == [1, 2, 3]
    box = net.at("B").keeping.boxes["ann"]
    assert not box.claim
    assert decode_message(
        decode(encode(Control(5, Passed(1, 1, Filled("B", 1, box.next))))), Dispatch.decoder()
    )


# what was kept by a dispatcher that is lost


def lose(net: Moving, node: str, *rest: str, noticed: bool = True) -> None:
    """A dispatcher goes down and begins anew; meanwhile three events are published by those that remain."""
    net.world.crash(node)
    if noticed:
        cut(net, *rest)
    net.send("A" if node != "A" else "B", 3)
    net.world.restart(node)
    cut(net, "ABCD")


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("there", ["D", "B", "A", "C", "c"])
def test_what_a_lost_dispatcher_kept_is_told_as_a_gap_to_a_subscriber_that_remembers_nothing(
    there: str, noticed: bool
) -> None:
    net = Moving()
    net.go("D", net.come("D"))
    net.send(count=2)
    lose(net, "D", "ABC", noticed=noticed)
    net.come(there)
    net.send()
    assert net.got[there, "A"] == [6]
    assert net.lost() >= 1


@pytest.mark.parametrize("there", ["A", "B", "C"])
def test_what_a_lost_root_kept_is_told_as_a_gap(there: str) -> None:
    net = Moving()
    net.go("A", net.come("A"))
    net.send("B", 2)
    lose(net, "A", "BD", "C")
    net.come(there)
    net.send("B")
    assert net.got[there, "B"][-1] == 6
    assert net.lost() >= 1


def test_a_gap_is_told_although_the_root_begins_anew_after_the_dispatcher_that_kept() -> None:
    net = Moving()
    net.go("D", net.come("D"))
    lose(net, "D", "ABC")
    lose(net, "A", "BD", "C")
    net.come("C")
    assert net.lost() >= 1


def test_a_gap_is_told_late_to_a_subscriber_that_came_before_its_dispatcher_found_the_one_above() -> None:
    net = Moving()
    net.go("D", net.come("D"))
    net.world.crash("D")
    cut(net, "ABC")
    net.send(count=3)
    net.world.restart("D")
    cut(net, "ABC", "D")
    net.come("D")
    assert net.lost() == 0, "it knows of no other dispatcher"
    cut(net, "ABCD")
    assert net.lost() >= 1


@pytest.mark.parametrize("there", ["D", "C", "A"])
def test_what_was_forgotten_before_its_dispatcher_was_lost_is_no_gap(there: str) -> None:
    net = Moving()
    net.go("D", net.come("D"))
    net.world.call("D", CHANNEL, ForgetSession("ann"), lambda reply: None)
    net.settle()
    lose(net, "D", "ABC")
    net.come(there)
    assert net.lost() == 0


def test_what_was_kept_and_is_recovered_from_another_dispatcher_is_no_gap() -> None:
    net = Moving()
    net.go("D", net.come("D"))
    net.go("C", net.come("C"))
    net.send(count=2)
    lose(net, "D", "ABC")
    net.come("D")
    assert net.got["D", "A"] == [1, 2, 3, 4, 5]
    assert net.lost() == 0


def test_a_new_subscription_made_while_its_dispatcher_begins_anew_is_told_no_gap() -> None:
    net = Moving()
    net.world.crash("D")
    cut(net, "ABC")
    net.world.restart("D")
    number = net.world.subscribe("D", CHANNEL, Criteria())
    net.world.call("D", CHANNEL, KeepSession(number, "ann"), net.replies.append)
    cut(net, "ABCD")
    net.settle()
    assert [reply.value for reply in net.replies] == [((-1, -1), 0)]


def test_a_box_that_leaves_while_an_older_copy_is_claimed_leaves_the_merging_to_its_new_place() -> None:
    net = Moving()
    net.go("B", net.come("B"))
    keeping = net.at("B").keeping
    ctx = FakeContext("B", rng=Random(1), now=NANOSECONDS)
    keeping.merge(ctx, "ann")
    (serial,) = keeping._sought
    assert keeping.answer(ctx, Claim("ann", "C", 77, 2**60))
    keeping.outrun(ctx, Outrun("B", serial))
    assert not keeping._sought


def test_parcels_on_their_way_are_sent_again_after_a_merge() -> None:
    net = Moving()
    net.come("c")
    keeping = net.at("C").keeping
    box = keeping.boxes["ann"]
    ctx = FakeContext("C", rng=Random(1), now=NANOSECONDS)
    for number in range(1, 6):
        keeping.keep(ctx, box, parcel("A", number, number))
    copy = Box("ann", Criteria(), 1)
    keeping._merge(ctx, box, copy, Filled("C", 1))
    assert (box.owner.sent, box.owner.got) == (5, 0)
