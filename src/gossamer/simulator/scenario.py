"""Scenarios: a network, its channels, agents and faults in one TOML file, and what came of a run.

Bad files fail before anything runs, with a ConfigError that names the key.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.catalog import templates as installed_templates
from gossamer.core.config import parse
from gossamer.core.context import CONTACTS, TREE
from gossamer.core.errors import ConfigError
from gossamer.core.event import DEFAULT_PRIORITY, MAX_PAYLOAD, Criteria, Wishes, check_attributes
from gossamer.core.names import check_channel
from gossamer.core.template import Template
from gossamer.core.trace import Row
from gossamer.overlay.monitor import MonitorSettings, monitor
from gossamer.simulator import rules
from gossamer.simulator.agents import Publisher, Subscriber
from gossamer.simulator.checks import CHECKS, Check, Ledger, Violation
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.field import Field
from gossamer.simulator.keys import after, naming
from gossamer.simulator.models import LinkModel, NodeModel, Probability
from gossamer.simulator.recording import Recording
from gossamer.simulator.topology import Network, layout, named, spanning
from gossamer.simulator.world import World

STEPS = 100
"""Into how many parts a run is cut to report progress."""

Plain = str | int | float | bool
Size = Annotated[int, Meta(ge=0, le=MAX_PAYLOAD)]
Instant = rules.Instant


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel that runs on all nodes."""

    name: str
    template: str
    settings: dict[str, Plain] = {}


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publishers, one per chosen node.

    nodes, pick
        Which nodes: all if none are named; of these, so many at random if ``pick`` is given.
    rate, poisson, size, limit, start, end, attributes
        See agents.Publisher. An attribute is a value, or a list of values to choose from.
    priority, expiry
        Wishes of all events.
    """

    channel: str
    rate: Annotated[float, Meta(gt=0, le=1e6)]
    nodes: tuple[str, ...] = ()
    pick: Annotated[int, Meta(ge=1)] | None = None
    poisson: bool = False
    size: Size = 100
    limit: Annotated[int, Meta(ge=1)] | None = None
    start: Instant = 0.0
    end: Instant | None = None
    attributes: dict[str, Plain | Annotated[tuple[Plain, ...], Meta(min_length=1)]] = {}
    priority: Annotated[int, Meta(ge=0, le=9)] = DEFAULT_PRIORITY
    expiry: Annotated[float, Meta(gt=0, le=10 * 365 * 86400)] | None = None


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subscribers, one per chosen node.

    nodes, pick
        As for publishers.
    criteria
        Triples of attribute, operator and value, all of which must hold.
    join, leave
        Seconds.
    feedback, feedback_size
        Share of the events that are answered, 0 to 1, and bytes of an answer.
    """

    channel: str
    nodes: tuple[str, ...] = ()
    pick: Annotated[int, Meta(ge=1)] | None = None
    criteria: tuple[tuple[str, str, Plain], ...] = ()
    join: Instant = 0.0
    leave: Instant | None = None
    feedback: Probability = 0.0
    feedback_size: Size = 10


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a run needs but its seed.

    duration
        Virtual seconds.
    name
        The file's name without its ending if not given.
    detection
        Seconds after which neighbours notice a crash.
    monitor
        Whether the nodes of a field run the monitoring services, which find the tree; or a table of their
        settings.
    file
        Where it was loaded from; ``load`` sets it.
    """

    network: Network
    duration: Annotated[float, Meta(gt=0, le=1e9)]
    name: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    detection: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    monitor: bool | MonitorSettings = False
    link: LinkModel = LinkModel()
    node: NodeModel = NodeModel()
    channel: tuple[Channel, ...] = ()
    publish: tuple[Publish, ...] = ()
    subscribe: tuple[Subscribe, ...] = ()
    rule: tuple[rules.AnyRule, ...] = ()
    file: str = ""


class Result(msgspec.Struct, frozen=True):
    """What came of a run.

    published, expected, delivered, duplicates, answered, feedback, feedback_duplicates, missed, violations
        See checks.Counts.
    examples
        The first few violations.
    unchecked
        Promises of the channels for which there is no check.
    rows, events
        Rows of the trace; entries of the heap carried out.
    latency_p50, latency_p99
        Seconds from publication to delivery.
    control_messages, control_bytes, data_messages, data_bytes
        Transmissions from node to node; feedback counts as data.
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
    duplicates: int
    answered: int
    feedback: int
    feedback_duplicates: int
    missed: int
    violations: int
    examples: tuple[Violation, ...]
    unchecked: tuple[str, ...]
    drops: dict[str, int]
    latency_p50: float
    latency_p99: float
    control_messages: int
    control_bytes: int
    data_messages: int
    data_bytes: int
    file: str = ""

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def replay(self) -> str:
        """The command that does just this run again."""
        return f"gossamer simulate {shlex.quote(self.file or self.scenario)} --seed {self.seed}"


def load(path: str | Path) -> Scenario:
    """Read a scenario file; raises ConfigError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"the scenario cannot be read: {reason}", file=str(path)) from None
    scenario = parse(text, Scenario, str(path))
    return msgspec.structs.replace(scenario, name=scenario.name or path.stem, file=str(path))


def run(
    scenario: Scenario,
    seed: int,
    out: Path | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    templates: Mapping[str, type[Template[Any]]] | None = None,
    checks: Mapping[str, type[Check]] = CHECKS,
) -> Result:
    """Run a scenario from beginning to end.

    out
        Folder for the trace, which goes to ``out/run=NAME-SEED/``; an earlier one of the same run is
        replaced.
    progress
        Is told the virtual seconds passed, a hundred times.
    """
    ledger = Ledger(checks)
    rows = Recording()
    world = build(scenario, seed, ledger, rows, templates)
    rows.begin(out, f"{scenario.name or 'scenario'}-{seed}")
    for step in range(1, STEPS + 1):
        passed = scenario.duration * step / STEPS
        world.run(passed)
        if progress is not None:
            progress(passed)
    ledger.finish(world)
    rows.close()
    counts = {name: getattr(ledger.counts, name) for name in ledger.counts.__struct_fields__}
    return Result(
        scenario=scenario.name,
        file=scenario.file,
        seed=seed,
        trace_hash=rows.digest,
        virtual_seconds=world.now,
        rows=rows.count,
        events=world.clock.happened,
        **counts,
        examples=tuple(ledger.examples),
        unchecked=tuple(sorted(ledger.unchecked)),
        drops=dict(sorted(world.drops.items())),
        latency_p50=ledger.latency.seconds(0.5),
        latency_p99=ledger.latency.seconds(0.99),
        control_messages=world.messages["control"],
        control_bytes=world.bytes["control"],
        data_messages=world.messages["parcel"] + world.messages["feedback"],
        data_bytes=world.bytes["parcel"] + world.bytes["feedback"],
    )


def build(
    scenario: Scenario,
    seed: int,
    ledger: Ledger | None = None,
    recorder: Callable[[Row], None] | None = None,
    templates: Mapping[str, type[Template[Any]]] | None = None,
) -> World:
    """The world of a scenario, ready to run; raises ConfigError naming the key."""
    try:
        return _Builder(scenario, seed, ledger, recorder, templates).world
    except ConfigError as error:
        if error.file or not scenario.file:
            raise
        raise ConfigError(error.reason, key=error.key, file=scenario.file) from None


class _Builder:
    """Puts a world together in the order of the file."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        ledger: Ledger | None,
        recorder: Callable[[Row], None] | None,
        templates: Mapping[str, type[Template[Any]]] | None,
    ) -> None:
        self.templates = installed_templates() if templates is None else templates
        self.seed = seed
        self.world = World(
            seed,
            templates=self.templates,
            recorder=recorder,
            link=scenario.link,
            node=scenario.node,
            detection=scenario.detection,
            services=_services(scenario),
        )
        if ledger is not None:
            self.world.add_witness(ledger)
        self._network(scenario.network, bool(scenario.monitor))
        self.channels = {channel.name for channel in scenario.channel}
        for index, channel in enumerate(scenario.channel):
            self._channel(channel, f"channel[{index}]")
        for index, rule in enumerate(scenario.rule):
            self.world.add_rule(rule, f"rule[{index}]")
        for index, subscribe in enumerate(scenario.subscribe):
            self._subscribe(subscribe, f"subscribe[{index}]")
        for index, publish in enumerate(scenario.publish):
            self._publish(publish, f"publish[{index}]")

    def _network(self, network: Network, monitored: bool) -> None:
        seed = self.seed if network.seed is None else network.seed
        if network.kind == "field":
            self._field(network, SeededDice(seed, label="topology"), monitored)
            return
        with naming("network"):
            names, edges = layout(network, SeededDice(seed, label="topology"))
            for name in names:
                self.world.add_node(name)
            tree = spanning(names, edges)
        for a, b in edges:
            self.world.link(a, b)
        self.world.set(None, TREE, tree)

    def _field(self, network: Network, dice: SeededDice, monitored: bool) -> None:
        names = named(network)
        field = Field(names, network.base, network.scale, dice)
        for name in names:
            self.world.add_node(name)
        self.world.spread(field)
        for name, contacts in field.contacts(network.contacts, dice).items():
            self.world.set(name, CONTACTS, contacts)
        if not monitored:
            self.world.set(None, TREE, field.tree())

    def _channel(self, channel: Channel, key: str) -> None:
        if channel.template not in self.templates:
            known = ", ".join(sorted(self.templates))
            raise ConfigError(
                f"there is no template {channel.template!r}; known: {known}", key=f"{key}.template"
            )
        with naming(f"{key}.name"):
            check_channel(channel.name)
        with naming(f"{key}.settings"):
            self.templates[channel.template].parse(dict(channel.settings))
        with naming(f"{key}.name"):
            self.world.open(channel.name, channel.template, channel.settings)

    def _publish(self, publish: Publish, key: str) -> None:
        attributes = {
            name: values if isinstance(values, tuple) else (values,)
            for name, values in publish.attributes.items()
        }
        with naming(f"{key}.attributes"):
            for name, values in attributes.items():
                for value in values:
                    check_attributes({name: value})
        after(publish.start, publish.end, f"{key}.end")
        for node in self._chosen(publish, key):
            Publisher(
                self.world,
                node,
                publish.channel,
                rate=publish.rate,
                poisson=publish.poisson,
                size=publish.size,
                limit=publish.limit,
                start=publish.start,
                end=publish.end,
                attributes=attributes,
                wishes=Wishes(publish.priority, publish.expiry),
                label=key,
            )

    def _subscribe(self, subscribe: Subscribe, key: str) -> None:
        with naming(f"{key}.criteria"):
            criteria = Criteria(*subscribe.criteria)
        after(subscribe.join, subscribe.leave, f"{key}.leave")
        for node in self._chosen(subscribe, key):
            Subscriber(
                self.world,
                node,
                subscribe.channel,
                criteria=criteria,
                join=subscribe.join,
                leave=subscribe.leave,
                share=subscribe.feedback,
                size=subscribe.feedback_size,
                label=key,
            )

    def _chosen(self, agents: Publish | Subscribe, key: str) -> list[str]:
        if agents.channel not in self.channels:
            known = ", ".join(sorted(self.channels)) or "none"
            raise ConfigError(f"there is no channel {agents.channel!r}; known: {known}", key=f"{key}.channel")
        rules.known(agents.nodes, self.world.nodes, f"{key}.nodes")
        nodes = list(agents.nodes or self.world.nodes)
        if agents.pick is not None:
            if agents.pick > len(nodes):
                raise ConfigError(f"{agents.pick} of {len(nodes)} nodes cannot be picked", key=f"{key}.pick")
            self.world.dice(f"pick {key}").shuffle(nodes)
            nodes = sorted(nodes[: agents.pick])
        return nodes


def _services(scenario: Scenario) -> Callable[[Mapping[str, bytes]], Iterable[Template[Any]]]:
    if not scenario.monitor:
        return lambda stored: ()
    if scenario.network.kind != "field":
        raise ConfigError(f"only a field can be monitored, not a {scenario.network.kind}", key="monitor")
    settings = MonitorSettings() if scenario.monitor is True else scenario.monitor
    return lambda stored: monitor(settings)
