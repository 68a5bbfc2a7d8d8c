"""Parcels of entries: seats that lack one ask for it; what no seat has and no source will send is void."""

from __future__ import annotations

from gossamer.consensus.messages import Fetch, Fetched
from gossamer.consensus.node import Council
from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode, encode


class Fetching:
    """Sees to it that a seat has the parcels of its entries."""

    def __init__(self, council: Council) -> None:
        self._council = council

    def lacking(self) -> list[int]:
        """The first entries whose parcels are not here."""
        council = self._council
        return [] if council.record is None else council.keeper.lacking(council.record, council.decided)

    def arrived(self, ctx: Context) -> None:
        """Parcels have arrived: entries may have waited for them."""
        council = self._council
        if council.record is not None and council.keeper.gather(council.record, council.decided):
            council.keeper.gathered(ctx, council)

    def ask(self, ctx: Context) -> None:
        """Ask who leads, or as leader everybody, for the parcels of entries that are here without."""
        council, lacking = self._council, tuple(self.lacking())
        names = [council.leader] if council.leader != ctx.node else [name for name, _ in council.seats]
        for name in names:
            if lacking and name not in ("", ctx.node):
                council.write(ctx, Fetch, name, lacking)

    def asked(self, ctx: Context, fetch: Fetch) -> None:
        """Another seat lacks parcels: only entries of this record are answered. A node that has forgotten
        that history, or never had it, says that it has none of them.
        """
        council = self._council
        record = council.record if fetch.history == council.history else None
        for index in fetch.indexes:
            if record is not None and not record.base < index <= record.last:
                continue
            parcel = council.keeper.get(index) if record is not None else None
            frame = encode(parcel) if parcel is not None else b""
            council.write(ctx, Fetched, fetch.origin, index, frame)

    def fetched(self, ctx: Context, fetched: Fetched, gone: bool) -> Parcel | None:
        """The parcel of an entry that was not here; or a seat has it not, and perhaps its source has gone."""
        council = self._council
        entry = council.entry(fetched.index)
        if entry is None or fetched.history != council.history:
            return None
        if not fetched.parcel:
            if gone and council.leadership is not None and fetched.index in self.lacking():
                council.leadership.without(ctx, fetched.index, fetched.origin)
            return None
        parcel = decode(fetched.parcel)
        if not isinstance(parcel, Parcel):
            return None
        stamp, place = parcel.stamp, (entry.source, entry.incarnation, entry.sequence)
        if (stamp.source, stamp.incarnation, stamp.sequence) != place:
            return None
        council.keeper.put(fetched.index, parcel)
        self.arrived(ctx)
        return parcel
