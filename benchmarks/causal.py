"""What causal order costs on the wire: bytes of dependencies per parcel, against a vector clock.

Every node publishes, subscribes and answers part of what it hears, on a random network with 20 ms per hop.
Run it with ``python benchmarks/causal.py``; it takes a few minutes.
"""

from __future__ import annotations

import msgspec

from gossamer.core.parcel import Depend, Parcel
from gossamer.core.wire import Item
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Publish, React, Scenario, Subscribe, build

DURATION, END = 60.0, 50.0


def measure(sources: int, loss: float, seed: int = 1) -> None:
    """Print one line: parcels, how many others each names, and bytes."""
    scenario = Scenario(
        network=Network(kind="random", nodes=sources),
        duration=DURATION,
        link=LinkModel(latency=0.02, jitter=0.01, loss=loss),
        channel=(Channel("talk", "causal"),),
        publish=(Publish("talk", min(1.0, 5 / sources), poisson=True, start=10.0, end=END),),
        subscribe=(Subscribe("talk"),),
        react=(React("talk", min(0.5, 0.5 / sources), end=END),),
    )
    seen: dict[tuple[str, int], tuple[Depend, ...]] = {}

    def tap(sender: str, receiver: str, item: Item) -> None:
        if isinstance(item, Parcel) and item.stamp.sequence:
            seen[item.stamp.node, item.stamp.sequence] = item.depends

    world = build(scenario, seed)
    world.add_tap(tap)
    world.run(DURATION)
    named = [len(depends) for depends in seen.values()]
    size = sum(len(msgspec.msgpack.encode(depends)) for depends in seen.values() if depends)
    last = {node: max(number for other, number in seen if other == node) for node, _ in seen}
    clock = len(msgspec.msgpack.encode([(node, 1, number) for node, number in last.items()]))
    print(
        f"{sources:3} sources, {loss:4.0%} lost: {len(seen)} parcels name {sum(named) / len(seen):.2f} "
        f"others (most {max(named)}) in {size / len(seen):.1f} bytes; a vector clock takes {clock}"
    )


if __name__ == "__main__":
    for loss in (0.0, 0.5):
        for sources in (2, 10, 50):
            measure(sources, loss)
