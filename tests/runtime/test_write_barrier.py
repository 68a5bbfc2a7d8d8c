"""Gates: what waits for the disk, in which order it goes on, and what does not wait."""

from __future__ import annotations

from gossamer.core.control import Control
from gossamer.core.effect import Deliver, Reply, Send, Wake
from gossamer.core.wire import Item
from gossamer.runtime.write_barrier import Gates
from gossamer.templates.total_order.forwarding import Relayed

CHANNEL, OTHER = 7, 8


def send(number: int, channel: int = CHANNEL) -> Send:
    return Send(("peer",), Control(channel, Relayed(number)))


def always(channel: int, item: Item) -> bool:
    return True


def test_what_follows_a_value_waits_for_it_and_goes_on_in_order() -> None:
    gates = Gates(always)
    assert not gates.holds(send(0), None, 0)
    first = gates.close(CHANNEL)
    assert gates.holds(one := send(1), None, 0)
    second = gates.close(CHANNEL)
    assert gates.holds(two := send(2), None, 0)
    assert gates.open(CHANNEL, first) == [(one, None)]
    assert gates.channels == (CHANNEL,)
    assert gates.open(CHANNEL, second) == [(two, None)]
    assert gates.channels == ()


def test_timers_and_other_channels_do_not_wait() -> None:
    gates = Gates(always)
    gates.close(CHANNEL)
    assert not gates.holds(Wake(CHANNEL, "beat", 1), None, 0)
    assert not gates.holds(send(1, OTHER), None, 0)
    assert gates.holds(Reply(1, None, None), None, CHANNEL), "an answer waits for what was stored before it"


def test_what_a_template_only_passes_on_does_not_wait() -> None:
    asked: list[int] = []

    def waits(channel: int, item: Item) -> bool:
        asked.append(channel)
        return False

    gates = Gates(waits)
    gates.close(CHANNEL)
    assert not gates.holds(send(1), None, 0)
    assert asked == [CHANNEL]
    assert gates.holds(Deliver(CHANNEL, 1, None, None, None), None, 0)  # type: ignore[arg-type]
