"""What a node knows of one of its logs before it opens it, and what must be true of the log therefore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gossamer.core.errors import Damaged, StorageError
from gossamer.storage.segment import Content, Segment
from gossamer.storage.superblock import NOBODY, Superblock


class Known(msgspec.Struct, frozen=True):
    """What is known of a log.

    owner
        Id of the folder of the node whose log it is; empty if it belongs to none.
    synced
        Positions: records before the first may have been trimmed, those from there to the second were synced.
    commit
        Number of the last commit of the node's database.
    folder
        The folder that the command in a message names; the log's own if empty.
    """

    owner: str = ""
    synced: tuple[int, int] = (0, 0)
    commit: Callable[[], int] = lambda: 0
    folder: str = ""

    def within(self, bounds: Superblock | None) -> Known:
        """The same, with what the file beside the segments says."""
        if bounds is None:
            return self
        (begin, end), told = self.synced, bounds.bounds
        return msgspec.structs.replace(self, synced=(max(begin, told.begin), max(end, told.end)))

    def named(self, damage: Damaged, log: Path) -> Damaged:
        """The same damage, with the command to run."""
        folder = damage.folder if damage.folder not in ("", str(log)) else self.folder or str(log)
        return Damaged(damage.file, damage.what, damage.position, folder)

    def check_segments(
        self, segments: Sequence[Segment], bounds: Superblock | None, folder: Path, encrypted: bool
    ) -> None:
        """Raise unless segments belong to this folder and none are missing before the first."""
        begin, end = self.synced
        if not segments and end > begin:
            raise Damaged(str(folder), f"records up to {end - 1} were synced, and no segment is here", begin)
        if segments and bounds is None:
            raise Damaged(str(folder / "bounds"), "it is missing, and segments are here", begin)
        owners: dict[str, tuple[str, int]] = {}
        if bounds is not None:  # first, for nothing of the log can be trusted then
            owners[str(bounds.path)] = (bounds.bounds.id.replace(NOBODY, ""), begin)
        owners.update((str(each.path), (each.header.owner, each.first)) for each in segments)
        for path, (owner, first) in owners.items():
            if owner != self.owner:
                reason = f"it belongs to folder {owner or 'none'}, and this is folder {self.owner or 'none'}"
                raise Damaged(path, reason, first)
        if segments and segments[0].first > begin:
            reason = f"segments before it are missing: the log began at position {begin}"
            raise Damaged(str(segments[0].path), reason, begin)
        for each in segments:
            if each.header.encrypted != encrypted:
                kind = "encrypted" if each.header.encrypted else "not encrypted"
                raise StorageError(str(each.path), f"it is {kind}: the node's storage_key does not fit")

    def check_end(self, segment: Segment, content: Content) -> None:
        """Raise if synced records are missing behind the last, or the database is older than the log."""
        end, synced = segment.first + len(content.offsets), self.synced[1]
        if end < synced:
            reason = f"the log ends here, and records up to {synced - 1} were synced"
            raise Damaged(str(segment.path), reason, end)
        if content.mark > self.commit():
            reason = (
                f"it ends with commit {self.commit()}, and {segment.path} was written after commit "
                f"{content.mark}"
            )
            raise Damaged(str(Path(self.folder) / "state.db"), reason)
