"""How a council begins."""

from __future__ import annotations

from gossamer.overlay.council import NONE
from gossamer.overlay.councilwords import Found, Founded
from gossamer.overlay.founding import CALM, GRANT
from gossamer.overlay.rendezvous import ranking

from .councils import Councils


def test_the_rendezvous_node_founds_a_council_and_nobody_else() -> None:
    net = Councils()
    net.calm(20)
    assert set(net.leaders.values()) == {(net.best(), 1)}
    assert len({council.history for council in net.councils.values()}) == 1


def test_nobody_is_asked_before_the_backbone_has_been_the_same_for_a_while() -> None:
    net = Councils()
    first, second = ranking(net.contexts["a"].id, net.names, 2)
    net.known[first] = {first}
    net.foundings[first].start(net.contexts[first])
    net._after(first)
    for number in range(3 * CALM):
        net.known[first] ^= {second} if number % 2 else set()
        net.wake(first, "found")
    assert net.councils[first].history == NONE
    assert not net.mail


def test_nobody_grants_it_to_two_at_once_but_later_to_another() -> None:
    net = Councils("abc")
    ask = {name: Found("c", name, 1, NONE, 0) for name in "ab"}

    def granted(name: str) -> bool:
        net.deliver(ask[name])
        answer = net.mail.pop()
        assert isinstance(answer, Founded)
        return answer.granted

    assert granted("a")
    assert granted("a"), "the answer may have been lost"
    assert not granted("b")
    net.contexts["c"].now += GRANT + 1
    assert granted("b")


def test_none_is_founded_while_a_seat_that_was_told_of_may_live() -> None:
    net = Councils("abc")
    best = net.best()
    other = next(name for name in net.names if name != best)
    net.foundings[other].hear((5, "z"), 7, (("z", 1),))
    net.calm(30)
    assert not net.leaders, "z has not said that it lives anew"
    net.councils[best].lives["z"] = 2
    net.calm(30)
    assert net.councils[best].leads
    assert net.councils[best].history > (5, "z")


def test_the_latest_that_anybody_knows_of_counts() -> None:
    founding = Councils("abc").foundings["a"]
    founding.hear((5, "z"), 7, (("z", 1),))
    founding.hear((5, "z"), 6, (("y", 1),))
    founding.hear((4, "z"), 99, (("x", 1),))
    founding.hear((6, "z"), 1, ())
    assert founding.known == ((5, "z"), 7, (("z", 1),))
