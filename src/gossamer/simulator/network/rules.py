"""Faults as rules.

A rule about transmissions gives a verdict on each one while it is in force; the world asks the rules in
their order. The first Drop ends a transmission; delays add up; each Duplicate makes one more copy. A rule
about a node is an appointment: the world crashes, restarts, pauses or mistimes the node.

Every rule can say whether it makes sense for given nodes (``check``), with a ConfigError that names the
key. Times are seconds of virtual time; a rule without an ``end`` stays in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.core.context import Dice
from gossamer.core.errors import ConfigError
from gossamer.core.names import nanoseconds
from gossamer.simulator.network.link_models import Probability

Instant = Annotated[float, Meta(ge=0, le=1e9)]
Kind = Literal["parcel", "feedback", "control"]


class Pass(msgspec.Struct, frozen=True):
    """Let it through."""


class Drop(msgspec.Struct, frozen=True):
    """It ends here."""

    reason: str


class Delay(msgspec.Struct, frozen=True):
    """It arrives later by so many nanoseconds."""

    by: int


class Duplicate(msgspec.Struct, frozen=True):
    """It arrives once more."""


Verdict = Pass | Drop | Delay | Duplicate
PASS, DUPLICATE = Pass(), Duplicate()

Judge = Callable[[str, str, str, Dice], Verdict]
"""Sender, receiver, kind of item and dice into a verdict."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all rules."""

    @property
    def severs(self) -> bool:
        """Whether nodes that want to talk cannot while it is in force."""
        return False

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        """Raise ConfigError unless the rule makes sense among these nodes."""


class Between(Rule, frozen=True, kw_only=True):
    """What rules about transmissions between chosen nodes have in common.

    senders, receivers
        Names of nodes; none means all.
    items
        Kinds of items: parcel, feedback, control; none means all.
    start, end
        Seconds; in force from start on and before end.
    """

    senders: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    items: tuple[Kind, ...] = ()
    start: Instant = 0.0
    end: Instant | None = None

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        known(self.senders, nodes, f"{key}.senders")
        known(self.receivers, nodes, f"{key}.receivers")
        _window(self.start, self.end, key)

    def judge(self) -> Judge:
        """The rule, ready to be asked many times."""
        senders, receivers, kinds = frozenset(self.senders), frozenset(self.receivers), frozenset(self.items)

        def judge(sender: str, receiver: str, kind: str, dice: Dice) -> Verdict:
            if (
                (senders and sender not in senders)
                or (receivers and receiver not in receivers)
                or (kinds and kind not in kinds)
            ):
                return PASS
            return self.hit(dice)

        return judge

    def hit(self, dice: Dice) -> Verdict:
        """The verdict on a transmission that the rule is about."""
        raise NotImplementedError


class Loss(Between, frozen=True, kw_only=True, tag="loss"):
    """Items are lost with a probability."""

    probability: Probability = 1.0

    @property
    def severs(self) -> bool:
        return self.probability == 1

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        Between.check(self, nodes, key)
        _share(self.probability, f"{key}.probability")

    def hit(self, dice: Dice) -> Verdict:
        return Drop("lost by rule") if dice.random() < self.probability else PASS


class Lag(Between, frozen=True, kw_only=True, tag="lag"):
    """Items take longer by ``by`` seconds."""

    by: Annotated[float, Meta(ge=0, le=86_400)]

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        Between.check(self, nodes, key)
        if not 0 <= self.by <= 86_400:
            raise ConfigError(f"{self.by} is not between 0 and 86400 seconds", key=f"{key}.by")

    def hit(self, dice: Dice) -> Verdict:
        return Delay(nanoseconds(self.by))


class Echo(Between, frozen=True, kw_only=True, tag="echo"):
    """Items arrive twice with a probability."""

    probability: Probability = 1.0

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        Between.check(self, nodes, key)
        _share(self.probability, f"{key}.probability")

    def hit(self, dice: Dice) -> Verdict:
        return DUPLICATE if dice.random() < self.probability else PASS


class Partition(Rule, frozen=True, kw_only=True, tag="partition"):
    """The network falls into parts that do not reach each other. Nodes that no part names are one more."""

    parts: Annotated[tuple[tuple[str, ...], ...], Meta(min_length=1)]
    start: Instant = 0.0
    end: Instant | None = None

    @property
    def severs(self) -> bool:
        return True

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        named = [name for part in self.parts for name in part]
        known(named, nodes, f"{key}.parts")
        twice = sorted(name for name, times in Counter(named).items() if times > 1)
        if twice:
            raise ConfigError(f"{twice[0]!r} is in more than one place", key=f"{key}.parts")
        if not named:
            raise ConfigError("no node is named", key=f"{key}.parts")
        _window(self.start, self.end, key)

    def judge(self) -> Judge:
        """The rule, ready to be asked many times."""
        part_of = {name: number for number, part in enumerate(self.parts) for name in part}
        dropped = Drop("partition")

        def judge(sender: str, receiver: str, kind: str, dice: Dice) -> Verdict:
            return PASS if part_of.get(sender, -1) == part_of.get(receiver, -1) else dropped

        return judge


class Crash(Rule, frozen=True, kw_only=True, tag="crash"):
    """A node ends without a word: its state, timers and inbox are gone, what it has sent still arrives."""

    node: str
    at: Instant

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        known((self.node,), nodes, f"{key}.node")


class Restart(Rule, frozen=True, kw_only=True, tag="restart"):
    """A node that is down begins its next life; one that is up is left alone."""

    node: str
    at: Instant

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        known((self.node,), nodes, f"{key}.node")


class Pause(Rule, frozen=True, kw_only=True, tag="pause"):
    """A node handles nothing for a while, its applications included.

    Items wait in its inbox, within the inbox's bound; wakes that come due wait too.
    """

    node: str
    start: Instant
    end: Instant

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        known((self.node,), nodes, f"{key}.node")
        _window(self.start, self.end, key)


class ClockSkew(Rule, frozen=True, kw_only=True, tag="skew"):
    """A node's clock is wrong; the trace keeps true time.

    offset
        Seconds by which the clock jumps at ``start``; it never shows less than zero.
    drift
        Seconds per second by which it goes too fast (above 0) or too slow, −0.5 to 1. Wakes come early or
        late by it: true = wanted / (1 + drift).
    end
        When the clock is put right again; what was to happen by it keeps its instant.
    """

    node: str
    offset: Annotated[float, Meta(ge=-1e9, le=1e9)] = 0.0
    drift: Annotated[float, Meta(ge=-0.5, le=1)] = 0.0
    start: Instant = 0.0
    end: Instant | None = None

    def check(self, nodes: Collection[str], key: str = "rule") -> None:
        known((self.node,), nodes, f"{key}.node")
        _window(self.start, self.end, key)
        if not -0.5 <= self.drift <= 1:
            raise ConfigError(f"{self.drift} is not between -0.5 and 1", key=f"{key}.drift")


AnyRule = Loss | Lag | Echo | Partition | Crash | Restart | Pause | ClockSkew


def known(names: Collection[str], nodes: Collection[str], key: str) -> None:
    """Raise ConfigError unless all these names are nodes."""
    for name in names:
        if name not in nodes:
            close = get_close_matches(name, nodes, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {len(nodes)} others"
            raise ConfigError(f"there is no node {name!r}; {hint}", key=key)


def _window(start: float, end: float | None, key: str) -> None:
    if not start >= 0:
        raise ConfigError(f"{start} is before the beginning", key=f"{key}.start")
    if end is not None and not end > start:
        raise ConfigError(f"{end} is not after the start at {start}", key=f"{key}.end")


def _share(probability: float, key: str) -> None:
    if not 0 <= probability <= 1:
        raise ConfigError(f"{probability} is not between 0 and 1", key=key)
