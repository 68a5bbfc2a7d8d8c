"""An event as its subscriber gets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.core.event import NO_ENVELOPE, Envelope, Value
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Event
from gossamer.core.receipt import Receipt
from gossamer.links import codecs

if TYPE_CHECKING:
    from gossamer.runtime.channel import Channel


class ReceivedEvent(Event, frozen=True, gc=False):
    """An event as its subscriber gets it; answer it with ``await event.feedback(...)``.

    It knows its channel and not its subscription, whose queue it may wait in: the collector does not look
    into events, so a subscription closed before all was read would never be freed.
    """

    channel: Channel
    handback: Value | None

    @property
    def value(self) -> Any:
        """What was published, by the codec that the event names; bytes if it names none.

        Raises UnknownCodec if this program does not know that codec.
        """
        wishes = self.parcel.header.wishes
        return self.payload if wishes is None else codecs.decode(wishes.codec, self.payload)

    @property
    def age(self) -> float:
        """Seconds since it left its source, whose clock may be another."""
        return max(0, self.channel.now() - self.sent) / NANOSECONDS

    @property
    def receipt(self) -> Receipt:
        """Who sent it, its number and the subscription's handback; feedback is addressed by it."""
        return self.channel.receipt(self.parcel.stamp, self.number, self.handback)

    @property
    def place(self) -> int | None:
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


Callback = Callable[[ReceivedEvent], Any]
