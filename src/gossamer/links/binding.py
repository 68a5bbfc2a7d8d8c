"""Bindings: which transports the frames of a channel may take, said at deployment.

A binding is one ``[[bind]]`` table of a node's file. The first that fits a channel and the neighbour's role
wins; nothing in a template or an application knows of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.names import MAX_CHANNEL_NAME, SERVICE_PREFIX, Role

MAX_TRANSPORTS = 16
Scheme = Annotated[str, Meta(min_length=1, max_length=32)]


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A binding of channels to transports.

    channel
        Pattern over channel names as shells have it: ``*``, ``?``, ``[abc]``.
    transports
        The transports that parcels may take, by the scheme of their addresses, in order of wish. A link
        opens those that both sides have; of those that are up the nearest is taken, and the order
        decides between what has not been measured.
    tier
        Role of the neighbours that it is about; all of them if it is not given.
    essential
        Whether parcels have to take a reliable connection, whatever else is near. Control messages always
        do, and so do the parcels of channels that no binding fits.
    """

    channel: Annotated[str, Meta(min_length=1, max_length=MAX_CHANNEL_NAME)]
    transports: Annotated[tuple[Scheme, ...], Meta(min_length=1, max_length=MAX_TRANSPORTS)]
    tier: Role | None = None
    essential: bool = False

    def concerns(self, role: Role) -> bool:
        """Whether it is about links to nodes of a role."""
        return self.tier is None or self.tier == role


def first_fit(bindings: Iterable[Binding], channel: str, role: Role) -> Binding | None:
    """The binding of a channel on links to nodes of a role."""
    for binding in bindings:
        if binding.concerns(role) and fnmatchcase(channel, binding.channel):
            return binding
    return None


def asked_for(bindings: Iterable[Binding], role: Role) -> tuple[str, ...]:
    """The transports that some binding asks for on links to nodes of a role, in order of wish."""
    return tuple(dict.fromkeys(each for one in bindings if one.concerns(role) for each in one.transports))


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a binding: its place among the others, the key, and why."""

    place: int
    key: str
    reason: str


def problems(bindings: Sequence[Binding], known: Collection[str], role: Role) -> Iterator[Problem]:
    """Bindings of a node of a role that name an unknown transport or can never apply."""
    for place, binding in enumerate(bindings):
        for scheme in binding.transports:
            if scheme not in known:
                yield Problem(
                    place, "transports", f"no transport {scheme!r}; known: {', '.join(sorted(known))}"
                )
        if len(set(binding.transports)) < len(binding.transports):
            yield Problem(place, "transports", "a transport is named twice")
        if not nameable(binding.channel):
            yield Problem(
                place, "channel", f"{binding.channel!r} can never apply: no channel may have such a name"
            )
        if binding.tier == role and role in (Role.CLIENT, Role.SECONDARY):
            yield Problem(place, "tier", f"can never apply: a {role} has no link to another {role}")
        for earlier in bindings[:place]:
            if earlier.tier in (None, binding.tier) and covers(earlier.channel, binding.channel):
                yield Problem(
                    place,
                    "channel",
                    f"{binding.channel!r} can never apply: {earlier.channel!r} stands before it and wins",
                )
                break


_SPECIAL = re.compile(r"\[!?\]?[^\]]*\]|[*?]")


def nameable(pattern: str) -> bool:
    """Whether a channel may have a name that matches: no blanks, nothing invisible, not that of a service."""
    return not pattern.startswith(SERVICE_PREFIX) and not re.search(
        r"[\s\x00-\x1f\x7f]", _SPECIAL.sub("", pattern)
    )


def covers(wide: str, narrow: str) -> bool:
    """Whether all that matches one pattern matches another; False where it takes more than a look to see."""
    if wide in ("*", narrow):
        return True
    if re.search(r"[?[]", wide) or "[" in narrow:
        return False
    return fnmatchcase(narrow, wide)
