"""The workload of a run, fixed before it begins: who is where, who listens to what, who publishes when.

What agents subscribe to, advertise and publish depends on each other (seed 002, section 5), so it is drawn in
one go from the spreading coefficient and the similarity of subscriptions. Each kind of event of an agent has
listeners at distance n with probability spread ** n, for each distance on its own, drawn among the agents at
that distance. Chances are dealt out, not thrown one by one: of a hundred kinds just as many have listeners at
a distance as the chance says. Each kind by itself meets the same chances, and fewer runs are needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gossamer.analysis.hierarchy import Whole
from gossamer.core.event import Attributes, Criteria
from gossamer.core.names import NANOSECONDS
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.workload.agents import exponential
from gossamer.whatif.script import Question
from gossamer.whatif.topology import shape

SOURCE, SINK, PROACTIVE, REACTIVE = "source", "sink", "proactive", "reactive"
NOTICE, ANSWER = "notice", "answer"
"""What agents publish of their own accord, and what they answer."""
HEARD_BY = {SOURCE: SINK, PROACTIVE: REACTIVE}


class Agent(msgspec.Struct, frozen=True, gc=False):
    """One agent: what it does, its site, and on which host of the site it is (0 without hosts)."""

    number: int
    role: str
    site: int
    host: int


class Filter(msgspec.Struct, frozen=True, order=True, gc=False):
    """Events of an agent that are of these kinds, the last one included; or answers to that agent."""

    agent: int
    first: int
    last: int
    answers: bool = False

    def covers(self, other: Filter) -> bool:
        """Whether everything that the other is met by meets this one too."""
        same = (self.agent, self.answers) == (other.agent, other.answers)
        return same and self.first <= other.first and other.last <= self.last

    def criteria(self, kinds: int) -> Criteria:
        """As the dispatch template wants it, of an agent with so many kinds."""
        if self.answers:
            return Criteria(event=ANSWER, agent=self.agent)
        if (self.first, self.last) == (0, kinds - 1):
            return Criteria(event=NOTICE, agent=self.agent)
        if self.first == self.last:
            return Criteria(event=NOTICE, agent=self.agent, kind=self.first)
        bounds = (("kind", ">=", self.first), ("kind", "<=", self.last))
        return Criteria(*bounds, event=NOTICE, agent=self.agent)


class Publication(msgspec.Struct, frozen=True, order=True, gc=False):
    """An agent publishes an event of a kind at an instant, in nanoseconds since traffic began."""

    at: int
    agent: int
    kind: int


class Workload:
    """All that happens in a run but how long it takes.

    agents
        By their numbers.
    listeners
        Numbers of the agents that listen, by agent and kind of event.
    """

    def __init__(self, question: Question, seed: int) -> None:
        self.question = question
        self._seed = seed
        self.agents = list(_agents(question))
        self.listeners: dict[tuple[int, int], tuple[int, ...]] = {}
        self._by_site: dict[tuple[str, int], list[Agent]] = defaultdict(list)
        for agent in self.agents:
            self._by_site[agent.role, agent.site].append(agent)
        dice = SeededDice(seed, label="interest")
        apart = shape(question.interest or question.topology).apart
        for role in HEARD_BY:
            for site in range(len(apart)):
                self._draw(role, site, apart[site], dice)

    def _draw(self, role: str, site: int, hops: Whole, dice: SeededDice) -> None:
        """Listeners of everything that agents of a role publish at a site."""
        groups = [group for agent in self._by_site[role, site] for group in self._groups(agent, dice)]
        found: list[set[int]] = [set() for _ in groups]
        for away in range(int(hops.max()) + 1 if groups else 0):
            wanted = len(groups) * self.question.traffic.spread**away
            count = int(wanted) + (dice.random() < wanted - int(wanted))
            if count:
                sites = np.flatnonzero(hops == away).tolist()
                near = [agent for other in sites for agent in self._by_site[HEARD_BY[role], other]]
                self._deal(groups, found, near, away, count, dice)
        for (agent, kinds), heard in zip(groups, found, strict=True):
            for kind in kinds:
                self.listeners[agent.number, kind] = tuple(sorted(heard))

    def _groups(self, agent: Agent, dice: SeededDice) -> Iterator[tuple[Agent, list[int]]]:
        """Kinds of an agent that have the same listeners."""
        group: list[int] = []
        for kind in range(self.question.traffic.kinds):
            if group and dice.random() >= self.question.traffic.similarity:
                yield agent, group
                group = []
            group.append(kind)
        yield agent, group

    def _deal(
        self,
        groups: list[tuple[Agent, list[int]]],
        found: list[set[int]],
        near: list[Agent],
        away: int,
        count: int,
        dice: SeededDice,
    ) -> None:
        """Let so many groups have listeners among those at one distance."""
        chosen = list(range(len(groups)))
        dice.shuffle(chosen)
        deck = Deck([agent.number for agent in near], dice)
        for place in chosen[:count]:
            first = self._elsewhere(groups[place][0], near, dice) if away == 0 else []
            found[place].update(first, deck.deal(self._drawn(dice) - len(first), first))

    def _elsewhere(self, agent: Agent, near: list[Agent], dice: SeededDice) -> list[int]:
        """One that is not on the host of an agent, if there is one: then events pass the dispatcher."""
        others = [each.number for each in near if (each.site, each.host) != (agent.site, agent.host)]
        return [dice.choice(others)] if others else []

    def _drawn(self, dice: SeededDice) -> int:
        """How many listeners there are, if there is one."""
        listeners = self.question.traffic.listeners
        if isinstance(listeners, int):
            return listeners
        left = dice.random()
        for count, weight in enumerate(listeners, 1):
            left -= weight
            if left < 0:
                return count
        return len(listeners)

    # what follows from it

    def subscriptions(self) -> list[tuple[Agent, Filter]]:
        """Who subscribes to what; kinds that follow each other make one filter."""
        kinds: dict[tuple[int, int], list[int]] = defaultdict(list)
        for (agent, kind), heard in sorted(self.listeners.items()):
            for listener in heard:
                kinds[listener, agent].append(kind)
        found = [
            (self.agents[listener], Filter(agent, first, last))
            for (listener, agent), own in sorted(kinds.items())
            for first, last in _runs(own)
        ]
        asking = (agent for agent in self.agents if agent.role == PROACTIVE)
        return found + [(agent, Filter(agent.number, 0, 0, True)) for agent in asking]

    def advertisements(self) -> list[tuple[Agent, Filter]]:
        """Who advertises what: its own events, or answers to those that it will hear from."""
        last = self.question.traffic.kinds - 1
        found = [(agent, Filter(agent.number, 0, last)) for agent in self.agents if agent.role in HEARD_BY]
        heard = {
            (listener, agent)
            for (agent, _), listeners in self.listeners.items()
            for listener in listeners
            if self.agents[agent].role == PROACTIVE
        }
        return found + [(self.agents[own], Filter(asked, 0, 0, True)) for own, asked in sorted(heard)]

    def publications(self) -> list[Publication]:
        """What sources and proactive agents publish, in order of time."""
        traffic, end = self.question.traffic, round(self.question.window * NANOSECONDS)
        found = []
        for agent in self.agents:
            if agent.role not in HEARD_BY:
                continue
            dice = SeededDice(self._seed, label=f"agent {agent.number}")
            at = exponential(1 / traffic.rate, dice)
            while at < end:
                found.append(Publication(at, agent.number, dice.randrange(traffic.kinds)))
                at += exponential(1 / traffic.rate, dice)
        return sorted(found)


class Deck:
    """Numbers that are dealt in random order, all before one comes again."""

    def __init__(self, numbers: list[int], dice: SeededDice) -> None:
        self._numbers = numbers
        self._dice = dice
        self._left: list[int] = []

    def deal(self, count: int, but: Sequence[int] = ()) -> list[int]:
        """So many different numbers that are not these, or all if there are fewer."""
        count = min(count, len(self._numbers) - len(but))
        dealt: list[int] = []
        while len(dealt) < count:
            self._left = self._left or self._numbers.copy()
            place = self._dice.randrange(len(self._left))
            self._left[place], self._left[-1] = self._left[-1], self._left[place]
            number = self._left.pop()
            if number not in but and number not in dealt:
                dealt.append(number)
        return dealt


def attributes(agent: int, kind: int) -> Attributes:
    """Of an event that an agent publishes of its own accord."""
    return {"event": NOTICE, "agent": agent, "kind": kind}


def answer(asked: int) -> Attributes:
    """Of an event that answers an agent."""
    return {"event": ANSWER, "agent": asked}


def _agents(question: Question) -> Iterator[Agent]:
    traffic, hosts = question.traffic, max(1, question.topology.hosts)
    number = 0
    for site in range(question.topology.dispatchers):
        for role, count, first in (  # who listens sits next to who publishes, not on the same host
            (SOURCE, traffic.sources, 0),
            (SINK, traffic.sinks, 1),
            (PROACTIVE, traffic.proactive, 0),
            (REACTIVE, traffic.reactive, 1),
        ):
            for place in range(first, first + count):
                yield Agent(number, role, site, place % hosts)
                number += 1


def _runs(kinds: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of kinds that follow each other, in order."""
    first = last = kinds[0]
    for kind in kinds[1:]:
        if kind != last + 1:
            yield first, last
            first = kind
        last = kind
    yield first, last
