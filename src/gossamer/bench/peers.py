"""The comparison: every system in every cell, in turns, so that other work of the machine hits all alike.

Repetitions are interleaved: one of each system, then the next of each. Figures are medians.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable

import msgspec

from gossamer.bench.session import Failed, Outcome, RoundTrips, Session
from gossamer.bench.systems import NAMES, System, installed, named
from gossamer.core.errors import CannotConnect, ConfigError

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
RECEIVERS = (1, 3, 5, 7, 9, 11)
MAX_SIZE = 1_000_000
MAX_RECEIVERS = 32

Cell = tuple[str, int, int]
"""System, size, receivers."""


class Plan(msgspec.Struct, frozen=True):
    """What is measured: sizes in bytes, numbers of receivers, seconds per measurement."""

    systems: tuple[str, ...] = NAMES
    sizes: tuple[int, ...] = (10, 1_000, 100_000)
    receivers: tuple[int, ...] = (1, 3)
    repeat: int = 3
    seconds: float = 0.5
    round_trips: bool = True

    def __post_init__(self) -> None:
        for name in self.systems:
            if name not in NAMES:
                raise ConfigError(f"no system {name!r}; known: {', '.join(NAMES)}", key="--systems")
        for key, values, limit in (
            ("--sizes", self.sizes, MAX_SIZE),
            ("--receivers", self.receivers, MAX_RECEIVERS),
        ):
            if not values or not all(1 <= each <= limit for each in values):
                raise ConfigError(f"expected numbers from 1 to {limit}, not {values}", key=key)

    @property
    def present(self) -> list[System]:
        """The systems that are installed."""
        return [each for each in map(named, self.systems) if installed(each)]

    @property
    def echoing(self) -> list[System]:
        """Those of them whose round trips are measured."""
        return [each for each in self.present if each.echoes and self.round_trips]

    @property
    def steps(self) -> int:
        """How many measurements that makes."""
        return self.repeat * (len(self.present) * len(self.sizes) * len(self.receivers) + len(self.echoing))


class Row(msgspec.Struct, frozen=True):
    """One cell of the table.

    rate
        Messages per second that each receiver got, the median of all repetitions.
    loss
        Messages that did not arrive, in all repetitions and at all receivers.
    cpu
        Processor microseconds, user and system of all processes, per message delivered; None if unknown.
    ratio
        The rate by that of the fastest peer in the same cell; None where no peer was measured.
    """

    system: str
    size: int
    receivers: int
    rate: float
    loss: int
    cpu: float | None
    ratio: float | None
    repeat: int


class RoundTripRow(msgspec.Struct, frozen=True):
    """Microseconds of a round trip of 100 bytes: medians of the repetitions' p50 and p99."""

    system: str
    p50: float
    p99: float
    calls: int


class Result(msgspec.Struct):
    """All that was measured so far; rows are made when they are asked for."""

    plan: Plan
    outcomes: dict[Cell, list[Outcome]] = msgspec.field(default_factory=lambda: defaultdict(list))
    calls: dict[str, list[RoundTrips]] = msgspec.field(default_factory=lambda: defaultdict(list))
    problems: dict[str, str] = {}

    @property
    def missing(self) -> list[str]:
        """Systems that are not installed."""
        return [each for each in self.plan.systems if not installed(named(each))]

    def rows(self) -> list[Row]:
        """One row per cell, by receivers, size and system."""
        rates = {cell: statistics.median(each.rate for each in own) for cell, own in self.outcomes.items()}
        fastest: dict[tuple[int, int], float] = defaultdict(float)
        for (name, size, receivers), rate in rates.items():
            if named(name).peer:
                fastest[size, receivers] = max(fastest[size, receivers], rate)
        return [
            _row(cell, self.outcomes[cell], rates[cell], fastest.get(cell[1:], 0.0))
            for cell in sorted(rates, key=lambda cell: (cell[2], cell[1], NAMES.index(cell[0])))
        ]

    def round_trips(self) -> list[RoundTripRow]:
        """One row per system."""
        return [
            RoundTripRow(
                name,
                round(statistics.median(each.p50 for each in own) / 1000, 1),
                round(statistics.median(each.p99 for each in own) / 1000, 1),
                sum(each.calls for each in own),
            )
            for name, own in self.calls.items()
        ]


def _row(cell: Cell, outcomes: list[Outcome], rate: float, fastest: float) -> Row:
    costs = [each.cost for each in outcomes if each.cost is not None]
    return Row(
        *cell,
        rate=round(rate, 1),
        loss=sum(each.lost for each in outcomes),
        cpu=round(statistics.median(costs) * 1e6, 3) if costs else None,
        ratio=round(rate / fastest, 3) if fastest else None,
        repeat=len(outcomes),
    )


async def compare(result: Result, tell: Callable[[str, int], None]) -> None:
    """Measure what the plan says into the result; ``tell`` hears what comes next and how much is done."""
    plan = result.plan
    done = 0
    for number in range(1, plan.repeat + 1):
        for receivers in plan.receivers:
            for system in plan.present:
                tell(f"round {number}: {system.name}, {receivers} receivers", done)
                await _measure(result, system, receivers)
                done += len(plan.sizes)
        for system in plan.echoing:
            tell(f"round {number}: {system.name}, round trips", done)
            await _call(result, system)
            done += 1


async def _measure(result: Result, system: System, receivers: int) -> None:
    """All sizes with one set of processes; with new ones after a loss, since late messages may still come."""
    left = list(result.plan.sizes)
    while left:
        try:
            async with Session(system, receivers) as session:
                while left:
                    size = left.pop(0)
                    outcome = await session.measure(size, result.plan.seconds)
                    result.outcomes[system.name, size, receivers].append(outcome)
                    if outcome.lost:
                        break
        except (Failed, CannotConnect) as error:
            result.problems[system.name] = str(error)
            return


async def _call(result: Result, system: System) -> None:
    try:
        async with Session(system, 1, echo=True) as session:
            result.calls[system.name].append(await session.round_trips(result.plan.seconds))
    except (Failed, CannotConnect) as error:
        result.problems[system.name] = str(error)
