"""From what a scenario says to a world that is ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gossamer.catalog import templates as installed_templates
from gossamer.core.context import BELOW, CONTACTS, SERVER, TREE
from gossamer.core.errors import ConfigError
from gossamer.core.event import Criteria, QoS, check_attributes
from gossamer.core.names import Role, check_channel
from gossamer.core.template import DURABLE, Template
from gossamer.core.trace import Row
from gossamer.overlay.backbone.setup import MonitorSettings, monitor
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.network import rules
from gossamer.simulator.network.access_lines import drawn
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.topology import Network, layout, named, spanning
from gossamer.simulator.scenario.file import (
    Below,
    Channel,
    Churn,
    Move,
    Offer,
    Publish,
    React,
    Rolling,
    Scenario,
    Subscribe,
)
from gossamer.simulator.scenario.keys import after, naming
from gossamer.simulator.workload.agents import Advertiser, Mortal, Mover, Publisher, Reactor, Subscriber
from gossamer.simulator.world import World


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
        self.roles: dict[str, Role] = {}
        self._network(
            scenario.network, bool(scenario.monitor), Role.BACKBONE if scenario.below else Role.PEER
        )
        for index, below in enumerate(scenario.below):
            self._below(below, f"below[{index}]")
        self.channels = {channel.name: channel.template for channel in scenario.channel}
        for index, channel in enumerate(scenario.channel):
            self._channel(channel, f"channel[{index}]")
        for index, rule in enumerate(scenario.rule):
            self.world.add_rule(rule, f"rule[{index}]")
        for index, subscribe in enumerate(scenario.subscribe):
            self._subscribe(subscribe, f"subscribe[{index}]")
        for index, offer in enumerate(scenario.advertise):
            self._offer(offer, f"advertise[{index}]")
        for index, publish in enumerate(scenario.publish):
            self._publish(publish, f"publish[{index}]")
        for index, react in enumerate(scenario.react):
            self._react(react, f"react[{index}]")
        for index, churn in enumerate(scenario.churn):
            self._churn(churn, f"churn[{index}]")
        for index, move in enumerate(scenario.move):
            self._move(move, f"move[{index}]")
        for index, rolling in enumerate(scenario.rolling):
            self._roll(rolling, f"rolling[{index}]")

    def _network(self, network: Network, monitored: bool, role: Role) -> None:
        seed = self.seed if network.seed is None else network.seed
        if network.kind in ("field", "peers"):
            self._field(network, SeededDice(seed, label="topology"), monitored, role)
            return
        with naming("network"):
            names, edges = layout(network, SeededDice(seed, label="topology"))
            for name in names:
                self._node(name, role)
            tree = spanning(names, edges)
        for a, b in edges:
            self.world.link(a, b)
        for name in names:
            self.world.set(name, TREE, tree)

    def _field(self, network: Network, dice: SeededDice, monitored: bool, role: Role) -> None:
        names = named(network)
        field = Field(names, network.base, network.scale, dice)
        for name in names:
            self._node(name, role)
        self.world.spread(field)
        for name, contacts in field.contacts(network.contacts, dice).items():
            self.world.set(name, CONTACTS, contacts)
        if network.kind == "peers":
            for name in names:
                self.world.connect(name, drawn(network.access, dice))
        tree = None if monitored or network.kind == "peers" else field.tree()
        for name in names if tree else ():
            self.world.set(name, TREE, tree)

    def _node(self, name: str, role: Role) -> None:
        self.world.add_node(name, role)
        self.roles[name] = Role.BACKBONE if role is Role.PEER else role

    def _below(self, below: Below, key: str) -> None:
        """Hang nodes below others, which are told."""
        for server in self._picked(below.nodes, below.under, below.pick, key):
            before = self.world.container(server, BELOW) or ()
            names = [f"{server}-{below.role[0]}{number}" for number in range(1, below.each + 1)]
            with naming(key):
                for name in names:
                    self._node(name, Role(below.role))
                    self.world.link(server, name)
                    self.world.set(name, SERVER, self.world.address(server))
            self.world.set(server, BELOW, (*before, *names))

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
                qos=QoS(publish.priority, publish.expiry),
                label=key,
            )

    def _subscribe(self, subscribe: Subscribe, key: str) -> None:
        with naming(f"{key}.criteria"):
            criteria = Criteria(*subscribe.criteria)
        after(subscribe.join, subscribe.leave, f"{key}.leave")
        if (subscribe.stay is None) != (subscribe.away is None):
            raise ConfigError("stay and away go together", key=f"{key}.stay")
        if subscribe.history and DURABLE not in self.templates[self.channels[subscribe.channel]].promises:
            raise ConfigError("the template of this channel keeps no history", key=f"{key}.history")
        for node in self._chosen(subscribe, key):
            Subscriber(
                self.world,
                node,
                subscribe.channel,
                criteria=criteria,
                join=subscribe.join,
                over=subscribe.over,
                leave=subscribe.leave,
                stay=subscribe.stay,
                away=subscribe.away,
                history=subscribe.history,
                share=subscribe.feedback,
                size=subscribe.feedback_size,
                label=key,
            )

    def _offer(self, offer: Offer, key: str) -> None:
        with naming(f"{key}.criteria"):
            criteria = Criteria(*offer.criteria)
        chosen = self._chosen(offer, key)
        if not self.templates[self.channels[offer.channel]].content_based:
            raise ConfigError(f"{offer.channel!r} takes no advertisements", key=f"{key}.channel")
        for node in chosen:
            Advertiser(self.world, node, offer.channel, criteria)

    def _react(self, react: React, key: str) -> None:
        for node in self._chosen(react, key):
            Reactor(
                self.world,
                node,
                react.channel,
                share=react.share,
                size=react.size,
                end=react.end,
                label=key,
            )

    def _churn(self, churn: Churn, key: str) -> None:
        rules.known(churn.spare, self.world.nodes, f"{key}.spare")
        after(churn.start, churn.end, f"{key}.end")
        for node in self._picked(churn.nodes, churn.role, churn.pick, key):
            if node not in churn.spare:
                Mortal(
                    self.world,
                    node,
                    every=churn.every,
                    down=churn.down,
                    start=churn.start,
                    end=churn.end,
                    label=key,
                )

    def _move(self, move: Move, key: str) -> None:
        after(move.start, move.end, f"{key}.end")
        servers = [name for name in self.world.nodes if self.roles[name] is Role.BACKBONE]
        below = tuple(name for name in self.world.nodes if self.world.container(name, SERVER) in servers)
        for node in move.nodes:
            if node in self.world.nodes and node not in below:
                raise ConfigError(f"{node!r} does not hang below a backbone node", key=f"{key}.nodes")
        for node in self._picked(move.nodes or below, move.role, move.pick, key):
            Mover(self.world, node, servers, every=move.every, start=move.start, end=move.end, label=key)

    def _roll(self, rolling: Rolling, key: str) -> None:
        for place, node in enumerate(self._picked(rolling.nodes, rolling.role, rolling.pick, key)):
            down = rolling.start + place * rolling.every
            self.world.add_rule(rules.Crash(node=node, at=down), key)
            self.world.add_rule(rules.Restart(node=node, at=down + rolling.down), key)

    def _chosen(self, agents: Publish | Subscribe | React | Offer, key: str) -> list[str]:
        if agents.channel not in self.channels:
            known = ", ".join(sorted(self.channels)) or "none"
            raise ConfigError(f"there is no channel {agents.channel!r}; known: {known}", key=f"{key}.channel")
        return self._picked(agents.nodes, agents.role, agents.pick, key)

    def _picked(self, names: tuple[str, ...], role: str | None, pick: int | None, key: str) -> list[str]:
        """Named nodes or all, those of a role or any, all of them or some at random."""
        rules.known(names, self.world.nodes, f"{key}.nodes")
        nodes = [name for name in names or self.world.nodes if role in (None, self.roles[name])]
        if pick is not None:
            if pick > len(nodes):
                raise ConfigError(f"{pick} of {len(nodes)} nodes cannot be picked", key=f"{key}.pick")
            self.world.dice(f"pick {key}").shuffle(nodes)
            nodes = sorted(nodes[:pick])
        return nodes


def _services(scenario: Scenario) -> Callable[[Mapping[str, bytes]], Iterable[Template[Any]]]:
    if not scenario.monitor:
        return lambda stored: ()
    if scenario.network.kind != "field":
        raise ConfigError(f"only a field can be monitored, not a {scenario.network.kind}", key="monitor")
    settings = MonitorSettings() if scenario.monitor is True else scenario.monitor
    return lambda stored: monitor(settings)
