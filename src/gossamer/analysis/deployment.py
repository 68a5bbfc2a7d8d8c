"""A hierarchy that somebody has written down, with what is special about its dispatchers."""

from __future__ import annotations

from collections import Counter

import msgspec

from gossamer.analysis.dispatch import Traffic
from gossamer.analysis.hierarchy import Hierarchy
from gossamer.core.config import parse, wrong
from gossamer.core.errors import ConfigError


class Dispatcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[dispatcher]]``: name, the one above it (the root has none), and what is special about it."""

    name: str
    above: str = ""
    rate: float | None = None
    spread: float | None = None
    objects: int | None = None


class Deployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All dispatchers, in any order in a file; here everybody comes after the one above."""

    dispatcher: tuple[Dispatcher, ...]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.dispatcher]

    @property
    def hierarchy(self) -> Hierarchy:
        places = {name: place for place, name in enumerate(self.names)}
        return Hierarchy([places.get(each.above, -1) for each in self.dispatcher])

    def traffic(self, others: Traffic) -> Traffic:
        """With the values of each dispatcher, and those of others where it has none."""

        def own(key: str) -> list[float]:
            given = (getattr(each, key) for each in self.dispatcher)
            return [getattr(others, key) if value is None else value for value in given]

        return Traffic(
            own("rate"), others.window, own("spread"), list(map(int, own("objects"))), others.listeners
        )


def balanced(arity: int, levels: int) -> Deployment:
    """A balanced tree; a dispatcher is named after the way from the root."""
    names: list[str] = []
    found = []
    for place, up in enumerate(Hierarchy.balanced(arity, levels).above):
        names.append("root" if up < 0 else f"{names[up]}.{(place - 1) % arity + 1}".removeprefix("root."))
        found.append(Dispatcher(names[-1], names[up] if place else ""))
    return Deployment(tuple(found))


def read(text: str, file: str = "") -> Deployment:
    """A deployment from TOML; raises ConfigError."""
    found = parse(text, Deployment, file).dispatcher
    names = Counter(each.name for each in found)
    for place, each in enumerate(found):
        if names[each.name] > 1:
            raise _at(place, "name", f"{each.name!r} is there {names[each.name]} times", text, file)
        if each.above and each.above not in names:
            raise _at(place, "above", f"there is no dispatcher {each.above!r}", text, file)
    roots = [place for place, each in enumerate(found) if not each.above]
    if len(roots) != 1:
        reason = f"{len(roots)} dispatchers have nobody above them, exactly one must"
        raise _at(roots[1], "above", reason, text, file) if roots else ConfigError(reason, file=file)
    ordered = _from_the_root(found)
    if len(ordered) < len(found):
        lost = next(place for place, each in enumerate(found) if each not in ordered)
        reason = f"the way up from {found[lost].name!r} goes in a circle"
        raise _at(lost, "above", reason, text, file)
    return Deployment(tuple(ordered))


def _from_the_root(found: tuple[Dispatcher, ...]) -> list[Dispatcher]:
    below: dict[str, list[Dispatcher]] = {}
    for each in found:
        below.setdefault(each.above, []).append(each)
    ordered = list(below[""])
    for each in ordered:
        ordered += below.get(each.name, ())
    return ordered


def _at(place: int, key: str, reason: str, text: str, file: str) -> ConfigError:
    return wrong(reason, ("dispatcher", place, key), text, file)
