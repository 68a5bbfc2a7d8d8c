"""Why a listener is on which channels; it joins one with the first reason and leaves with the last."""

from __future__ import annotations

import msgspec


class Join(msgspec.Struct, frozen=True):
    """An effect: join a channel."""

    channel: str


class Leave(msgspec.Struct, frozen=True):
    """An effect: leave a channel."""

    channel: str


class Memberships:
    """Reasons by channel. What is taken back before anybody asks for changes never happens on the network."""

    def __init__(self) -> None:
        self._reasons: dict[str, set[bytes]] = {}
        self._told: dict[str, None] = {}

    @property
    def joined(self) -> set[str]:
        return set(self._reasons)

    def hold(self, channel: str | None, reason: bytes) -> None:
        """Be on a channel, for one more reason."""
        if channel is not None:
            self._reasons.setdefault(channel, set()).add(reason)

    def release(self, reason: bytes) -> None:
        """A reason counts no longer."""
        for channel, reasons in list(self._reasons.items()):
            reasons.discard(reason)
            if not reasons:
                del self._reasons[channel]

    def changes(self) -> tuple[list[Join], list[Leave]]:
        """What is to be done since this was last asked for."""
        joins = [Join(channel) for channel in self._reasons if channel not in self._told]
        leaves = [Leave(channel) for channel in self._told if channel not in self._reasons]
        if joins or leaves:
            self._told = dict.fromkeys(self._reasons)
        return joins, leaves
