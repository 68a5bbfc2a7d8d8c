"""Durable subscriptions that a dispatcher keeps: taken up where they ended, and told what is done."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gossamer.core.effect import Reply
from gossamer.core.operations import NOTHING, KeepSession, Position, SessionDone

if TYPE_CHECKING:
    from gossamer.runtime.api.subscription import Subscription
    from gossamer.runtime.host import Host

log = logging.getLogger("gossamer")
__all__ = ["NOTHING", "follow", "forgotten", "remember"]


def follow(host: Host, channel: str, subscription: Subscription) -> None:
    """Have a subscription kept; it ends if somebody takes it over elsewhere."""
    name = subscription.terms.durable

    def take(reply: Reply) -> None:
        if reply.error is not None:
            subscription.end(reply.error)
            return
        done, lost = reply.value
        host.keep(_key(channel, name), b"1")
        subscription.resume(done)
        if lost:
            subscription.missed += lost
            host.changed()
            log.warning("%r: at least %d parcels for %r were not kept", channel, lost, name)

    known = host.kept(_key(channel, name)) is not None
    host.follow(channel, KeepSession(subscription.number, name, known=known), take)


def forgotten(host: Host, channel: str, name: str) -> None:
    """What comes next under a name is a new subscription."""
    host.keep(_key(channel, name), None)


def _key(channel: str, name: str) -> str:
    """Under which this node remembers that a dispatcher has kept a subscription for it."""
    return f"kept/{channel}/{name}"


def remember(host: Host, channel: str, name: str, position: Position) -> None:
    """Tell the dispatcher what is done, once for all that is done before the loop turns."""
    host.soon((channel, name), lambda: host.follow(channel, SessionDone(name, position), lambda _: None))
