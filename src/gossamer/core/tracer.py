"""Writes the rows of one node's trace: which columns a parcel, a message or a change of members fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gossamer.core import trace
from gossamer.core.effect import Acknowledged, Effect, Lost, Missed, Note, Send
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Stamp
from gossamer.core.wire import Item
from gossamer.core.wire import size as size_of

MAX_DETAIL = 200
"""Characters of criteria that are kept."""

_NOBODY = ("", 0, 0, 0, 0)


class Tracer:
    """Numbers the rows of one incarnation of a node without gaps; without a recorder it does nothing.

    name
        Tells the name of a channel by its id.
    """

    __slots__ = ("_incarnation", "_name", "_node", "_position", "_recorder")

    def __init__(
        self, node: str, incarnation: int, recorder: trace.Recorder | None, name: Callable[[int], str]
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._recorder = recorder
        self._name = name
        self._position = 0

    def effect(self, now: int, effect: Effect) -> None:
        """A template asked for something; only some of it leaves a row."""
        if self._recorder is None:
            return
        match effect:
            case Send(to=to, item=item):
                for peer in to:
                    self.item(now, trace.SENT, item, peer)
            case Note():
                who = (*effect.source, effect.sequence, 0, 0)
                name = self._name(effect.channel)
                self._row(now, trace.PARCEL, effect.action, name, who, "", 0, effect.order, effect.place)
            case Acknowledged():
                name, who = self._name(effect.channel), (self._node, self._incarnation, 0, effect.number, 0)
                self._row(now, trace.MEMBER, trace.ACKNOWLEDGED, name, who, "", 0, "", 0)
            case Lost():
                count = effect.last - effect.first + 1
                name, who = (
                    self._name(effect.channel),
                    (self._node, self._incarnation, 0, effect.first, count),
                )
                self._row(now, trace.MEMBER, trace.LOST, name, who, "", 0, "", 0)
            case Missed():
                name, who = self._name(effect.channel), (effect.source, 0, 0, 0, 0)
                self._row(now, trace.MEMBER, trace.MISSED, name, who, "", 0, "", 0)

    def item(self, now: int, action: str, item: Item, peer: str, detail: str = "") -> None:
        """Something happened to a parcel or a control message."""
        if self._recorder is None:
            return
        if isinstance(item, Parcel):
            self.parcel(now, action, item, peer, detail)
        else:
            kind, size = detail or type(item.message).__name__, size_of(item)
            self._row(now, trace.CONTROL, action, self._name(item.channel), _NOBODY, peer, size, kind, 0)

    def parcel(
        self,
        now: int,
        action: str,
        parcel: Parcel,
        peer: str,
        detail: str = "",
        first: int = 0,
        count: int = 0,
    ) -> None:
        """Something happened to a parcel, or to ``count`` events of it from number ``first`` on."""
        if self._recorder is None:
            return
        header, stamp = parcel.header, parcel.header.stamp
        kind = trace.PARCEL if header.answers is None else trace.FEEDBACK
        value = (parcel.deadline or 0) if header.answers is None else header.answers.number
        who = (stamp.node, stamp.incarnation, stamp.sequence, first or stamp.first, count or stamp.count)
        size = size_of(parcel)
        self._row(now, kind, action, self._name(header.channel), who, peer, size, detail, value)

    def member(self, now: int, change: str, channel: str, who: str, detail: str = "") -> None:
        """A subscriber or a link came or went."""
        self._row(now, trace.MEMBER, change, channel, _NOBODY, who, 0, detail[:MAX_DETAIL], 0)

    def opened(self, now: int, channel: str, template: str, promises: Iterable[str], recovery: int) -> None:
        """A channel runs here from now on, and makes progress again so many nanoseconds after a fault."""
        detail = " ".join([template, *sorted(promises)])
        self._row(now, trace.CHANNEL, trace.OPENED, channel, _NOBODY, "", 0, detail, recovery)

    def _row(
        self,
        now: int,
        kind: str,
        action: str,
        channel: str,
        who: tuple[str, int, int, int, int],
        peer: str,
        size: int,
        detail: str,
        value: int,
    ) -> None:
        if self._recorder is not None:
            self._position += 1
            here = (self._position, now, self._node, self._incarnation)
            self._recorder((*here, kind, action, channel, *who, peer, size, detail, value))


def runs(stamp: Stamp, picks: Iterable[int] | None) -> Iterable[tuple[int, int]]:
    """Picked events as (first number, how many) of consecutive ones."""
    if picks is None:
        return ((stamp.first, stamp.count),)
    found: list[tuple[int, int]] = []
    for pick in picks:
        number = stamp.first + pick
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
