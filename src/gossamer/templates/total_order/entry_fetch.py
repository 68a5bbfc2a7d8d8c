"""Parcels of entries: seats that lack one ask for it; what no seat has and no source will send is void."""

from __future__ import annotations

from gossamer.consensus.messages import FetchedParcel, FetchParcels
from gossamer.consensus.node import RaftNode
from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode, encode


class Fetching:
    """Sees to it that a seat has the parcels of its entries."""

    def __init__(self, raft: RaftNode) -> None:
        self._raft = raft

    def lacking(self) -> list[int]:
        """The first entries whose parcels are not here."""
        raft = self._raft
        return [] if raft.record is None else raft.store.lacking(raft.record, raft.commit_index)

    def arrived(self, ctx: Context) -> None:
        """Parcels have arrived: entries may have waited for them."""
        raft = self._raft
        if raft.record is not None and raft.store.gather(raft.record, raft.commit_index):
            raft.store.gathered(ctx, raft)

    def ask(self, ctx: Context) -> None:
        """Ask who leads, or as leader everybody, for the parcels of entries that are here without."""
        raft, lacking = self._raft, tuple(self.lacking())
        names = [raft.leader] if raft.leader != ctx.node else [name for name, _ in raft.seats]
        for name in names:
            if lacking and name not in ("", ctx.node):
                raft.write(ctx, FetchParcels, name, lacking)

    def asked(self, ctx: Context, fetch: FetchParcels) -> None:
        """Another seat lacks parcels: only entries of this record are answered. A node that has forgotten
        that history, or never had it, says that it has none of them.
        """
        raft = self._raft
        record = raft.record if fetch.history == raft.history else None
        for index in fetch.indexes:
            if record is not None and not record.base < index <= record.last:
                continue
            parcel = raft.store.get(index) if record is not None else None
            frame = encode(parcel) if parcel is not None else b""
            raft.write(ctx, FetchedParcel, fetch.origin, index, frame)

    def fetched(self, ctx: Context, fetched: FetchedParcel, gone: bool) -> Parcel | None:
        """The parcel of an entry that was not here; or a seat has it not, and perhaps its source has gone."""
        raft = self._raft
        entry = raft.entry(fetched.index)
        if entry is None or fetched.history != raft.history:
            return None
        if not fetched.parcel:
            if gone and raft.leading is not None and fetched.index in self.lacking():
                raft.leading.without(ctx, fetched.index, fetched.origin)
            return None
        parcel = decode(fetched.parcel)
        if not isinstance(parcel, Parcel):
            return None
        stamp, place = parcel.stamp, (entry.source, entry.incarnation, entry.sequence)
        if (stamp.source, stamp.incarnation, stamp.sequence) != place:
            return None
        raft.store.put(fetched.index, parcel)
        self.arrived(ctx)
        return parcel
