"""What a configuration will do, calculated: loads, flows, utilisation and waiting by closed forms.

Loads and flows are exact under the assumptions of docs/analysis.md. Answers are added to them: a request of
site S that has a listener at site D comes back as an event from D that S listens to. Waiting is an
approximation: each link and each dispatcher is taken for a queue of its own at which events arrive
independently (M/D/1). Where one of them is asked for more than it can do, latency has no end.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gossamer.analysis.hierarchy import Real
from gossamer.analysis.routes import Interest
from gossamer.whatif.measures import Measures
from gossamer.whatif.places import Places, frame
from gossamer.whatif.script import Question
from gossamer.whatif.topology import shape
from gossamer.whatif.workload import answer, attributes


class Forecast:
    """One configuration, all in events per second.

    visits
        Events that begin at each dispatcher (row) and come to each (column).
    pairs
        Deliveries at each site (column) of what begins at each (row).
    published
        Events that begin at each site, answers included.
    bytes
        Of all that is published.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.shape = shape(question.topology)
        self.places = Places(question)
        self.homes = np.asarray(self.shape.homes)
        self._apart = shape(question.interest or question.topology).apart
        self._always = self._to_the_core()
        self.visits = np.zeros((self.shape.size, self.shape.size))
        self.pairs = np.zeros((len(self.homes), len(self.homes)))
        self.published = np.zeros(len(self.homes))
        self.bytes = 0.0
        traffic = question.traffic
        kind = traffic.kinds - 1
        middle = traffic.agents * len(self.homes) // 2
        self._notice = frame(question, self.places, attributes(middle, kind))
        self._reply = frame(question, self.places, answer(middle))
        self.reached: list[tuple[int, Real]] = []
        """Publishing agents of a site, and the chances of what they publish to come to each dispatcher."""
        self._spread(traffic.sources, traffic.sinks)
        asked = self._spread(traffic.proactive, traffic.reactive)
        self._answers(asked)

    def _to_the_core(self) -> NDArray[np.bool_]:
        """Whether all events that begin at a dispatcher (row) come to another (column)."""
        if self.question.propagation == "advertisement":
            return np.eye(self.shape.size, dtype=np.bool_)
        return self.shape.routes.along(self.shape.core)

    def _spread(self, publishing: int, listening: int) -> Real:
        """What so many agents of each site publish to so many of each; deliveries by pair of sites."""
        traffic, sites = self.question.traffic, len(self.homes)
        if not publishing:
            return np.zeros((sites, sites))
        listeners = traffic.listeners if isinstance(traffic.listeners, int) else list(traffic.listeners)
        interest = Interest(self._apart, np.full(sites, float(listening)), traffic.spread, listeners)
        chances = interest.reached(self.shape.routes, self.shape.homes)
        self.reached.append((publishing, chances))
        rate = publishing * traffic.rate
        reached = np.where(self._always[self.homes], 1.0, chances)
        np.add.at(self.visits, self.homes, rate * reached)
        self.published += rate
        self.bytes += rate * sites * self._notice
        pairs = rate * interest.pairs()
        self.pairs += pairs
        return pairs

    def _answers(self, asked: Real) -> None:
        """Each delivery of a request makes an event that goes back the same way, or a way as short."""
        for site, home in enumerate(self.homes):
            back = np.zeros(self.shape.size)
            np.add.at(back, self.homes, asked[:, site])
            seen = self.shape.routes.gathered(int(home), back)
            self.visits[home] += np.where(self._always[home], back.sum(), seen)
        self.pairs += asked.T
        self.published += asked.sum(axis=0)
        self.bytes += float(asked.sum()) * self._reply

    # figures

    def measures(self) -> Measures:
        """All figures, for the whole window."""
        window, cost = self.question.window, self.question.dispatcher.event
        size = self.bytes / float(self.published.sum())
        flows = self.shape.routes.flows(self.visits)
        byte = 1 / self.question.link.bandwidth if self.question.link.bandwidth else 0.0
        used = flows * size * byte
        access, local = self._access(size * byte)
        loads = self.visits.sum(axis=0)
        busy = (flows.sum(axis=0) + local) * cost
        filters, extra = self._filters()
        return Measures(
            method="analysis",
            loads=[float(each) for each in loads * window],
            busy=[float(each) for each in busy],
            toward=[float(used[b, a]) for a, b in self.shape.links],
            away=[float(used[a, b]) for a, b in self.shape.links],
            access=access,
            filters=filters,
            extra=extra,
            latency=self._latency(used, busy, size * byte, access),
            latency_p99=None,
            published=float(self.published.sum()) * window,
            deliveries=float(self.pairs.sum()) * window,
        )

    def _access(self, work: float) -> tuple[tuple[float, float], Real]:
        """How far links from and to hosts are used; and events per second from hosts to each dispatcher."""
        local = np.zeros(self.shape.size)
        hosts = self.question.topology.hosts
        if not hosts:
            return (0.0, 0.0), local
        np.add.at(local, self.homes, self.published)
        count = hosts * len(self.homes)
        up, down = float(self.published.sum()) / count, float(self.pairs.sum()) / count
        return (up * work, down * work), local

    def _latency(self, used: Real, busy: Real, work: float, access: tuple[float, float]) -> float:
        """Seconds from publication to delivery, on average over all deliveries."""
        hop = self.question.link.latency + self.question.link.jitter / 2 + work
        links = hop + _waiting(used, work)
        nodes = self.question.dispatcher.event + _waiting(busy, self.question.dispatcher.event)
        by_home = np.zeros((self.shape.size, self.shape.size))
        np.add.at(by_home, (self.homes[:, None], self.homes[None, :]), self.pairs)
        total = 0.0
        for start in range(self.shape.size):
            total += float(by_home[start] @ self._delays(start, links, nodes))
        mean = total / float(self.pairs.sum()) if self.pairs.any() else 0.0
        if not self.question.topology.hosts:
            return mean
        ends = [hop + float(_waiting(np.array(each), work)) for each in access]
        first = float(self.pairs.sum(axis=1) @ nodes[self.homes]) / float(self.pairs.sum())
        return mean + sum(ends) + first

    def _delays(self, start: int, links: Real, nodes: Real) -> Real:
        """Seconds from a dispatcher to all others."""
        routes = self.shape.routes
        found = np.zeros(self.shape.size)
        for away in reversed(routes.rounds[start]):
            before = routes.before[start, away]
            found[away] = found[before] + links[before, away] + nodes[away]
        return found

    def _filters(self) -> tuple[list[float] | None, list[float] | None]:
        """Filters that each dispatcher is told, if nobody answers, all kinds differ, and there is one core.

        Of two kinds that follow each other and have the same listener a single filter is made; that is left
        out here, so that these are a little more than there will be.
        """
        traffic = self.question.traffic
        if traffic.proactive or len(self.shape.core) > 1 or traffic.similarity or self.shape.size == 1:
            return None, None
        below = self.shape.routes.along(self.shape.core)  # who is above a site (row), itself included
        publishing, chances = self.reached[0]
        heard = np.where(below, 1.0, chances) * publishing * traffic.kinds
        every, extra = np.zeros(self.shape.size), np.zeros(self.shape.size)
        for a, b in self.shape.links:
            every[a] += heard[:, b].sum()
            if self.question.propagation == "advertisement":
                offered = publishing * float(below[:, b].sum())
                called = publishing * traffic.kinds * float(chances[below[:, b], a].sum())
                every[a] += offered
                extra[a] += offered
                every[b] += called
                extra[b] += called
        return [float(each) for each in every], [float(each) for each in extra]


def _waiting(used: Real, work: float) -> Real:
    """Seconds in a queue before the work of so many seconds begins, if it is used so far (M/D/1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Real = np.where(used < 1, used * work / (2 * (1 - used)), math.inf if work else 0.0)
    return found


def forecast(question: Question) -> Measures:
    """The figures of a configuration by closed forms."""
    return Forecast(question).measures()
