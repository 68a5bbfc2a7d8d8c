"""History as a subscription wants it: asked for as fast as it takes it, and gone on with in a later life."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.errors import BadEnvelope, ConfigError
from gossamer.core.operations import NOTHING, MoreHistory, Position, ReadHistory
from gossamer.core.parcel import Parcel

if TYPE_CHECKING:
    from gossamer.runtime.host import Host


def wanted(place: int | None, time: float | datetime | None) -> tuple[int, float] | None:
    """From which place on, and not sent before which instant; None if no history is wanted."""
    if place is None and time is None:
        return None
    seconds = time.timestamp() if isinstance(time, datetime) else float(time or 0)
    if (place or 0) < 0 or not 0 <= seconds < 2**33:
        wrong = place if time is None else time
        raise BadEnvelope("history", wrong, "a place from 0 on, or an instant since 1970")
    return place or 0, seconds


def replay(host: Host, channel: str, number: int, first: int, since: float) -> None:
    """Have the history sent to a subscription, as fast as it takes it."""

    def more(_: object) -> None:
        host.spawn(_go_on(host, channel, number))

    host.follow(channel, ReadHistory(number, first, since), more)


async def _go_on(host: Host, channel: str, number: int) -> None:
    def may() -> bool:
        subscriber = host.subscribers.get(number)
        return host.closed or subscriber is None or not subscriber.full

    await host.until(may)
    if not host.closed and number in host.subscribers:
        host.follow(channel, MoreHistory(number), lambda _: None)


def resumed(host: Host, channel: str, name: str) -> Position:
    """Up to where a durable subscription has done everything in earlier lives."""
    if not host.keeps:
        raise ConfigError("a durable subscription needs one, to remember how far it came", key="state")
    kept = host.kept(_key(channel, name))
    return msgspec.msgpack.decode(kept, type=Position) if kept is not None else NOTHING


def unread(parcel: Parcel, picks: tuple[int, ...] | None, done: Position) -> tuple[int, ...] | None:
    """Of what comes, what an earlier life has not done."""
    place, (upto, index) = parcel.place, done
    if place is None or place > upto:
        return picks
    every = range(parcel.stamp.count) if picks is None else picks
    return tuple(pick for pick in every if place == upto and pick > index)


def remember(host: Host, channel: str, name: str, position: Position) -> None:
    """Keep it, together with all that is remembered before the loop turns."""
    host.keep(_key(channel, name), msgspec.msgpack.encode(position))


def _key(channel: str, name: str) -> str:
    return f"subscription {channel} {name}"
