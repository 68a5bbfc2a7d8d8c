"""What somebody hears who indexes the threads of others: pages, versions and reports, no payload.

It joins the channels that pages name, and reads of each packet there the header only.
"""

from __future__ import annotations

from collections import Counter

from gossamer.announce import configuration
from gossamer.announce.announcer import Station
from gossamer.announce.assembly import Assembler
from gossamer.announce.header import Code, decode
from gossamer.announce.identity import Thread
from gossamer.announce.interest import Collector
from gossamer.announce.memberships import Join
from gossamer.core.errors import GossamerError, ProtocolError

MOST_THREADS = 1_000_000
MOST_CHANNELS = 4096


class Survey:
    """Tells a station what it hears of others. ``threads`` are those it has heard of."""

    def __init__(self, station: Station, collector: Collector) -> None:
        self.threads: dict[Thread, str] = {}
        self.names: dict[Thread, str] = {}
        self.drops: Counter[str] = Counter()
        self._station, self._collector = station, collector
        self._assembler = Assembler()
        self._channels: set[str] = set()

    def packet(self, now: int, data: bytes) -> list[Join]:
        """A packet came; channels to join from now on."""
        try:
            header, body = decode(data)
            if header.code == Code.DATA:
                if header.thread in self.threads:
                    self._station.heard(now, header.thread, header.version)
            elif header.code in (Code.CONFIGURATION, Code.INTEREST):
                found = self._assembler.put(header, body)
                if found is not None and found.code == Code.CONFIGURATION:
                    return self._page(configuration.decode(found.payload))
                if found is not None:
                    self._collector.put(found.thread, found.payload)
        except GossamerError as error:
            fault = error.field if isinstance(error, ProtocolError) else type(error).__name__
            self.drops[f"refused: {fault}"] += 1
        return []

    def _page(self, page: configuration.Page) -> list[Join]:
        joins: list[Join] = []
        for each in page.named:
            new = each.channel not in self._channels
            if len(self.threads) >= MOST_THREADS or (new and len(self._channels) >= MOST_CHANNELS):
                self.drops["too many threads or channels"] += 1
                continue
            self.threads[each.thread] = each.channel
            self.names[each.thread] = each.name
            if new:
                self._channels.add(each.channel)
                joins.append(Join(each.channel))
        return joins
