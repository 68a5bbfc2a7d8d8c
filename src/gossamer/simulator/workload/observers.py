"""Witnesses: whoever looks on while a world runs, such as agents and checkers.

They are told true time and may act on the world (publish, answer, subscribe); what they do happens after
all effects of what they were told about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.event import Criteria, Envelope
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt

if TYPE_CHECKING:
    from gossamer.simulator.world import World


class Witness:
    """Answers nothing and hears everything; override what you care about. ``life`` is the incarnation."""

    def opened(self, world: World, channel: str, promises: frozenset[str]) -> None:
        """A channel runs from now on."""

    def started(self, world: World, node: str, life: int) -> None:
        """A node is there and runs its channels, or it goes on after a pause."""

    def stopped(self, world: World, node: str, life: int) -> None:
        """A node has crashed."""

    def disturbed(self, world: World) -> None:
        """A fault is about to begin or to end."""

    def subscribed(
        self, world: World, node: str, life: int, channel: str, subscription: int, criteria: Criteria
    ) -> None:
        """A subscription began."""

    def replaying(self, world: World, node: str, life: int, channel: str, subscription: int) -> None:
        """A subscription wants the history."""

    def unsubscribed(self, world: World, node: str, life: int, channel: str, subscription: int) -> None:
        """A subscription ended."""

    def published(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        number: int,
        payload: bytes,
        envelope: Envelope,
    ) -> None:
        """An event was accepted and is about to leave."""

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        """Events of a parcel (``picks`` are indexes, None means all) reached a subscription."""

    def missed(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        source: str,
        to: tuple[int, ...] | None = None,
    ) -> None:
        """The subscriptions of a node were told that they did not keep up with a source."""

    def acknowledged(self, world: World, node: str, life: int, channel: str, number: int) -> None:
        """Publishers on a node were told that their events up to a number are acknowledged."""

    def lost(self, world: World, node: str, life: int, channel: str, first: int, last: int) -> None:
        """Publishers on a node were told that their events of these numbers are lost."""

    def answered(self, world: World, node: str, life: int, receipt: Receipt, number: int) -> None:
        """Somebody here answers an event; ``number`` is the answer's own. It is about to leave."""

    def feedback(self, world: World, node: str, life: int, channel: str, parcel: Parcel) -> None:
        """An answer reached an application."""
