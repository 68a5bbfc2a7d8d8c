"""Three tiers: each may run logic of its own, and the backbone never lists who hangs below it."""

from __future__ import annotations

from gossamer.core.context import BELOW, NODES, SERVER, Context
from gossamer.core.names import Role
from gossamer.core.parcel import Parcel
from gossamer.core.template import Settings, Template
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.file import Below, Channel, Publish, Scenario, Subscribe
from gossamer.simulator.scenario.run import build
from gossamer.simulator.world import World


class Plain(Template[Settings]):
    """What every tier does that has nothing of its own: hands everything up."""

    name = "tiered"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send(ctx.server or (), parcel)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self.on_publish(ctx, parcel)

    @classmethod
    def for_role(cls, role: Role) -> type[Template[Settings]]:
        return {Role.BACKBONE: Top, Role.SECONDARY: Counting}.get(role, Plain)


class Counting(Plain):
    """A server counts what passes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.passed = 0

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self.passed += 1
        super().on_parcel(ctx, parcel, sender)


class Top(Plain):
    """The backbone delivers."""

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        ctx.deliver(parcel, sender)


def test_each_tier_runs_its_own_class_and_the_default_where_it_has_none() -> None:
    world = World(1, templates={"tiered": Plain})
    for name, role in (("b", Role.BACKBONE), ("s", Role.SECONDARY), ("c", Role.CLIENT)):
        world.add_node(name, role)
    for above, below, address in (("b", "s", "b"), ("s", "c", "b/s")):
        world.link(above, below)
        world.set(below, SERVER, address)
        world.set(above, BELOW, (below,))
    world.open("news", "tiered")
    kinds = {name: type(world.engine(name).instance("news").template) for name in "bsc"}  # type: ignore[union-attr]
    assert kinds == {"b": Top, "s": Counting, "c": Plain}
    world.subscribe("b", "news")
    world.publish("c", "news", b"up")
    world.run(1.0)
    assert world.engine("s").instance("news").template.passed == 1  # type: ignore[union-attr]
    assert world.messages["parcel"] == 2


def test_a_client_never_appears_in_what_the_backbone_knows_of_itself() -> None:
    scenario = Scenario(
        duration=60.0,
        network=Network(kind="field", nodes=6),
        link=LinkModel(loss=0.1),
        monitor=True,
        below=(
            Below("secondary", pick=2),
            Below("client", under="secondary", each=2),
            Below("client", pick=3),
        ),
        channel=(Channel("news", "reliable"),),
        publish=(Publish("news", 1.0, role="client", pick=2, start=20.0, end=40.0),),
        subscribe=(Subscribe("news", role="client"),),
    )
    world = build(scenario, 1)
    world.run(60.0)
    backbone = {name for name in world.nodes if "-" not in name}
    assert len(world.nodes) == 6 + 2 + 4 + 3
    for name in backbone:
        engine = world.engine(name)
        assert engine is not None
        group = engine.instance("news").template.group  # type: ignore[attr-defined]
        assert engine.containers[NODES].keys() == backbone
        assert {*group.marks, *(group.tree.nodes if group.tree else ())} <= backbone
