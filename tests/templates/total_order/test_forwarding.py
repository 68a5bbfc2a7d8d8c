"""Letters that pass through other nodes."""

from __future__ import annotations

from gossamer.consensus.messages import NoSuchLog, TimeoutNow
from gossamer.consensus.node import NONE
from gossamer.templates.total_order.forwarding import MAX_KEPT, Post, Relay, Relayed
from gossamer.testing.fake import FakeContext


def message(to: str, origin: str = "a", term: int = 0) -> TimeoutNow:
    return TimeoutNow(to, origin, 1, NONE, term)


class Desk:
    """A node with a neighbour b; everybody else is behind it."""

    def __init__(self) -> None:
        self.ctx = FakeContext("a")
        self.hop = "b"
        self.post = Post(lambda ctx, message: message.to if message.to == "c" else self.hop, 0.5)

    def sent(self) -> list[tuple[str, object]]:
        sent: list[tuple[str, object]] = list(self.ctx.sent())
        self.ctx.clear()
        return sent


def test_to_a_neighbour_a_letter_goes_just_so_and_once() -> None:
    desk = Desk()
    desk.post.send(desk.ctx, message("c"))
    assert desk.ctx.woken() == {}
    assert desk.sent() == [("c", message("c"))]


def test_what_passes_through_others_is_said_again_until_the_next_hop_has_taken_it_over() -> None:
    desk = Desk()
    desk.post.send(desk.ctx, message("z"))
    assert desk.ctx.woken() == {"post": 500_000_000}
    ((_, relay),) = desk.sent()
    assert isinstance(relay, Relay)
    desk.post.timer(desk.ctx)
    assert desk.sent() == [("b", relay)]
    desk.post.taken(Relayed(relay.number), "x")
    desk.post.timer(desk.ctx)
    assert desk.sent() == [("b", relay)], "whoever it was not sent to takes nothing over"
    desk.post.taken(Relayed(relay.number), "b")
    desk.post.timer(desk.ctx)
    assert desk.ctx.effects == []


def test_of_letters_of_one_kind_between_two_nodes_only_the_newest_is_kept() -> None:
    desk = Desk()
    for term in (1, 2):
        desk.post.send(desk.ctx, message("z", term=term))
    desk.post.send(desk.ctx, NoSuchLog("z", "a", 1, NONE, 1))
    desk.sent()
    desk.post.timer(desk.ctx)
    kept = [relay.message for _, relay in desk.sent() if isinstance(relay, Relay)]
    assert kept == [message("z", term=2), NoSuchLog("z", "a", 1, NONE, 1)]


def test_what_waits_goes_another_way_when_the_way_changes() -> None:
    desk = Desk()
    desk.post.send(desk.ctx, message("z"))
    desk.sent()
    desk.hop = "d"
    desk.post.timer(desk.ctx)
    assert [to for to, _ in desk.sent()] == ["d"]


def test_no_more_is_kept_than_fits_and_the_oldest_goes_first() -> None:
    desk = Desk()
    for number in range(MAX_KEPT + 3):
        desk.post.send(desk.ctx, message(f"z{number}"))
    desk.sent()
    desk.post.timer(desk.ctx)
    kept = [relay.message.to for _, relay in desk.sent() if isinstance(relay, Relay)]
    assert len(kept) == MAX_KEPT
    assert kept[0] == "z3"
