"""The directory as an application holds it: ``node.directory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gossamer.core.errors import ChannelExists, Refused, UnknownChannel
from gossamer.core.names import check_channel
from gossamer.overlay.directory.service import Answered, Clone, Directory, Entry, Listing, Lookup, Question

if TYPE_CHECKING:
    from gossamer.runtime.api.node import Node


class NodeDirectory:
    """The channels of the network, as this node can see them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def clone(self, template: str, name: str, settings: Mapping[str, Any] | None = None) -> Entry:
        """Make a channel from a template.

        Doing it twice is fine; raises ChannelExists if the name is taken by another kind of channel.
        """
        check_channel(name)
        templates = self._node.templates
        await self._node.packages.need(template)
        given = dict(settings or {})
        templates[template].parse(given)
        wanted = Entry(name, template, given)
        answer = await self._ask(Clone(wanted), f"cloning {name!r}")
        found = answer.entries[0]
        if not found.same(wanted) and (settings is not None or found.template != template):
            raise ChannelExists(name, found.made_of, wanted.made_of)
        return found

    async def lookup(self, name: str) -> Entry:
        """What a channel is made of; raises UnknownChannel."""
        answer = await self._ask(Lookup(check_channel(name)), f"looking up {name!r}")
        if not answer.entries:
            raise UnknownChannel(name, answer.close)
        return answer.entries[0]

    async def list(self) -> list[Entry]:
        """Every channel, by name."""
        found: list[Entry] = []
        while True:
            after = found[-1].name if found else ""
            answer = await self._ask(Listing(after), "listing channels")
            if not answer.entries:
                return found
            found.extend(answer.entries)

    async def _ask(self, question: Question, what: str) -> Answered:
        answer: Answered = await self._node.ask(Directory.name, question, what)
        if answer.refusal:
            raise Refused("the directory", answer.refusal)
        return answer
