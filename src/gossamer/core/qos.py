"""Quality of service: the options, where each may be given, and which templates support it.

An option is given on a channel, a subscription or an event; the narrower wins. An option that the template
of the channel does not support is refused at once. Whether a template supports an option follows from its
promises: this module knows no template by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gossamer.core.errors import BadEnvelope, UnsupportedQoS
from gossamer.core.event import NO_QOS, QoS
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, DURABLE, GAP_FREE, TOTAL_ORDER, Template

CHANNEL, SUBSCRIPTION, EVENT = "channel", "subscription", "event"
ORDERED = frozenset({GAP_FREE, CAUSAL, TOTAL_ORDER})
"""Promises that leave nobody free to put one event before another."""


class Option(msgspec.Struct, frozen=True):
    """One option of quality of service.

    on
        Where it can be given.
    needs
        Promises without which it cannot be kept.
    bars
        Promises with which it cannot be kept.
    keeps
        Whether templates that keep subscriptions can keep it as well.
    together
        Whether it needs parcels that may hold different events, which content-based templates take apart.
    """

    name: str
    on: tuple[str, ...]
    meaning: str
    needs: frozenset[str] = frozenset()
    bars: frozenset[str] = frozenset()
    keeps: bool = False
    together: bool = False

    def supported_by(self, template: type[Template[Any]]) -> bool:
        """Whether a template can keep it."""
        if self.together and template.content_based:
            return False
        if self.keeps and template.keeps:
            return True
        return self.needs <= template.promises and not self.bars & template.promises


_ALL = (
    Option("reliability=at-most-once", (CHANNEL,), "nothing twice", needs=frozenset({AT_MOST_ONCE})),
    Option("reliability=at-least-once", (CHANNEL,), "nothing missing", needs=frozenset({GAP_FREE})),
    Option(
        "reliability=exactly-once",
        (CHANNEL,),
        "nothing missing and nothing twice, also across restarts of a durable subscription",
        needs=frozenset({GAP_FREE, DURABLE}),
    ),
    Option("priority", (CHANNEL, SUBSCRIPTION, EVENT), "first in queues, last to be given up"),
    Option("expiry", (CHANNEL, SUBSCRIPTION, EVENT), "dropped where its time ends"),
    Option("earliest", (CHANNEL, EVENT), "nobody gets it before", bars=ORDERED),
    Option("essential", (CHANNEL, EVENT), "takes a reliable connection, or need not"),
    Option("report", (CHANNEL, EVENT), "its source is told where it is given up"),
    Option("retain", (CHANNEL, SUBSCRIPTION, EVENT), "the last value is kept, and comes first or when asked"),
    Option("push", (SUBSCRIPTION,), "a callback gets each event"),
    Option("pull", (SUBSCRIPTION,), "events wait until they are taken"),
    Option("order=arrival", (SUBSCRIPTION,), "as events come"),
    Option("order=priority", (SUBSCRIPTION,), "the most important of those that wait first", bars=ORDERED),
    Option("order=deadline", (SUBSCRIPTION,), "the one that expires first of those that wait", bars=ORDERED),
    Option("on_full", (SUBSCRIPTION,), "what is given up when the queue is full, or who waits"),
    Option("max_pending", (SUBSCRIPTION,), "most events that wait for a consumer"),
    Option("ack=automatic", (SUBSCRIPTION,), "acknowledged when the next is taken or the callback returns"),
    Option("ack=explicit", (SUBSCRIPTION,), "delivered again until acknowledged, then a dead letter"),
    Option("ack=none", (SUBSCRIPTION,), "delivered once, whatever becomes of it"),
    Option("mapping", (SUBSCRIPTION,), "filters that change priority, expiry or earliest time"),
    Option("durable", (SUBSCRIPTION,), "goes on where it ended", needs=frozenset({DURABLE}), keeps=True),
    Option("history", (SUBSCRIPTION,), "what was before comes first", needs=frozenset({DURABLE})),
    Option("transaction", (EVENT,), "several events appear together or not at all", together=True),
)
QOS_OPTIONS: Mapping[str, Option] = {each.name: each for each in _ALL}


Templates = Mapping[str, type[Template[Any]]]


def refuse(wish: str, template: type[Template[Any]], templates: Callable[[], Templates]) -> None:
    """Raise UnsupportedQoS, naming those that can, unless a template can keep a wish."""
    if wish not in QOS_OPTIONS:
        name, _, value = wish.partition("=")
        fit = [each.partition("=")[2] for each in QOS_OPTIONS if each.startswith(f"{name}=")]
        raise BadEnvelope(f"wish {name!r}", value, f"one of {', '.join(fit)}")
    found = QOS_OPTIONS[wish]
    if not found.supported_by(template):
        able = [name for name, each in templates().items() if found.supported_by(each)]
        raise UnsupportedQoS(wish, template.name, able)


def made(qos: QoS) -> list[str]:
    """Names of the options that are given."""
    return [
        name
        for name in qos.__struct_fields__
        if name != "codec" and getattr(qos, name) != getattr(NO_QOS, name)
    ]
