"""An indexer: lists the threads of all who announce at a meeting place, and asks listeners what they want.

It knows nothing about applications but what they announce to everybody. Threads that no plan has a place for
are in an index of their own until the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.announce.announcer import AnnouncerSettings
from gossamer.announce.configuration import Reports
from gossamer.announce.identity import Thread
from gossamer.announce.index_plan import REST, Plan
from gossamer.announce.interest import Collector
from gossamer.announce.observer import Survey
from gossamer.announce.sender import Pace
from gossamer.runtime.api.announcer import FIRST_INDEX, REPORTS, Announcer
from gossamer.runtime.api.node import Node
from gossamer.runtime.net.ip_multicast import beside


class Indexer(Announcer):
    """Announces indexes over what others announce."""

    def __init__(
        self,
        meeting: str,
        *,
        indexes: Sequence[str] = (),
        channels: int = 8,
        period: float = 600.0,
        probability: float = 0.1,
        pace: Pace | None = None,
        settings: AnnouncerSettings | None = None,
        node: Node | None = None,
    ) -> None:
        (where,) = beside(meeting, 1, REPORTS)
        super().__init__(
            meeting,
            indexes=indexes or beside(meeting, channels, FIRST_INDEX),
            pace=pace,
            settings=settings,
            reports=Reports(where, period, probability),
            node=node,
        )
        self.interest = Collector()
        self._where = where
        self._rest: Thread | None = None
        self._placed: set[Thread] = set()

    async def __aenter__(self) -> Indexer:
        await super().__aenter__()
        self.survey = Survey(self.station, self.interest)
        for channel in (self.meeting, self._where):
            self._running.join(channel)
        return self

    def _hears(self, data: bytes) -> None:
        if self._carriers is None:
            return
        for each in self.survey.packet(self._alarm.now(), data):
            self._running.join(each.channel)
        if len(self.survey.threads) > len(self._placed):
            self._place()
        self._tend()

    def _place(self) -> None:
        new = self.survey.threads.keys() - self._placed
        self._placed |= new
        if self._rest is None:
            self._rest = self.station.index(self._alarm.now(), self.index_channels[0], new)
        else:
            self.station.enlist(self._alarm.now(), self._rest, new)

    def regroup(self, plan: Plan) -> None:
        """Other indexes in place of those there are; listeners move over by themselves."""
        made = self.station.regroup(self._alarm.now(), plan, self.index_channels)
        self._rest = made.get(REST)
        self._placed = {thread for threads in plan.threads.values() for thread in threads}
        if len(self.survey.threads) > len(self._placed):
            self._place()
        self._tend()
