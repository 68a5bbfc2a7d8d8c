"""Who serves: named servers, the order among them, and how they are written."""

from __future__ import annotations

import pytest

from gossamer.core.context import NODES
from gossamer.core.errors import ConfigError
from gossamer.templates.ringtree.failover import Succession, servers_of
from gossamer.templates.ringtree.template import RingTree
from gossamer.testing.fake import FakeContext


def test_servers_are_written_region_by_region() -> None:
    assert servers_of("eu: e1 e2; us: u1; x1 x2") == {"eu": ("e1", "e2"), "us": ("u1",), "": ("x1", "x2")}
    assert servers_of("") == {}


@pytest.mark.parametrize(
    "text", ["eu:", ": e1", "eu: e1; eu: e2", "eu: a/b", f"{'x' * 65}: a", "eu: " + "a " * 17]
)
def test_servers_that_make_no_sense_are_refused_when_the_channel_is_made(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RingTree.parse({"servers": text})
    assert caught.value.key == "servers" or "servers" in str(caught.value)


def test_the_first_server_that_lives_serves() -> None:
    own = Succession({"": ("a", "b", "c")}, patience=2)
    ctx = FakeContext("x", containers={NODES: {"b": (), "c": (), "x": ()}})
    assert own.serving(ctx) == "b"
    own.doubt("b")
    assert own.serving(ctx) == "c"
    own.trust("b")
    assert own.serving(ctx) == "b"


def test_when_all_are_doubted_the_first_is_asked_again() -> None:
    own = Succession({"": ("a", "b")}, patience=2)
    ctx = FakeContext("x")
    own.doubt("a")
    own.doubt("b")
    assert own.serving(ctx) == "a"


def test_a_server_serves_when_those_before_it_have_been_silent_for_too_long() -> None:
    own = Succession({"": ("a", "b")}, patience=2)
    ctx = FakeContext("b")
    assert own.serving(ctx) == "a"
    for _ in range(3):
        assert own.beat() == ("a",)
    assert own.serving(ctx) == "b"
    own.trust("a")
    assert own.serving(ctx) == "a"


def test_without_names_the_best_matches_of_the_channel_serve() -> None:
    nodes = {f"n{number}": () for number in range(10)}
    served = {Succession({}, 3).serving(FakeContext(name, containers={NODES: nodes})) for name in nodes}
    best = Succession({}, 3).candidates(FakeContext("n0", containers={NODES: nodes}), "")
    assert len(best) == 3
    assert served == {best[0]}
