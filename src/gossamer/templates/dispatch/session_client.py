"""Kept subscriptions of a client, which comes and goes: its server keeps them, and the client follows."""

from __future__ import annotations

import msgspec

from gossamer.core.context import Context
from gossamer.core.errors import Closed
from gossamer.core.event import Criteria
from gossamer.core.parcel import Bound, Parcel
from gossamer.filters.identity import identity
from gossamer.templates.dispatch.ordered_hop import Relay
from gossamer.templates.dispatch.session_messages import FARTHEST, Attach, Detach, Done, More, Resume, Taken
from gossamer.templates.dispatch.session_server import STEP


class Followed(msgspec.Struct):
    """A subscription here that the server keeps.

    call
        Of the application that wants it.
    place
        Up to which parcels have come.
    count
        Parcels that have come since the server was last told.
    here
        Whether the server has said that it has it.
    known
        Whether any server has said so, or did in an earlier life of this node.
    """

    name: str
    criteria: Criteria
    subscription: int
    call: int
    place: int = 0
    count: int = 0
    here: bool = False
    known: bool = False


class Following:
    """What a client has its server keep."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._followed: dict[int, Followed] = {}
        """By the number of the request."""

    def attach(self, ctx: Context, followed: Followed) -> None:
        """Ask the server for a subscription."""
        self._ask(ctx, 1 + ctx.rng.randrange(2**62), followed)

    def _ask(self, ctx: Context, serial: int, followed: Followed) -> None:
        self._followed[serial] = followed
        followed.here = False
        if ctx.server:
            about = (identity(followed.criteria), min(followed.place, FARTHEST), followed.known)
            self._relay.send(ctx, ctx.server, Attach(followed.name, serial, *about))

    def moved(self, ctx: Context) -> None:
        """There is another server, or the same one knows nothing any more: ask for all of them anew."""
        followed, self._followed = self._followed, {}
        for each in followed.values():
            self.attach(ctx, each)

    def detach(self, ctx: Context, subscription: int) -> bool:
        """A subscription here has ended; False if it is not one of these."""
        for serial, each in self._followed.items():
            if each.subscription == subscription:
                del self._followed[serial]
                if ctx.server:
                    self._relay.send(ctx, ctx.server, Detach(each.name, serial))
                return True
        return False

    def forget(self, ctx: Context, name: str) -> None:
        """Nobody will come back for what is kept under a name."""
        if ctx.server:
            self._relay.send(ctx, ctx.server, Detach(name, 0, forget=True))

    def finish(self, ctx: Context, name: str, done: tuple[int, int]) -> None:
        """All up to a position is done."""
        if ctx.server:
            self._relay.send(ctx, ctx.server, Done(name, done))

    def absent(self) -> str | None:
        """The name of one that the server has not said it has."""
        return next((each.name for each in self._followed.values() if not each.here), None)

    def resume(self, ctx: Context, resume: Resume) -> None:
        """The server has it, or has found out that more of it was lost."""
        followed = self._followed.get(resume.serial)
        if followed is not None and (resume.lost or not followed.here):
            followed.here = followed.known = True
            ctx.reply(followed.call, (resume.done, resume.lost), more=True)

    def taken(self, ctx: Context, taken: Taken) -> None:
        """It has been taken over elsewhere."""
        followed = self._followed.pop(taken.serial, None)
        if followed is not None:
            ctx.reply(followed.call, error=taken_over(followed.name))

    def bound(self, ctx: Context, parcel: Parcel, bound: Bound) -> bool:
        """A parcel from the server; False if nobody here wants it."""
        node, serial, place = bound
        followed = self._followed.get(serial) if node == ctx.node else None
        if followed is None:
            return False
        if place > followed.place:
            followed.place = place
            ctx.deliver(parcel.placed(place), None, (followed.subscription,))
        followed.count += 1
        if ctx.server and followed.count >= STEP:
            followed.count = 0
            self._relay.send(ctx, ctx.server, More(node, serial, place))
        return True


def taken_over(name: str) -> Closed:
    """What a subscription is told whose box has gone elsewhere."""
    return Closed(f"the subscription kept as {name!r}, which somebody has taken over elsewhere")
