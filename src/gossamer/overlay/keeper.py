"""How a council is set up, and how a seat keeps what it must not forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.context import Context

if TYPE_CHECKING:
    from gossamer.overlay.council import Council


class CouncilSettings(msgspec.Struct, frozen=True):
    """How many seats; seconds.

    retry
        Until a letter that was not answered is written again.
    heartbeat
        Between signs of life of the one who leads.
    patience
        Without a sign of life of a leader that is thought to live, until somebody else stands.
    """

    seats: int = 5
    retry: float = 0.2
    heartbeat: float = 0.5
    patience: float = 5.0


class Keeper:
    """Keeps what a seat must not forget: here in memory, where there is nothing to do."""

    durable = False
    """Whether a later life remembers."""

    def oath(self, ctx: Context, council: Council, then: Callable[[Context], None]) -> None:
        """Term and vote have changed; go on when they are kept."""
        then(ctx)

    def entries(self, ctx: Context, council: Council) -> None:
        """Entries were appended, or cut and appended; call ``council.kept`` when they are kept."""
        assert council.record is not None
        council.kept(ctx, council.record.last)
