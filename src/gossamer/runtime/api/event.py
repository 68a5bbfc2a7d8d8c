"""An event as its subscriber gets it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from gossamer.core.body import Body
from gossamer.core.event import NO_ENVELOPE, Envelope, Value
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Event, Parcel
from gossamer.core.receipt import Receipt
from gossamer.links import codecs

if TYPE_CHECKING:
    from gossamer.runtime.api.channel import Channel


class Delivered(Parcel):
    """A parcel as one subscription gets it: what is the same for all its events is said once.

    It holds what was inside and no longer the body that this was in, so it cannot be sent.
    """

    __slots__ = ("channel", "handback")

    def __init__(self, parcel: Parcel, channel: Channel, handback: Value | None) -> None:
        gone = Body.__new__(Body)
        gone.size = parcel.size
        super().__init__(parcel.header, gone)
        self._payloads, self._attributes, self.place = parcel.payloads, parcel.attributes, parcel.place
        self.channel = channel
        self.handback = handback


class ReceivedEvent(Event, frozen=True, gc=False):
    """An event as its subscriber gets it; answer it with ``await event.feedback(...)``.

    It knows its channel and not its subscription, whose queue it may wait in: the collector does not look
    into events, so a subscription closed before all was read would never be freed.
    """

    parcel: Delivered

    @property
    def channel(self) -> Channel:
        """The channel that it came on."""
        return self.parcel.channel

    @property
    def handback(self) -> Value | None:
        """The value that the subscription gave."""
        return self.parcel.handback

    @property
    def value(self) -> Any:
        """What was published, by the codec that the event names; bytes if it names none.

        Raises UnknownCodec if this program does not know that codec.
        """
        qos = self.parcel.header.qos
        return self.payload if qos is None else codecs.decode(qos.codec, self.payload)

    @property
    def age(self) -> float:
        """Seconds since it left its source, whose clock may be another."""
        return max(0, self.channel.now() - self.sent) / NANOSECONDS

    @property
    def receipt(self) -> Receipt:
        """Who sent it, its number and the subscription's handback; feedback is addressed by it."""
        return self.channel.receipt(self.parcel.stamp, self.number, self.parcel.handback)

    @property
    def offset(self) -> int | None:
        """The number of its parcel in the one order of its channel, where there is one: from 0, without
        gaps, the same for all subscribers.
        """
        return self.parcel.place

    @property
    def answers(self) -> int | None:
        """For feedback: the number of the event that it answers."""
        answers = self.parcel.header.answers
        return answers.number if answers else None

    async def feedback(self, payload: Any = b"", envelope: Envelope = NO_ENVELOPE) -> Receipt:
        """Answer the source of this event, and nobody else."""
        return await self.channel.feedback(self.receipt, payload, envelope)


_INDEXES = tuple(range(4096))
"""Numbers that need not be made anew for each parcel."""


def opened(
    parcel: Parcel, picks: tuple[int, ...] | None, channel: Channel, handback: Value | None
) -> list[ReceivedEvent]:
    """The events of a parcel, all or some, for one subscription; one step for all of them."""
    payloads, mine = parcel.payloads, Delivered(parcel, channel, handback)
    if picks is not None:
        return [ReceivedEvent(mine, pick, payloads[pick]) for pick in picks]
    indexes = range(len(payloads)) if len(payloads) > len(_INDEXES) else _INDEXES
    return list(map(ReceivedEvent, repeat(mine), indexes, payloads))


Callback = Callable[[ReceivedEvent], Any]
