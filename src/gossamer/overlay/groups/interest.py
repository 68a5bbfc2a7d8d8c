"""Interest between a node and those that hang below it.

A node tells the node above whether anybody on its side listens, and whether anybody publishes; the node
above tells those below, once they have spoken, whether anybody else listens. Each says it again until it
is acknowledged. Of a link that was lost and found again one side may have noticed nothing, while the other
has forgotten all and asks. Most nodes below never use a channel, and then they never hear of it.
"""

from __future__ import annotations

import msgspec

from gossamer.core.context import Context
from gossamer.core.control import Instant, Message


class Interest(Message, frozen=True):
    """Whether anybody on my side listens, and whether anybody publishes.

    The version is the teller's clock, so that it grows across restarts and an old one never wins. ``asks`` if
    I know nothing of your interest: say again what you have told me before.
    """

    version: Instant
    listens: bool
    publishes: bool
    asks: bool = False


class InterestHeard(Message, frozen=True):
    """I know your interest up to this version."""

    version: Instant


class Told(msgspec.Struct):
    """What a neighbour was last told, and whether it has heard."""

    interest: Interest
    heard: bool = False


class Interests:
    """What the nodes above and below have said, and what they were told."""

    def __init__(self) -> None:
        self.said: dict[str, Interest] = {}
        self._told: dict[str, Told] = {}
        self._version = 0

    def listens(self, node: str) -> bool:
        """Whether somebody at or behind a node listens."""
        said = self.said.get(node)
        return said is not None and said.listens

    def listening(self, but: str | None = None) -> bool:
        """Whether somebody at or behind any node listens, one of them aside."""
        return any(said.listens for node, said in self.said.items() if node != but)

    def publishing(self, but: str | None = None) -> bool:
        """Whether somebody at or behind any node publishes, one of them aside."""
        return any(said.publishes for node, said in self.said.items() if node != but)

    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        ctx.send(sender, InterestHeard(interest.version))
        known = self.said.get(sender)
        if known is None or known.version < interest.version:
            self.said[sender] = interest
        told = self._told.get(sender)
        if interest.asks and told is not None:
            told.heard = False
            ctx.send(sender, told.interest)

    def heard(self, heard: InterestHeard, sender: str) -> None:
        told = self._told.get(sender)
        if told is not None and told.interest.version == heard.version:
            told.heard = True

    def tell(self, ctx: Context, node: str, listens: bool, publishes: bool, again: bool) -> bool:
        """Tell a node what it does not know yet, or again what it has not acknowledged; is it waiting?"""
        told = self._told.get(node)
        if told is None or (told.interest.listens, told.interest.publishes) != (listens, publishes):
            self._version = max(ctx.now, self._version + 1)
            told = self._told[node] = Told(Interest(self._version, listens, publishes, node not in self.said))
            ctx.send(node, told.interest)
        elif again and not told.heard:
            ctx.send(node, told.interest)
        return not told.heard

    def forget(self, node: str) -> None:
        """The node is gone, or is not what it was."""
        self.said.pop(node, None)
        self._told.pop(node, None)

    def keep(self, nodes: tuple[str, ...]) -> None:
        """Forget all but these."""
        for node in {*self.said, *self._told}.difference(nodes):
            self.forget(node)
