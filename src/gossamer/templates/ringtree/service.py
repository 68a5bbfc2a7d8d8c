"""What a server does for its region: it registers, if it is the one that serves, and minds the borders."""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.parcel import Parcel
from gossamer.templates.ringtree.failover import Succession
from gossamer.templates.ringtree.matching import wants
from gossamer.templates.ringtree.member import RingTimes, Say
from gossamer.templates.ringtree.messages import (
    Elsewhere,
    EntriesHeard,
    Filters,
    Missing,
    Register,
    SeatHeard,
    Wants,
    WantsHeard,
)
from gossamer.templates.ringtree.regions import Borders
from gossamer.templates.ringtree.registrar import Registrar


class Service:
    """One server of a region.

    registrar
        The registration service, while it is here.
    """

    def __init__(self, times: RingTimes, say: Say, succession: Succession) -> None:
        self.registrar: Registrar | None = None
        self._serving = ""
        self._times = times
        self._say = say
        self._succession = succession
        self._borders = Borders(say)
        self._told: dict[bytes, Filters] = {}
        """What other regions were told that groups here want."""

    def serve(self, ctx: Context, serving: str) -> None:
        """Begin or stop to serve, as it is the turn of this node or another."""
        self._serving = serving
        if serving == ctx.node and self.registrar is None:
            self.registrar = Registrar(ctx, self._times, self._say)
            ctx.wake("border", self._times.refresh)
        elif serving != ctx.node and self.registrar is not None:
            everybody, self.registrar = tuple(self.registrar.listed), None
            self._told.clear()
            for name in everybody:
                if name != ctx.node:
                    self._say(ctx, name, Elsewhere(serving))

    def take(self, ctx: Context, message: Message, sender: str) -> None:
        """Somebody says something to the service."""
        registrar = self.registrar
        match message:
            case Wants():
                self._borders.hear(ctx, message, sender)
                self._cross(ctx)
            case WantsHeard():
                self._borders.heard(message, sender)
            case Register() if registrar is None:
                self._say(ctx, sender, Elsewhere(self._serving))
            case Register() if registrar is not None:
                registrar.register(ctx, message, sender)
            case Missing() if registrar is not None:
                registrar.missing(ctx, message, sender)
            case SeatHeard() if registrar is not None:
                registrar.seat_heard(message, sender)
            case EntriesHeard() if registrar is not None:
                registrar.entries_heard(message, sender)

    def timer(self, ctx: Context, name: str) -> None:
        """It is time for something."""
        if self.registrar is None:
            return
        if name == "border":
            self._borders.age()
            self._told.clear()
            ctx.wake("border", self._times.refresh)
        elif name == "abroad":
            if self._borders.again(ctx, self._abroad(ctx)):
                ctx.wake("abroad", self._times.retry)
        else:
            self.registrar.timer(ctx, name)
        self._cross(ctx)

    def beat(self, ctx: Context) -> tuple[str, ...]:
        """A heartbeat has passed; whom to ask for a sign of life."""
        return self.registrar.beat(ctx) if self.registrar else ()

    def alive(self, node: str) -> None:
        """A node has given a sign of life."""
        if self.registrar:
            self.registrar.alive(node)

    # borders

    def _cross(self, ctx: Context) -> None:
        """Tell publishers here what is wanted elsewhere, and elsewhere what is wanted here."""
        registrar, abroad = self.registrar, self._abroad(ctx)
        if registrar is None or not abroad or registrar.settling:
            return
        registrar.want_abroad(ctx, self._borders.wanted())
        wanted = registrar.crowds.wanted()
        for group in sorted(self._told.keys() | wanted.keys()):
            if self._told.get(group) != wanted.get(group):
                region = self._succession.region(ctx)
                news = Wants(region, registrar.epoch, registrar.count(), group, wanted.get(group, ()))
                self._borders.tell(ctx, abroad, news)
                ctx.wake("abroad", self._times.retry)
        self._told = wanted

    def _abroad(self, ctx: Context) -> tuple[str, ...]:
        """The servers of other regions."""
        own = self._succession.region(ctx)
        others = (region for region in self._succession.regions if region != own)
        servers = (each for region in others for each in self._succession.candidates(ctx, region))
        return tuple(each for each in dict.fromkeys(servers) if each != ctx.node)

    def across(self, parcel: Parcel, sender: str | None) -> list[str]:
        """Where a parcel goes from the service: from a border to the groups here, from here over borders."""
        if self.registrar is None:
            return []
        if sender is None or not self._borders.crossed(sender) or sender in self.registrar.listed:
            return self._borders.wanting(parcel)
        crowds = (each for _, each in self.registrar.crowds if each.roll and wants(each.wanted, parcel))
        return [name for each in crowds for name in each.first]
