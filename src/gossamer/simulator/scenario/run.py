"""Scenarios: a network, its channels, agents and faults in one TOML file, and what came of a run.

Bad files fail before anything runs, with a ConfigError that names the key.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gossamer.core.names import channel_id
from gossamer.core.template import Template
from gossamer.simulator.invariants.checks import CHECKS, Books, Check, Ledger, Violation
from gossamer.simulator.invariants.ledger import Stayed
from gossamer.simulator.scenario.builder import build
from gossamer.simulator.scenario.file import (
    Below,
    Channel,
    Churn,
    Offer,
    Publish,
    React,
    Scenario,
    Subscribe,
    load,
)
from gossamer.simulator.scenario.recording import Recording
from gossamer.simulator.tally import Expired, Traffic
from gossamer.simulator.world import World

__all__ = [
    "Below",
    "Channel",
    "ChannelResult",
    "Churn",
    "Offer",
    "Publish",
    "React",
    "Result",
    "Scenario",
    "Subscribe",
    "build",
    "load",
    "run",
]

STEPS = 100
"""Into how many parts a run is cut to report progress."""


class ChannelResult(msgspec.Struct, frozen=True):
    """What came of one channel.

    published … violations, stayed
        See books.Counts and books.Stayed.
    latency_p50, latency_p90, latency_p99, latency_max
        Seconds from publication to delivery.
    expired, traffic
        See tally.Expired and tally.Traffic; the channel's own, the backbone's watching aside.
    figures
        What its template counted, by name, summed over nodes and their lives.
    """

    published: int
    expected: int
    delivered: int
    earlier: int
    duplicates: int
    answered: int
    feedback: int
    feedback_duplicates: int
    missed: int
    lost: int
    violations: int
    stayed: Stayed
    latency_p50: float
    latency_p90: float
    latency_p99: float
    latency_max: float
    expired: Expired
    traffic: Traffic
    figures: dict[str, int]


class Result(msgspec.Struct, frozen=True):
    """What came of a run.

    published … violations
        See books.Counts; sums over all channels.
    examples
        The first few violations.
    unchecked
        Promises of the channels for which there is no check.
    judged
        For promises about what has come in the end: how many pairs of a source and a subscription were asked
        for it. Nothing is asked while a fault is more recent than ``patience``.
    rows, events
        Rows of the trace; entries of the heap carried out.
    latency_p50, latency_p99
        Seconds from publication to delivery.
    control_messages, control_bytes, data_messages, data_bytes
        Transmissions from node to node; feedback counts as data.
    channels
        Each channel by itself.
    services
        Transmissions of the services that run beside the channels, such as the backbone's watching.
    """

    scenario: str
    seed: int
    trace_hash: str
    virtual_seconds: float
    rows: int
    events: int
    published: int
    expected: int
    delivered: int
    earlier: int
    duplicates: int
    answered: int
    feedback: int
    feedback_duplicates: int
    missed: int
    lost: int
    violations: int
    examples: tuple[Violation, ...]
    unchecked: tuple[str, ...]
    judged: dict[str, int]
    drops: dict[str, int]
    latency_p50: float
    latency_p99: float
    control_messages: int
    control_bytes: int
    data_messages: int
    data_bytes: int
    channels: dict[str, ChannelResult] = {}
    services: dict[str, Traffic] = {}
    file: str = ""

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Promises that nothing was asked about: the run says nothing of them."""
        return tuple(promise for promise, count in sorted(self.judged.items()) if not count)

    @property
    def replay(self) -> str:
        """The command that does just this run again."""
        return f"gossamer simulate {shlex.quote(self.file or self.scenario)} --seed {self.seed}"


def run(
    scenario: Scenario,
    seed: int,
    out: Path | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    templates: Mapping[str, type[Template[Any]]] | None = None,
    checks: Mapping[str, type[Check]] = CHECKS,
    traced: bool = True,
) -> Result:
    """Run a scenario from beginning to end.

    out
        Folder for the trace, which goes to ``out/run=NAME-SEED/``; an earlier one of the same run is
        replaced.
    progress
        Is told the virtual seconds passed, a hundred times.
    traced
        Without a trace a run takes a fifth less time; its hash is empty then.
    """
    ledger = Ledger(checks, patience=scenario.patience)
    rows = Recording()
    world = build(scenario, seed, ledger, rows if traced or out else None, templates)
    rows.begin(out, f"{scenario.name or 'scenario'}-{seed}")
    for step in range(1, STEPS + 1):
        passed = scenario.duration * step / STEPS
        world.run(passed)
        if progress is not None:
            progress(passed)
    ledger.finish(world)
    rows.close()
    traffic = world.traffic()
    return Result(
        scenario=scenario.name,
        file=scenario.file,
        seed=seed,
        trace_hash=rows.digest if rows.count else "",
        virtual_seconds=world.now,
        rows=rows.count,
        events=world.clock.happened,
        **msgspec.structs.asdict(ledger.counts),
        examples=tuple(ledger.examples),
        unchecked=tuple(sorted(ledger.unchecked)),
        judged=ledger.judged,
        drops=dict(sorted(world.drops.items())),
        latency_p50=ledger.latency.seconds(0.5),
        latency_p99=ledger.latency.seconds(0.99),
        control_messages=world.messages["control"],
        control_bytes=world.tally.bytes["control"],
        data_messages=world.messages["parcel"] + world.messages["feedback"],
        data_bytes=world.tally.bytes["parcel"] + world.tally.bytes["feedback"],
        channels={
            name: _channel(books, traffic.pop(name, Traffic()), world, name)
            for name, books in sorted(ledger.channels.items())
        },
        services=dict(sorted(traffic.items())),
    )


def _channel(books: Books, traffic: Traffic, world: World, name: str) -> ChannelResult:
    latency = books.latency
    return ChannelResult(
        **msgspec.structs.asdict(books.counts),
        stayed=books.stayed,
        latency_p50=latency.seconds(0.5),
        latency_p90=latency.seconds(0.9),
        latency_p99=latency.seconds(0.99),
        latency_max=latency.seconds(1.0),
        expired=world.tally.expired.get(channel_id(name), Expired()),
        traffic=traffic,
        figures=world.figures.get(name, {}),
    )
