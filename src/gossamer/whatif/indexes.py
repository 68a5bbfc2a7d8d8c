"""Indexes made from sampled interest, beside as many whose threads were dealt by lot.

Listeners belong to communities that want threads of several applications. Some of them report; the reports
are clustered on Spark into indexes, and then everybody counts, those who never reported as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gossamer.announce.index import ENTRY_BYTES
from gossamer.announce.index_plan import REST
from gossamer.core.errors import ConfigError
from gossamer.pipeline.clusters import by_lot, hierarchy, interest_of
from gossamer.simulator.dice import SeededDice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Crowd(msgspec.Struct, frozen=True):
    """Who wants what.

    communities
        Each has its share of the threads of every application.
    wants
        Threads that a listener wants.
    noise
        Chance of each of these to be any thread at all.
    reported
        Share of the listeners whose reports came.
    """

    listeners: int = 2_000
    threads: int = 1_000
    applications: int = 10
    communities: int = 20
    wants: int = 12
    noise: float = 0.1
    reported: float = 0.2
    seed: int = 1

    def check(self) -> Crowd:
        for name in ("listeners", "threads", "applications", "communities", "wants"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{getattr(self, name)}: at least 1", key=name)
        if self.communities > self.threads:
            raise ConfigError(f"{self.communities}: at most the {self.threads} threads", key="communities")
        if not 0 < self.reported <= 1:
            raise ConfigError(f"{self.reported:g}: a share, above 0 and at most 1", key="reported")
        return self


class Comparison(msgspec.Struct, frozen=True):
    """Indexes that a listener has to follow, on average, and bytes of their tables."""

    indexes: int
    reports: int
    applications_per_index: float
    clustered: float
    by_lot: float
    clustered_bytes: float
    by_lot_bytes: float


def interest(crowd: Crowd) -> list[frozenset[str]]:
    """What each listener wants; thread ``t7`` is of application 7 mod applications."""
    dice = SeededDice(crowd.seed, "crowd")
    share = crowd.threads // crowd.communities
    wishes = []
    for _ in range(crowd.listeners):
        home = dice.randrange(crowd.communities) * share
        drawn = (
            dice.randrange(crowd.threads) if dice.random() < crowd.noise else home + dice.randrange(share)
            for _ in range(crowd.wants)
        )
        wishes.append(frozenset(f"t{number}" for number in drawn))
    return wishes


def compare(spark: SparkSession, crowd: Crowd, indexes: int) -> Comparison:
    """Cluster the reports of some, and count for all."""
    wishes = interest(crowd.check())
    dice = SeededDice(crowd.seed, "reports")
    rows = [
        (f"l{number}", thread)
        for number, wanted in enumerate(wishes)
        if dice.random() < crowd.reported
        for thread in sorted(wanted)
    ]
    if not rows:
        raise ConfigError("nobody reported: ask more of the listeners, or have more", key="reported")
    members = hierarchy(interest_of(spark, rows), indexes, indexes, crowd.seed)[0].members
    for number in range(crowd.threads):
        members.setdefault(f"t{number}", REST)
    lot = by_lot(members, crowd.seed)
    applications: dict[str, set[int]] = {}
    for thread, index in members.items():
        applications.setdefault(index, set()).add(int(thread[1:]) % crowd.applications)
    ours, ours_bytes = _followed(wishes, members)
    theirs, theirs_bytes = _followed(wishes, lot)
    return Comparison(
        len(applications),
        len({listener for listener, _ in rows}),
        sum(map(len, applications.values())) / len(applications),
        ours,
        theirs,
        ours_bytes,
        theirs_bytes,
    )


def _followed(wishes: list[frozenset[str]], members: dict[str, str]) -> tuple[float, float]:
    sizes: dict[str, int] = {}
    for index in members.values():
        sizes[index] = sizes.get(index, 0) + 1
    followed = [{members[thread] for thread in wanted} for wanted in wishes]
    count = sum(map(len, followed)) / len(wishes)
    return count, sum(ENTRY_BYTES * sizes[index] for own in followed for index in own) / len(wishes)
