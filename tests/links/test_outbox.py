"""What waits on a connection leaves by priority, and among those alike in the order in which it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.control import Control
from gossamer.core.event import DEFAULT_PRIORITY, QoS
from gossamer.core.parcel import Parcel
from gossamer.links.outbox import Outbox
from gossamer.testing.fake import parcel


@given(st.lists(st.integers(0, 9)))
def test_the_most_important_leaves_first_and_then_the_first_that_came(priorities: list[int]) -> None:
    outbox = Outbox()
    for number, priority in enumerate(priorities):
        outbox.put(parcel("s", number + 1, qos=QoS(priority)), 10)
    assert outbox.bytes == 10 * len(priorities)
    left = [item for item in outbox.clear() if isinstance(item, Parcel)]
    came = [(each.qos.priority, each.stamp.sequence) for each in left]
    assert came == sorted(came, key=lambda each: (-each[0], each[1]))
    assert len(came) == len(priorities)
    assert not outbox
    assert outbox.bytes == 0


def test_what_is_said_stays_in_order_with_ordinary_parcels() -> None:
    outbox, word = Outbox(), Control(1, None, b"")
    low, ordinary, high = (parcel("s", 1, qos=QoS(each)) for each in (1, DEFAULT_PRIORITY, 7))
    for item in (low, ordinary, word, high):
        outbox.put(item, 1)
    assert outbox.clear() == [high, ordinary, word, low]
