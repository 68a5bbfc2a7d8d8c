"""Bugs planted into ringtree, to show that what its tests look at goes wrong with them."""

from __future__ import annotations

import pytest

from gossamer.core.duplicates import Seen
from gossamer.core.receipt import Stamp
from gossamer.simulator.network.link_models import LinkModel
from gossamer.templates.ringtree import registrar
from gossamer.templates.ringtree import slots as roll
from gossamer.templates.ringtree import template as ringtree
from gossamer.templates.ringtree.regions import Borders
from gossamer.templates.ringtree.slots import Roll
from gossamer.templates.ringtree.template import RingTree
from tests.templates.ringtree.rings import Ring
from tests.templates.ringtree.test_regions import crossings, regions
from tests.templates.ringtree.test_template import DETECTED, after


@pytest.mark.parametrize(
    ("rule", "dead", "lost"),
    [
        (1, ("m7", "m19"), {"m18"}),
        (2, ("m7", "m18"), {"m19"}),
        (3, ("m7", "m8"), {"m19", "m20"}),
    ],
)
def test_members_that_lack_a_rule_lose_just_those_that_it_is_for(
    rule: int, dead: tuple[str, ...], lost: set[str]
) -> None:
    kind = type("Lacking", (RingTree,), {"rules": RingTree.rules - {rule}})
    assert after(*dead).lost() == set()
    assert after(*dead, kind=kind).lost() == lost


def test_a_newcomer_that_is_put_at_the_end_leaves_two_nodes_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Roll, "_nearest_open", lambda self: len(self.slots))
    own = after("m7", "m8", "m18")
    own.add("m100")
    own.join("m100")
    own.run(2.0)
    assert own.lost() == {"m19", "m20"}


def test_a_service_that_tells_only_the_newcomer_of_its_seat_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "aware_of", lambda slot, entries: (slot,))
    own = Ring(28, 16, mend=0.0)
    own.add("m28")
    own.join("m28")
    own.run(3.0)
    assert own.lost() == {"m28"}
    assert own.seats() != own.listed()


def test_members_that_take_every_copy_for_a_new_one_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Seen):
        def add(self, stamp: Stamp) -> bool:
            return True

    monkeypatch.setattr(ringtree, "Seen", Forgetful)
    own = Ring(28, 16, link=LinkModel(duplicate=0.3))
    own.publish()
    assert own.ledger.examples


def test_members_that_do_not_serve_the_seat_they_had_lose_events_when_the_ring_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missed() -> int:
        own = Ring(60, 4, link=LinkModel(jitter=0.2))
        late = [f"p{number}" for number in range(4, 17)]
        own.add(*late)
        for name in late:
            own.offer(name)
        for _ in range(60):
            own.publish(wait=0.02)
        own.run(5.0)
        return sum(60 - len(own.got[f"m{number}"]) for number in range(60))

    assert missed() == 0
    monkeypatch.setattr(ringtree.Member, "_leave_seat", lambda self, ctx: setattr(self, "seat", None))
    assert missed() > 0


def test_a_service_that_does_not_look_after_who_is_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar.Registrar, "_watch", lambda self, name, roll: None)
    own = Ring(7, 1, mend=0.0)
    own.kill("m0")
    own.run(DETECTED)
    assert own.lost() == own.members()


def test_a_server_that_takes_what_crossed_for_its_own_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Borders, "crossed", lambda self, sender: False)
    own = regions()
    own.reached("ep1")
    assert crossings(own) != {("eu", "us"): 1, ("eu", "asia"): 1}
