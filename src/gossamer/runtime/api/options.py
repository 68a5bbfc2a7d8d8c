"""What a subscriber wishes for: which events, in which order, how many may wait, and who acknowledges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from gossamer.core.errors import BadEnvelope
from gossamer.core.event import Criteria, Value
from gossamer.core.receipt import check_handback
from gossamer.runtime.delivery.acks import Mode, Redelivery
from gossamer.runtime.delivery.overrides import Mapping, check
from gossamer.runtime.delivery.queue import Order

if TYPE_CHECKING:
    from gossamer.runtime.api.channel import Channel

OnFull = Literal["block", "drop_oldest", "drop_newest", "drop_priority", "disconnect"]
MAX_PENDING = 65_536


class Terms(msgspec.Struct, frozen=True):
    """The terms of a subscription; ``Channel.subscribe`` says what each means.

    history
        From which place and instant on the history is wanted; None if it is not.
    answers
        Whether it is about feedback.
    retained
        Whether the last value of the channel comes first.
    """

    where: Criteria | None = None
    max_pending: int = MAX_PENDING
    on_full: OnFull = "block"
    handback: Value | None = None
    callback: Any = None
    order: Order = "arrival"
    ack: Mode = "automatic"
    redelivery: Redelivery | None = None
    dead_letter: Channel | None = None
    mapping: tuple[Mapping, ...] = ()
    durable: str = ""
    history: tuple[int, float] | None = None
    answers: bool = False
    retained: bool = False

    def __post_init__(self) -> None:
        for name, fit in (("on_full", OnFull), ("order", Order), ("ack", Mode)):
            if getattr(self, name) not in get_args(fit):
                raise BadEnvelope(name, getattr(self, name), f"one of {', '.join(get_args(fit))}")
        if not isinstance(self.max_pending, int) or self.max_pending < 1:
            raise BadEnvelope("max_pending", self.max_pending, "a whole number of events, at least 1")
        if self.where is not None and not isinstance(self.where, Criteria):
            raise BadEnvelope("where", self.where, "a Criteria object")
        if self.ack == "none" and (self.redelivery or self.dead_letter or self.durable):
            raise BadEnvelope("ack", "none", "automatic or explicit, where events may come again")
        if self.dead_letter is not None and self.dead_letter.codec is not None:
            raise BadEnvelope("dead_letter", self.dead_letter, "a channel without a codec of its own")
        check(self.mapping)
        check_handback(self.handback)

    @property
    def remembers(self) -> bool:
        """Whether what is handed out has to be remembered until it is acknowledged."""
        again = self.redelivery or self.dead_letter or self.durable
        return self.ack == "explicit" or (self.ack == "automatic" and bool(again))

    def qos(self) -> Iterator[str]:
        """Names of the wishes that are made by them."""
        yield f"order={self.order}"
        yield f"ack={self.ack}"
        yield "pull" if self.callback is None else "push"
        if self.retained:
            yield "retain"
        if self.mapping:
            yield "mapping"
            for _, qos in self.mapping:
                yield from (name for name in ("earliest",) if getattr(qos, name) is not None)
        if self.durable:
            yield "durable"
        if self.history is not None:
            yield "history"
