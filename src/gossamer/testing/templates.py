"""A conformance suite for templates: subclass it, name the template, and let pytest run it.

::

    class TestMine(TemplateConformance):
        template = Mine
        settings = {"window": 100}

Each test runs the template in the simulator, with one kind of fault or with all, and holds the run against
the template's own promises. The suite needs no pytest to be imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import inspect

from gossamer.core.control import Control, Message, handlers_of
from gossamer.core.template import Settings, Template
from gossamer.core.wire import Item, decode, decode_message, encode
from gossamer.simulator.invariants.checks import CHECKS, Check, Ledger
from gossamer.simulator.network import rules
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Publish, Result, Scenario, Subscribe, build, run
from gossamer.simulator.world import World

CHANNEL = "conformance"
DURATION = 30.0
SILENCE = 10.0
"""Seconds at the end in which nobody publishes, so that what is on its way arrives."""


class TemplateConformance:
    """What every template must do.

    template
        The class under test.
    settings
        Of the channel, as plain values.
    alone
        Whether the template works within one node only.
    mesh
        Whether every node has a link to every other; else they form a tree.
    sources
        How many nodes may publish.
    nodes
        How many nodes, in a tree with two below each if there is one, and a few with a subscriber.
    anybody
        Whether its nodes send to any other that they know of, as peers do: then all of them can reach each
        other, and the tree is not theirs.
    checks
        Checks by promise; add yours for a promise of your own.
    seeds
        Each test runs once per seed.
    """

    template: ClassVar[type[Template[Any]]]
    settings: ClassVar[Mapping[str, Any]] = {}
    alone: ClassVar[bool] = False
    mesh: ClassVar[bool] = False
    sources: ClassVar[int] = 4
    nodes: ClassVar[int] = 10
    anybody: ClassVar[bool] = False
    checks: ClassVar[Mapping[str, type[Check]]] = CHECKS
    seeds: ClassVar[Sequence[int]] = (1, 2, 3)

    # how it describes itself

    def test_it_says_what_it_promises_costs_and_needs(self) -> None:
        missing = [word for word, text in self.template.described().items() if not text]
        assert not missing, f"the docstring of {self.template.__name__} does not say: {', '.join(missing)}"

    def test_its_settings_have_defaults_and_are_explained(self) -> None:
        kind = self.template.settings_type
        self.template.parse(dict(self.settings))
        told = "".join(each.__doc__ or "" for each in kind.__mro__ if issubclass(each, Settings))
        for field in msgspec.structs.fields(kind):
            assert field.name in told, f"{kind.__name__}.{field.name} is not explained"

    def test_every_promise_has_a_check(self) -> None:
        unchecked = sorted(self.template.promises - self.checks.keys())
        assert not unchecked, f"no check for the promises {', '.join(unchecked)}"

    # what it says to its like

    def test_every_field_of_its_messages_is_bounded(self) -> None:
        for message in handlers_of(self.template):
            unbounded = sorted(set(_unbounded(inspect.type_info(message), message.__name__)))
            assert not unbounded, f"without a limit: {', '.join(unbounded)}"

    def test_its_messages_survive_the_wire(self) -> None:
        for seed in self.seeds:
            world = self.world(self.scenario(faults=True), seed)
            listener = _Listener(world, self.template)
            world.run(DURATION)
            assert not listener.garbled, f"changed on the wire: {listener.garbled[0]!r}"

    def test_it_sends_to_neighbours_only(self) -> None:
        for seed in self.seeds:
            world = self.world(self.scenario(faults=True), seed)
            listener = _Listener(world, self.template)
            world.run(DURATION)
            strangers = [] if self.anybody else listener.strangers
            assert not strangers, f"{strangers[0]} have no link"

    # what it does

    def test_without_faults_everybody_gets_everything(self) -> None:
        for result in self.results(self.scenario()):
            assert result.expected > 0, "nothing was expected: is the scenario right?"
            assert result.delivered == result.expected, (
                f"{result.delivered} of {result.expected} deliveries, dropped: {result.drops}"
            )

    def test_without_faults_every_answer_reaches_its_source(self) -> None:
        for result in self.results(self.scenario()):
            assert result.answered > 0, "nobody answered: is the scenario right?"
            assert result.feedback == result.answered, f"{result.feedback} of {result.answered} answers"

    def test_it_keeps_its_promises_when_items_are_lost(self) -> None:
        self.keeps(LinkModel(loss=0.1))

    def test_it_keeps_its_promises_when_items_come_twice(self) -> None:
        self.keeps(LinkModel(jitter=0.02, duplicate=0.3))

    def test_it_keeps_its_promises_when_items_overtake_each_other(self) -> None:
        self.keeps(LinkModel(jitter=0.02, reorder=0.3, reorder_delay=0.5))

    def test_it_keeps_its_promises_through_a_partition(self) -> None:
        self.keeps(None, *self.partition())

    def test_it_keeps_its_promises_when_a_node_crashes_and_comes_back(self) -> None:
        self.keeps(None, *self.crash())

    def test_it_keeps_its_promises_when_a_node_is_back_before_anybody_notices(self) -> None:
        node = self.inner_node()
        self.keeps(
            LinkModel(latency=0.2),
            rules.Crash(node=node, at=8.0),
            rules.Restart(node=node, at=8.1),
        )

    def test_it_keeps_its_promises_when_a_node_pauses(self) -> None:
        self.keeps(None, *self.pause())

    def test_it_keeps_its_promises_when_clocks_are_wrong(self) -> None:
        self.keeps(None, *self.skew())

    def test_it_keeps_its_promises_when_everything_fails_at_once(self) -> None:
        self.check(self.scenario(faults=True))

    def test_the_same_seed_leaves_the_same_trace(self) -> None:
        scenario = self.scenario(faults=True)
        first, again = (
            run(scenario, 1, templates=self._templates),
            run(scenario, 1, templates=self._templates),
        )
        assert first.trace_hash == again.trace_hash, "two runs with one seed differ"

    # how the runs are made

    def inner_node(self) -> str:
        """A node that others depend on: the second one, or the only one."""
        return self._name(1 if self.alone else 2)

    def crash(self) -> tuple[rules.AnyRule, ...]:
        node = self.inner_node()
        return rules.Crash(node=node, at=6.0), rules.Restart(node=node, at=10.0)

    def pause(self) -> tuple[rules.AnyRule, ...]:
        return (rules.Pause(node=self.inner_node(), start=7.0, end=9.0),)

    def partition(self) -> tuple[rules.AnyRule, ...]:
        part = () if self.alone else tuple(map(self._name, (2, 4, 5)))
        return (rules.Partition(parts=(part,), start=5.0, end=9.0),) if part else ()

    def skew(self) -> tuple[rules.AnyRule, ...]:
        ahead = rules.ClockSkew(node=self.inner_node(), offset=3600.0, drift=0.1, start=4.0)
        behind = rules.ClockSkew(node=self._name(1), offset=-5.0, drift=-0.1, start=8.0, end=12.0)
        return ahead, behind

    def scenario(
        self, link: LinkModel | None = None, *faults_by_rule: rules.AnyRule, faults: bool = False
    ) -> Scenario:
        """Publishers and subscribers on a small tree; with ``faults`` all of them.

        Unless all goes well there is also a subscriber that comes late and leaves early. (What is
        published before word of it has spread may rightly miss it.)
        """
        if faults:
            link = LinkModel(jitter=0.02, loss=0.05, duplicate=0.1, reorder=0.1)
            faults_by_rule = (*self.partition(), *self.crash(), *self.pause(), *self.skew())
        count = 1 if self.alone else self.nodes
        end = DURATION - SILENCE
        clean = link is None and not faults_by_rule
        kind: Literal["random", "field", "tree"] = "random" if self.mesh else "tree"
        kind = "field" if self.anybody else kind
        guests = () if clean else (Subscribe(CHANNEL, pick=1, join=6.0, leave=14.0),)
        return Scenario(
            name=f"conformance-{self.template.name}",
            network=Network(kind=kind, nodes=count, degree=max(1, count - 1)),
            duration=DURATION,
            link=link or LinkModel(),
            channel=(Channel(CHANNEL, self.template.name, dict(self.settings)),),
            publish=(
                *self._crowd(count, end),
                Publish(
                    CHANNEL, 5.0, nodes=(self._name(1),), start=2.0, end=end, attributes={"size": (1, 2, 3)}
                ),
            ),
            subscribe=(
                Subscribe(CHANNEL, pick=max(1, count // 2), feedback=0.2),
                Subscribe(CHANNEL, nodes=(self._name(count),), criteria=(("size", ">=", 2),)),
                *guests,
            ),
            rule=tuple(faults_by_rule),
        )

    def _crowd(self, count: int, end: float) -> tuple[Publish, ...]:
        """Sources beside the one on the first node."""
        more = min(self.sources - 1, count)
        return (Publish(CHANNEL, 10.0, pick=more, poisson=True, start=2.0, end=end),) if more > 0 else ()

    def world(self, scenario: Scenario, seed: int) -> World:
        """The world of a scenario, with a ledger that looks on."""
        return build(scenario, seed, Ledger(self.checks), templates=self._templates)

    def results(self, scenario: Scenario) -> Iterator[Result]:
        for seed in self.seeds:
            yield run(scenario, seed, templates=self._templates, checks=self.checks)

    def keeps(self, link: LinkModel | None, *faults: rules.AnyRule) -> None:
        """Run with a link model and rules, and fail at the first broken promise."""
        self.check(self.scenario(link, *faults))

    def check(self, scenario: Scenario) -> None:
        for result in self.results(scenario):
            assert result.delivered > 0, f"seed {result.seed}: nothing was delivered"
            assert not result.violations, (
                f"seed {result.seed}: {result.violations} violations, {result.examples[0]}"
            )
            assert not result.missed, f"seed {result.seed}: {result.missed} told of a gap, yet all kept up"

    @property
    def _templates(self) -> dict[str, type[Template[Any]]]:
        return {self.template.name: self.template}

    def _name(self, number: int) -> str:
        count = 1 if self.alone else self.nodes
        return f"n{number:0{len(str(count))}d}"


class _Listener:
    """Hears every transmission: sends each message through the wire, and knows who has a link to whom."""

    def __init__(self, world: World, template: type[Template[Any]]) -> None:
        self.garbled: list[Message | None] = []
        self.strangers: list[tuple[str, str]] = []
        self._template = template
        self._near = {node: frozenset(world.links(node)) for node in world.nodes}
        world.add_tap(self.hear)

    def hear(self, sender: str, receiver: str, item: Item) -> None:
        if receiver not in self._near[sender]:
            self.strangers.append((sender, receiver))
        if isinstance(item, Control):
            arrived = decode(encode(item))
            assert isinstance(arrived, Control)
            if decode_message(arrived, self._template.decoder()) != item.message:
                self.garbled.append(item.message)


_ANYTHING = (inspect.AnyType, inspect.RawType, inspect.ExtType, inspect.CustomType)
_SIZED = (
    inspect.StrType,
    inspect.BytesType,
    inspect.ByteArrayType,
    inspect.CollectionType,
    inspect.DictType,
)


def _unbounded(kind: inspect.Type, path: str, seen: frozenset[type] = frozenset()) -> Iterator[str]:
    """Paths of all values inside a type that could take any amount of memory."""
    if isinstance(kind, inspect.Metadata):
        yield from _unbounded(kind.type, path, seen)
    elif isinstance(kind, _ANYTHING) or (isinstance(kind, _SIZED) and kind.max_length is None):
        yield path
    if isinstance(kind, inspect.CollectionType):
        yield from _unbounded(kind.item_type, f"{path}[]", seen)
    elif isinstance(kind, inspect.DictType):
        yield from _unbounded(kind.key_type, f"{path} keys", seen)
        yield from _unbounded(kind.value_type, f"{path} values", seen)
    elif isinstance(kind, inspect.TupleType):
        for index, part in enumerate(kind.item_types):
            yield from _unbounded(part, f"{path}[{index}]", seen)
    elif isinstance(kind, inspect.UnionType):
        for part in kind.types:
            yield from _unbounded(part, path, seen)
    elif isinstance(kind, inspect.StructType) and kind.cls not in seen:
        for field in kind.fields:
            yield from _unbounded(field.type, f"{path}.{field.name}", seen | {kind.cls})
