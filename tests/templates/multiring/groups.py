"""Groups of simulated peers, and a look at whether their rings are right."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.core.context import BANDWIDTH, CONTACTS
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.world import World
from gossamer.templates.multiring.template import Multiring

CHANNEL = "group"


def group(
    seed: int,
    count: int,
    *,
    settings: Mapping[str, Any] | None = None,
    over: float = 5.0,
    link: LinkModel | None = None,
) -> World:
    """So many peers that come to a group one after the other, within some seconds."""
    dice = SeededDice(seed, label="group")
    width = len(str(count))
    names = [f"p{number:0{width}d}" for number in range(1, count + 1)]
    field = Field(names, 0.005, 0.1, dice)
    world = World(seed, templates={"multiring": Multiring}, link=link)
    for name in names:
        world.add_node(name)
    world.spread(field)
    for name, contacts in field.contacts(3, dice).items():
        world.set(name, CONTACTS, contacts)
        world.set(name, BANDWIDTH, 1e5 * (1 + 99 * dice.random()))
    world.open(CHANNEL, "multiring", settings or {})
    for number, name in enumerate(names):
        world.at(over * number / count, lambda name=name: world.subscribe(name, CHANNEL))
    return world


def template(world: World, name: str) -> Multiring | None:
    """A peer as it is inside, if it is up."""
    engine = world.engine(name)
    return engine.instance(CHANNEL).template if engine else None  # type: ignore[return-value]


def members(world: World) -> list[tuple[str, Multiring]]:
    found = ((name, template(world, name)) for name in world.nodes)
    return [(name, each) for name, each in found if each is not None and each.position.rings]


def wrong(world: World) -> list[str]:
    """What is wrong with the rings: nothing, if all members stand in one ring at each level."""
    problems = []
    inside = members(world)
    level = 0
    while inside:
        ordered = sorted(inside, key=lambda each: each[1].position.me.key)
        names = [name for name, _ in ordered]
        for place, (name, each) in enumerate(ordered):
            ring = each.position.rings[level]
            right, left = names[(place + 1) % len(names)], names[place - 1]
            expected = (left, right) if len(names) > 1 else ("", "")
            stands = tuple(line[0].name if line else "" for line in (ring.left, ring.right))
            if stands != expected:
                problems.append(f"ring {level}: {name} stands between {stands}, not {expected}")
            if level == 0 and len(names) > 3:
                behind = (names[place - 2], names[(place + 2) % len(names)])
                backup = tuple(line[1].name if len(line) > 1 else "" for line in (ring.left, ring.right))
                if backup != behind:
                    problems.append(f"{name} has backup links to {backup}, not {behind}")
        level += 1
        inside = [(name, each) for name, each in inside if len(each.position.rings) > level]
    return problems


def hops(world: World, sources: Iterable[str]) -> tuple[float, int]:
    """Mean and longest of the shortest paths from some peers to all others, along links of the rings."""
    near = {name: each.spreading.hops for name, each in members(world)}
    total = count = longest = 0
    for start in sources:
        away = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for other in near.get(node, ()):
                if other not in away:
                    away[other] = away[node] + 1
                    queue.append(other)
        total += sum(away.values())
        count += len(near) - 1
        longest = max(longest, *away.values())
    return total / count, longest
