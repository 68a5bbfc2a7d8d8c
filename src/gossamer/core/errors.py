"""Every error gossamer raises on purpose.

::

    GossamerError
    ├── LocalError                this program asked for something that cannot be
    │   ├── ConfigError           a settings file or settings value is wrong; names file, key and line
    │   ├── BadName               a channel, node or attribute name breaks the rules
    │   ├── BadAddress            an address cannot be understood or has no transport
    │   ├── AddressInUse          something else listens there already
    │   ├── UnknownTemplate       no installed template has that name
    │   ├── UnknownChannel        the directory has no such channel
    │   ├── UnknownKey            the registry has nothing under that key
    │   ├── ChannelExists         the channel is there, but with another template or other settings
    │   ├── TooLarge              a payload, envelope or count is over its limit
    │   ├── BadEnvelope           an attribute or a QoS field has the wrong type or range
    │   ├── UnsupportedQoS        the template of a channel lacks a QoS option; names templates that have it
    │   ├── UnsupportedOperation  the template of a channel does not offer an operation
    │   ├── UnknownCodec          this program does not know how a payload was made, or is to be made
    │   ├── BadFilter             a filter's text cannot be read; names the place in it and says what fits
    │   ├── NotAdvertised         an event is outside what was advertised for its channel
    │   ├── NotATree              edges that should form a tree do not
    │   ├── Cyclic                an index would list itself, through others or at once
    │   ├── ForgedReceipt         a receipt was made up or altered
    │   ├── StorageError          a log on disk cannot be read or written; names file and position
    │   │   ├── DiskFull          there is no room left on a disk; what was not acknowledged is not there
    │   │   └── Damaged           records or values that were synced are gone or altered; names the command
    │   ├── SparkUnavailable      the pipeline has no Spark to run on; says why
    │   ├── Full                  no room now; waiting would help
    │   └── Closed                the node, channel or subscription has been closed
    └── RemoteError               somebody else, or the network, is the reason
        ├── ProtocolError         a frame breaks the wire format; names the field and its limit
        ├── Incomplete            fragments of an announcement are missing; more may come
        ├── CannotConnect         nobody usable answers at an address
        ├── Refused               the other side answered, and said no
        ├── BadPackage            a template package cannot be used; names it and says why
        │   ├── Unsigned          it carries no signature
        │   ├── Altered           it is not what was signed
        │   └── Untrusted         the key that signed it is not among those that this node trusts
        ├── Lost                  events published here were given up by the nodes responsible; says which
        └── NoAnswer              nothing came back in time
            └── NotHandedOver     events published here ended on this node; says how many and why

``retry`` says whether the same call may succeed later without a change by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar


class GossamerError(Exception):
    """The root of the tree; catch it to catch everything gossamer raises on purpose."""

    retry: ClassVar[bool] = False


class LocalError(GossamerError):
    """This program asked for something that cannot be."""


class RemoteError(GossamerError):
    """Somebody else, or the network, is the reason."""

    retry = True


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none are known"


class ConfigError(LocalError):
    """A settings file or settings value is wrong."""

    def __init__(self, reason: str, *, key: str = "", file: str = "", line: int = 0) -> None:
        self.reason, self.key, self.file, self.line = reason, key, file, line
        place = f"{file or 'settings'}{f', line {line}' if line else ''}{f', key {key!r}' if key else ''}"
        super().__init__(f"{place}: {reason}")


class BadName(LocalError):
    """A channel, node or attribute name breaks the rules."""

    def __init__(self, what: str, name: str, rule: str) -> None:
        self.what, self.name, self.rule = what, name, rule
        super().__init__(f"{name[:80]!r} is not a valid {what} name: {rule}")


class BadAddress(LocalError):
    """An address cannot be understood or has no transport."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"cannot use address {address!r}: {reason}")


class AddressInUse(LocalError):
    """Something else listens there already."""

    retry = True

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"{address} is in use: stop what listens there, or choose another port (0 takes a free one)"
        )


class UnknownTemplate(LocalError):
    """No installed template has that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, sorted(known)
        super().__init__(f"there is no template {name!r}; {_suggestion(name, self.known)}")


class UnknownChannel(LocalError):
    """The directory has no such channel."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name, self.known = name, sorted(known)
        hint = f" ({_suggestion(name, self.known)})" if self.known else ""
        super().__init__(f"there is no channel {name!r}{hint}: clone it from a template first")


class UnknownKey(LocalError):
    """The registry has nothing under that key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the registry has nothing under {key[:200]!r}: set it first, or look at the list")


class ChannelExists(LocalError):
    """The channel is there, but with another template or other settings."""

    def __init__(self, name: str, has: str, wanted: str) -> None:
        self.name, self.has, self.wanted = name, has, wanted
        super().__init__(
            f"channel {name!r} exists as {has}, not as {wanted}: look it up, or choose another name"
        )


class TooLarge(LocalError):
    """A payload, envelope or count is over its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        super().__init__(f"{what} is {size}, the limit is {limit}: split it, or send a reference to it")


class BadEnvelope(LocalError):
    """An attribute or a wish has the wrong type or range."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        self.field, self.value, self.rule = field, value, rule
        super().__init__(f"event's {field} is {value!r:.80}: {rule}")


class UnsupportedQoS(LocalError):
    """The template of a channel does not support an option of quality of service."""

    def __init__(self, wish: str, template: str, able: Iterable[str]) -> None:
        self.wish, self.template, self.able = wish, template, sorted(able)
        others = f"these do: {', '.join(self.able)}" if self.able else "no installed template does"
        super().__init__(f"a channel of template {template!r} does not support {wish}; {others}")


class UnsupportedOperation(LocalError):
    """The template of a channel does not offer an operation."""

    def __init__(self, operation: str, template: str, offered: Iterable[str]) -> None:
        self.operation, self.template, self.offered = operation, template, sorted(offered)
        known = f"it offers {', '.join(self.offered)}" if self.offered else "it offers none"
        super().__init__(f"a channel of template {template!r} has no operation {operation}; {known}")


class UnknownCodec(LocalError):
    """This program does not know how a payload was made, or is to be made."""

    def __init__(self, codec: str | int, known: Iterable[str]) -> None:
        self.codec, self.known = codec, sorted(known)
        if isinstance(codec, int):
            text = f"the payload was made by codec {codec}, which is not registered in this program"
            super().__init__(f"{text}; known: {', '.join(self.known)}")
        else:
            super().__init__(f"there is no codec {codec!r}; {_suggestion(codec, self.known)}")


class BadFilter(LocalError):
    """A filter's text cannot be read."""

    def __init__(self, text: str, position: int, rule: str) -> None:
        self.text, self.position, self.rule = text, position, rule
        self.found = text[position : position + 20]
        there = repr(self.found) if self.found else "its end"
        super().__init__(f"filter {text!r:.120}, position {position + 1}, at {there}: {rule}")


class NotAdvertised(LocalError):
    """An event is outside what was advertised for its channel."""

    def __init__(self, attributes: Mapping[str, object], advertised: int) -> None:
        self.attributes, self.advertised = dict(attributes), advertised
        has = (
            f"none of the {advertised} advertisements here has it"
            if advertised
            else "nothing is advertised here"
        )
        super().__init__(f"event with {self.attributes!r:.120}: {has}; advertise such events first")


class NotATree(LocalError):
    """Edges that should form a tree do not."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the edges do not form a tree: {reason}")


class Cyclic(LocalError):
    """An index would list itself, through others or at once."""

    def __init__(self, path: Iterable[str]) -> None:
        self.path = list(path)
        super().__init__(f"indexes would form a cycle: {' → '.join(self.path)}; leave out an entry")


class ForgedReceipt(LocalError):
    """A receipt was made up or altered."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"receipt refused: {reason}; use the receipt of an event as it was received")


class StorageError(LocalError):
    """A log on disk cannot be read or written; ``position`` is None where the whole file is meant."""

    def __init__(self, file: str, reason: str, position: int | None = None) -> None:
        self.file, self.reason, self.position = file, reason, position
        place = "" if position is None else f", position {position}"
        super().__init__(f"{file}{place}: {reason}")


class DiskFull(StorageError):
    """There is no room left on a disk; what was not acknowledged is not there.

    what
        What failed, without the advice.
    """

    retry = True

    def __init__(self, file: str, reason: str, position: int | None = None) -> None:
        self.what = reason
        super().__init__(file, f"{reason}; make room and try again", position)


class Damaged(StorageError):
    """Records or values that were synced are gone or altered.

    what
        What is wrong, without the command.
    folder
        The folder that the command repairs; empty while that is not known.
    """

    def __init__(self, file: str, reason: str, position: int | None = None, folder: str = "") -> None:
        self.what, self.folder = reason, folder
        command = f"; stop the node and run: gossamer log repair {folder}" if folder else ""
        super().__init__(file, f"damaged: {reason}{command}", position)


class SparkUnavailable(LocalError):
    """The pipeline has no Spark to run on."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"Spark cannot start: {reason}; {remedy}")


class Full(LocalError):
    """No room now; waiting would help."""

    retry = True

    def __init__(self, what: str, limit: int) -> None:
        self.what, self.limit = what, limit
        super().__init__(
            f"{what} is full (limit {limit}): wait with publish(), slow down, or raise the limit"
        )


class Closed(LocalError):
    """The node, channel or subscription has been closed."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is closed: open it again")


class ProtocolError(RemoteError):
    """A frame breaks the wire format."""

    retry = False

    def __init__(self, field: str, value: object, limit: str) -> None:
        self.field, self.value, self.limit = field, value, limit
        super().__init__(f"malformed frame: {field} is {value!r:.80}, expected {limit}")


class Incomplete(RemoteError):
    """Fragments of an announcement are missing; more may come."""

    def __init__(self, what: str, has: int, needed: int) -> None:
        self.what, self.has, self.needed = what, has, needed
        super().__init__(f"{what} has {has} fragments, {needed} are needed: wait for more")


class CannotConnect(RemoteError, ConnectionError):
    """No usable node answers at an address. It is also a ``ConnectionError``."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"no node answers at {address} ({reason}): is one running there? `gossamer up` starts one"
        )


class Refused(RemoteError, ConnectionError):
    """The other side answered, and refused. It is also a ``ConnectionError``."""

    retry = False

    def __init__(self, who: str, reason: str) -> None:
        self.who, self.reason = who, reason
        super().__init__(f"{who} refused: {reason}")


class BadPackage(RemoteError):
    """A template package cannot be used."""

    retry = False

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"template package {what[:80]!r} cannot be used: {reason}")


class Unsigned(BadPackage):
    """It carries no signature."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "it carries no signature; `gossamer templates sign` makes one")


class Altered(BadPackage):
    """It is not what was signed."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, f"it is not what was signed: {reason}; get it again from who signed it")


class Untrusted(BadPackage):
    """The key that signed it is not among those that this node trusts."""

    def __init__(self, what: str, key: str, trusted: int) -> None:
        self.key, self.trusted = key, trusted
        has = f"is none of the {trusted} that this node trusts" if trusted else "this node trusts no key"
        super().__init__(
            what,
            f"it is signed by {key}, {'which' if trusted else 'and'} {has}: "
            f"if you know whose key it is, add it to `keys` of [trust] in the node's settings",
        )


class Lost(RemoteError):
    """Events published here were given up by the nodes responsible, and will never be acknowledged.

    ranges
        Numbers of the first and of the last event of each run.
    """

    def __init__(self, channel: str, ranges: Iterable[tuple[int, int]]) -> None:
        self.channel, self.ranges = channel, tuple(ranges)
        self.count = sum(last - first + 1 for first, last in self.ranges)
        shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in self.ranges[:5]]
        more = ", and more" if len(self.ranges) > len(shown) else ""
        which = f"number {', '.join(shown)}{more}"
        super().__init__(f"{self.count} events on {channel!r} are lost ({which}): publish them again")


class NoAnswer(RemoteError, TimeoutError):
    """Nothing came back in time. It is also a ``TimeoutError``."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        super().__init__(f"no answer to {what} within {seconds:g} s")


class NotHandedOver(NoAnswer):
    """Events that were published here ended on this node: no other node has them.

    reasons
        How many events, by reason.
    """

    def __init__(self, channel: str, reasons: Mapping[str, int]) -> None:
        self.channel, self.reasons = channel, dict(reasons)
        self.count = sum(self.reasons.values())
        self.what, self.seconds = f"events on {channel!r}", 0.0
        why = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.reasons.items()))
        events = "event" if self.count == 1 else "events"
        RemoteError.__init__(
            self, f"no node took over {self.count} {events} on {channel!r} ({why}): publish again"
        )
