"""Who has to know what neighbours say about subscriptions that are kept."""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.filters.identity import restored
from gossamer.templates.dispatch.session import Taker
from gossamer.templates.dispatch.session_client import Following
from gossamer.templates.dispatch.session_messages import (
    Ask,
    Attach,
    Claim,
    Detach,
    Done,
    Filled,
    Forgotten,
    Hosts,
    Merge,
    More,
    Outrun,
    Remembered,
    Resume,
    Settled,
    Taken,
    What,
)
from gossamer.templates.dispatch.session_server import Keeping


def heed(ctx: Context, message: What, sender: str, keeping: Keeping, following: Following) -> None:
    """A neighbour says something, in order with its events."""
    match message:
        case Attach():
            owner = Taker(sender, message.serial, sender, message.after, message.known)
            keeping.attach(ctx, message.name, restored(message.identity), owner)
        case Detach():
            if message.forget:
                keeping.forget(ctx, message.name, sender)
            else:
                keeping.detach(ctx, message.name, sender, message.serial)
        case Done():
            keeping.finish(ctx, message.name, message.done, sender)
        case Resume():
            following.resume(ctx, message)
        case Taken():
            following.taken(ctx, message)
        case Claim():
            keeping.seeking.claim(ctx, message, sender)
        case Outrun():
            keeping.seeking.outrun(ctx, message)
        case Settled():
            keeping.seeking.settled(ctx, message, sender)
        case More():
            keeping.more(ctx, message, sender)
        case Filled():
            keeping.filled(ctx, message)
        case Hosts():
            keeping.seeking.hosts(ctx, message, sender)
        case Remembered():
            keeping.seeking.remembered(ctx, message, sender)
        case Forgotten():
            keeping.seeking.forgotten(ctx, message.name, sender)
        case Merge():
            keeping.seeking.merge(ctx, message.name)
        case Ask():
            keeping.seeking.asked(ctx, sender)
