"""Ringtree by the share of failed members: reach, load and delay, in the simulator and by the model.

    python benchmarks/ringtree.py --out ringtree.png          # the picture, and a table
    python benchmarks/ringtree.py --members 100000            # one large world without failures

For each share that many random members crash at once. When their neighbours miss them an event is published
(without repair); then the service mends the list and another is (with repair). A delay is counted in hops.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.analysis import reach
from gossamer.core.context import NODES
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World
from gossamer.templates.ringtree.layout import begin

CHANNEL, PUBLISHERS = "news", 16
LATENCY = 0.01


class Rings(Witness):
    """Members that all reach each other in one hop of the same latency."""

    def __init__(self, members: int, seed: int, heartbeat: float, refresh: float) -> None:
        self.world = World(seed)
        self.members = [f"m{number}" for number in range(members)]
        self.arrived: dict[str, float] = {}
        self.sent: Counter[str] = Counter()
        names = ["s0", *(f"p{number}" for number in range(PUBLISHERS)), *self.members]
        for name in names:
            self.world.add_node(name)
        uniform = LinkModel(latency=LATENCY)
        field = Field(names, LATENCY, 0.0, self.world.dice("places"))
        field.model = lambda a, b, like: uniform  # type: ignore[method-assign]
        self.world.spread(field)
        self.world.set(None, NODES, dict.fromkeys(names, ()))
        settings = {"servers": "s0", "heartbeat": heartbeat, "refresh": refresh, "mend": 30.0, "retry": 2.0}
        self.world.open(CHANNEL, "ringtree", settings)
        self.heartbeat = heartbeat
        self.world.add_witness(self)
        self.world.add_tap(self.tap)
        for number in range(PUBLISHERS):
            self.world.intend(f"p{number}", CHANNEL)
        self.world.run(2.0)
        for name in self.members:
            self.world.subscribe(name, CHANNEL)
        self.world.run(10.0)

    def crash(self, share: float) -> None:
        """Crash a share of the members at once, and wait until they are missed."""
        order = list(self.members)
        self.world.dice("failures").shuffle(order)
        for name in order[: round(share * len(order))]:
            self.world.crash(name)
        self.run((3 + 2) * self.heartbeat)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def event(self) -> dict[str, float]:
        """Publish one; the share of living members it reaches, copies per member, and hops."""
        self.arrived.clear()
        self.sent.clear()
        begun = self.world.now
        self.world.publish("p0", CHANNEL)
        self.run(100 * LATENCY)
        living = [name for name in self.members if self.world.running(name)]
        hops = [round((at - begun) / LATENCY) for at in self.arrived.values()]
        loads = Counter(self.sent[name] for name in living if name in self.arrived)
        return {
            "reach": len(self.arrived) / len(living),
            "load": sum(copies * count for copies, count in loads.items()) / max(1, loads.total()),
            "most": max(loads, default=0),
            "delay": float(np.mean(hops)) if hops else 0.0,
            "farthest": max(hops, default=0),
        }

    def tap(self, sender: str, receiver: str, item: Item) -> None:
        if type(item) is Parcel:
            self.sent[sender] += 1

    def delivered(self, world: World, node: str, *_: Any) -> None:
        self.arrived.setdefault(node, world.now)


def measured(members: int, share: float, seed: int) -> dict[str, dict[str, float]]:
    """One world: an event while many are missing, and one after the list was mended."""
    rings = Rings(members, seed, heartbeat=1.0, refresh=30.0)
    rings.crash(share)
    without = rings.event()
    rings.run(240.0)
    return {"without repair": without, "with repair": rings.event()}


def modelled(rings: int, share: float) -> reach.Reach:
    """Reach, load and hops by the model, over many draws of who has failed."""
    dice = np.random.default_rng(1)
    return reach.tried([dice.random((1000, size)) >= share for size in reach.sizes(4, rings)], share)


def mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([each[key] for each in runs])) for key in runs[0]}


def large(members: int) -> dict[str, Any]:
    """A large world: what it takes of processor and memory, and whether everybody gets an event."""
    begun = time.process_time()
    rings = Rings(members, 1, heartbeat=10.0, refresh=3600.0)
    rings.run(30.0)
    joined = time.process_time()
    event = rings.event()
    done = time.process_time()
    return {
        "members": members,
        **event,
        "processor seconds to build and join": round(joined - begun, 1),
        "processor seconds for one event": round(done - joined, 1),
        "virtual seconds": rings.world.now,
        "messages": sum(rings.world.messages.values()),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def picture(found: dict[float, dict[str, dict[str, float]]], rings: int, path: Path) -> None:
    """Reach, load and delay side by side, the model as lines and worlds as marks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shares = np.linspace(0, 0.8, 17)
    models = [modelled(rings, float(share)) for share in shares]
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    left.plot(shares, [each.reached for each in models], label="three rules, model")
    left.plot(shares, [each.parents_only for each in models], "--", label="without rules, exactly")
    middle.plot(shares, [each.copies for each in models], label="mean, model")
    right.plot(shares, [each.hops for each in models], label="mean, model")
    own = sorted(found)
    for repair, mark in (("without repair", "o"), ("with repair", "^")):
        left.plot(own, [found[each][repair]["reach"] for each in own], mark, label=f"world, {repair}")
        middle.plot(own, [found[each][repair]["load"] for each in own], mark, label=f"mean, world, {repair}")
        right.plot(own, [found[each][repair]["delay"] for each in own], mark, label=f"world, {repair}")
    middle.plot(own, [found[each]["without repair"]["most"] for each in own], "x", label="most, world")
    middle.axhline(3, color="grey", linewidth=0.8, linestyle=":")
    middle.annotate("the paper's limit", (0.45, 3.03), color="grey", fontsize=8)
    titles = ("living members reached", "copies sent by a member that has the event", "hops until it arrives")
    for axes, title in zip((left, middle, right), titles, strict=True):
        axes.set(title=title, xlabel="share of members that failed", ylim=(0, None))
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rings", type=int, default=5, help="members are 4 × (2^rings − 1)")
    parser.add_argument("--members", type=int, default=0, help="one large world instead")
    parser.add_argument("--failed", type=float, nargs="*", default=[0.0, 0.1, 0.3, 0.5, 0.7])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("ringtree.png"))
    asked = parser.parse_args()
    if asked.members:
        print(json.dumps(large(asked.members), indent=2))
        return
    members, found = begin(asked.rings, 4), {}
    print(f"{members} members")
    print("failed  repair           reach   load  most  hops  farthest   model: reach  load  hops")
    for share in asked.failed:
        runs = [measured(members, share, seed) for seed in range(1, asked.seeds + 1)]
        found[share] = {repair: mean([each[repair] for each in runs]) for repair in runs[0]}
        found[share]["without repair"]["most"] = max(each["without repair"]["most"] for each in runs)
        model = modelled(asked.rings, share)
        for repair, each in found[share].items():
            by_model = (
                f"{model.reached:12.3f} {model.copies:5.2f} {model.hops:5.2f}"
                if repair == "without repair"
                else ""
            )
            line = f"{share:5.0%}   {repair:15} {each['reach']:6.3f} {each['load']:6.2f} {each['most']:5.0f}"
            print(f"{line} {each['delay']:5.2f} {each['farthest']:9.1f}   {by_model}", flush=True)
    picture(found, asked.rings, asked.out)
    print(f"{asked.out} written", file=sys.stderr)


if __name__ == "__main__":
    main()
