"""Which filters dispatchers tell each other, as the dispatch template does it, counted and not sent.

Subscriptions are told toward the core. With advertisements these are told there too, and each subscription
also on the way to whoever advertises what it wants. A filter that another covers is not told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from gossamer.whatif.places import Places
from gossamer.whatif.workload import Filter, Workload

Hop = tuple[int, int]
Table = dict[Hop, set[Filter]]


class Told:
    """Filters by the hop on which they are told, from dispatcher to dispatcher.

    subscriptions, advertisements
        How many, by hop.
    """

    def __init__(self, workload: Workload, places: Places) -> None:
        self._places = places
        self._homes = [places.home(places.node(agent)) for agent in workload.agents]
        advertises = workload.question.propagation == "advertisement"
        wanted = [(self._homes[agent.number], each) for agent, each in workload.subscriptions()]
        offered = [(self._homes[agent.number], each) for agent, each in workload.advertisements()]
        called: Table = defaultdict(set)
        if advertises:
            self._call(called, wanted, offered)
        self.subscriptions = self._told(wanted, called)
        self.advertisements = self._told(offered, defaultdict(set)) if advertises else Counter[Hop]()

    def _told(self, filters: Iterable[tuple[int, Filter]], called: Table) -> Counter[Hop]:
        by_home: dict[int, set[Filter]] = defaultdict(set)
        for home, each in filters:
            by_home[home].add(each)
        core = self._places.shape.core
        if len(core) > 1:
            return self._flooded(by_home, called)
        for home, own in by_home.items():
            way = self._places.shape.routes.way(core[0], home)[::-1]
            for hop in pairwise(way):
                called[hop] |= own
        return Counter({hop: _shown(each) for hop, each in called.items()})

    def _flooded(self, by_home: dict[int, set[Filter]], called: Table) -> Counter[Hop]:
        """Without a root everybody at the core is told everything, over the shortest ways."""
        found = Counter({hop: _shown(each) for hop, each in called.items()})
        for home, own in by_home.items():
            count = _shown(own)
            for node, after in self._places.route(home, (), everywhere=True).items():
                for other in after:
                    found[node, other] += count
        return found

    def _call(
        self, called: Table, wanted: list[tuple[int, Filter]], offered: list[tuple[int, Filter]]
    ) -> None:
        """Tell each subscription on the ways that events it wants will come."""
        offering: dict[tuple[int, bool], set[int]] = defaultdict(set)
        for home, each in offered:
            offering[each.agent, each.answers].add(home)
        for home, each in wanted:
            for source in offering[each.agent, each.answers]:
                way = self._places.shape.routes.way(source, home)[::-1]
                for hop in pairwise(way):
                    called[hop].add(each)

    def received(self) -> tuple[list[float], list[float]]:
        """Filters that each dispatcher is told, and those among them that advertisements bring about."""
        levels = self._places.shape.levels
        every, extra = [0.0] * self._places.dispatchers, [0.0] * self._places.dispatchers
        for (sender, receiver), count in self.subscriptions.items():
            every[receiver] += count
            extra[receiver] += count * bool(levels[sender] < levels[receiver])
        for (_, receiver), count in self.advertisements.items():
            every[receiver] += count
            extra[receiver] += count
        return every, extra


def _shown(filters: Iterable[Filter]) -> int:
    """How many of them no other covers."""
    by_agent: dict[tuple[int, bool], list[Filter]] = defaultdict(list)
    for each in filters:
        by_agent[each.agent, each.answers].append(each)
    return sum(
        not any(other != each and other.covers(each) for other in own)
        for own in by_agent.values()
        for each in own
    )
