"""How a council begins."""

from __future__ import annotations

from gossamer.consensus.bootstrap import CALM, GRANT
from gossamer.consensus.messages import BootstrapReply, BootstrapRequest
from gossamer.consensus.node import NONE
from gossamer.overlay.groups.rendezvous import ranking
from tests.consensus.clusters import Councils


def test_the_rendezvous_node_founds_a_council_and_nobody_else() -> None:
    net = Councils()
    net.calm(20)
    assert set(net.leaders.values()) == {(net.best(), 1)}
    assert len({raft.history for raft in net.rafts.values()}) == 1


def test_nobody_is_asked_before_the_backbone_has_been_the_same_for_a_while() -> None:
    net = Councils()
    first, second = ranking(net.contexts["a"].id, net.names, 2)
    net.known[first] = {first}
    net.foundings[first].start(net.contexts[first])
    net._after(first)
    for number in range(3 * CALM):
        net.known[first] ^= {second} if number % 2 else set()
        net.wake(first, "found")
    assert net.rafts[first].history == NONE
    assert not net.mail


def test_nobody_grants_it_to_two_at_once_but_later_to_another() -> None:
    net = Councils("abc")
    first, second, third = ranking(net.contexts["a"].id, net.names, 3)
    net.known[third] = {third}

    def granted(name: str) -> bool:
        net.deliver(BootstrapRequest(third, name, 1, NONE, 0))
        answer = net.mail.pop()
        assert isinstance(answer, BootstrapReply)
        return answer.granted

    assert granted(second)
    assert granted(second), "the answer may have been lost"
    assert not granted(first)
    net.contexts[third].now += GRANT + 1
    assert granted(first)
    net.known[third] = set(net.names)
    net.contexts[third].now += GRANT + 1
    assert not granted(second), "the first is a better match"


def test_none_is_founded_while_a_seat_that_was_told_of_may_live() -> None:
    net = Councils("abc")
    best = net.best()
    other = next(name for name in net.names if name != best)
    net.foundings[other].hear((5, "z"), 7, (("z", 1),))
    net.calm(30)
    assert not net.leaders, "z has not said that it lives anew"
    net.rafts[best].lives["z"] = 2
    net.calm(30)
    assert net.rafts[best].leads
    assert net.rafts[best].history > (5, "z")


def test_the_latest_that_anybody_knows_of_counts() -> None:
    bootstrap = Councils("abc").foundings["a"]
    bootstrap.hear((5, "z"), 7, (("z", 1),))
    bootstrap.hear((5, "z"), 6, (("y", 1),))
    bootstrap.hear((4, "z"), 99, (("x", 1),))
    bootstrap.hear((6, "z"), 1, ())
    assert bootstrap.known == ((5, "z"), 7, (("z", 1),))


def test_who_should_have_met_others_and_has_not_founds_none() -> None:
    net = Councils("abc")
    best = net.best()
    net.known[best], net.lost = {best}, {best}
    net.passes(30)
    assert net.rafts[best].history == NONE
    net.lost = set()
    net.calm(30)
    assert net.rafts[best].leads


def test_those_are_asked_too_whom_only_others_know() -> None:
    net = Councils("abc")
    first, second, third = ranking(net.contexts["a"].id, net.names, 3)
    net.foundings[third].hear((5, "z"), 7, (("z", 1),))
    net.known[first] = {first, second}
    net.passes(30)
    assert not net.leaders, "the third knows of a council"
    assert net.foundings[first].known == ((5, "z"), 7, (("z", 1),))


def test_a_better_match_that_others_know_of_is_left_to_found_it() -> None:
    net = Councils("abc")
    first, second, third = ranking(net.contexts["a"].id, net.names, 3)
    net.known[second] = {second, third}
    net.foundings[second].start(net.contexts[second])
    net._after(second)
    for _ in range(CALM + 3):
        net.wake(second, "found")
        while net.mail:
            net.deliver(net.mail.pop(0))
    assert net.rafts[second].history == NONE
    net.calm(30)
    assert net.rafts[first].leads
