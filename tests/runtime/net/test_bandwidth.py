"""What a node can send is found out by the node alone, from how fast its own network takes datagrams."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.context import BANDWIDTH
from gossamer.runtime.api.node import Node
from gossamer.runtime.config import NodeConfig
from gossamer.runtime.net.bandwidth import BandwidthSettings, measure
from tests.runtime.parties import until


class SlowLine:
    """A line of so many bytes per second behind a buffer, in time of its own; sending costs some as well."""

    def __init__(self, rate: float, buffer: int = 30_000, cost: float = 5e-6, size: int = 1228) -> None:
        self.rate, self.buffer, self.cost, self.size = rate, buffer, cost, size
        self.now = 0.0
        self.waiting = 0.0
        self.sent = 0

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.waiting = max(0.0, self.waiting - seconds * self.rate)

    def send(self) -> int:
        self._pass(self.cost)
        if self.waiting + self.size > self.buffer:
            return 0
        self.waiting += self.size
        self.sent += self.size
        return self.size

    def wait(self, seconds: float) -> None:
        """As the system does it: there is room again when half of the buffer is empty."""
        self._pass(min(seconds, max(0.0, self.waiting - self.buffer / 2) / self.rate))


@given(st.floats(5e4, 1e8))
def test_the_rate_of_a_line_is_found_whatever_its_buffer_hides(rate: float) -> None:
    line = SlowLine(rate)
    assert measure(line, 2**19, 1.0, lambda: line.now) == pytest.approx(rate, rel=0.1)
    assert line.sent < 2**19 + line.size
    assert line.now < 1.1


def test_a_line_faster_than_the_node_is_as_fast_as_the_node() -> None:
    line = SlowLine(1e12)
    assert measure(line, 2**19, 1.0, lambda: line.now) == pytest.approx(line.size / line.cost, rel=0.01)


def test_a_line_that_takes_nothing_is_given_up_in_time() -> None:
    line = SlowLine(1e-3)
    measure(line, 2**19, 1.0, lambda: line.now)
    assert line.now < 1.1


SHAPED = """
import socket, time
from gossamer.runtime.net.bandwidth import DiscardLine, measure
# without it every datagram would be answered, on the same line
discards = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
discards.bind(("127.0.0.1", 9))
print(measure(DiscardLine("127.0.0.1"), 2**19, 1.0, time.monotonic))
"""


def _own_network(rate: str) -> subprocess.CompletedProcess[str]:
    shape = f"ip link set lo up mtu 1500 && tc qdisc add dev lo root tbf rate {rate} burst 4kb limit 200kb"
    command = ["unshare", "-n", "sh", "-c", f'{shape} && exec {sys.executable} -W ignore -c "$SHAPED"']
    return subprocess.run(
        command, env={**os.environ, "SHAPED": SHAPED}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("tc") or not shutil.which("unshare"),
    reason="needs a network of its own, which only root can make",
)
def test_a_line_that_the_system_slows_down_is_measured_as_slow() -> None:
    done = _own_network("2mbit")
    if "tc" in done.stderr or "RTNETLINK" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    # never more than the line has; a busy machine may find less
    assert 0.3 * 250_000 < float(done.stdout) < 1.15 * 250_000, done


def peer(name: str, *seeds: str, **bandwidth: Any) -> Node:
    config = NodeConfig(
        name=name,
        role="peer",  # type: ignore[arg-type]
        listen=("tcp://127.0.0.1:0",),
        connect=seeds,
        bandwidth=BandwidthSettings(**bandwidth),
    )
    return Node(config)


def figure(node: Node) -> float:
    return node._running.engine.containers.get(BANDWIDTH) or 0.0


async def test_a_peer_measures_once_a_channel_needs_it_and_somebody_is_there() -> None:
    async with peer("ann") as ann:
        await ann.channel("plain", template="direct")
        async with peer("bob", ann.addresses[0]) as bob:
            await bob.channel("group", template="multiring")
            async with asyncio.timeout(30):
                await until(lambda: figure(bob) > 0)
            assert not figure(ann)


async def test_who_knows_better_says_it_and_the_most_capable_form_the_inner_ring() -> None:
    settings = {"q": 2, "survey": 0.3, "beat": 0.3, "silence": 20.0}
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(7):
            seeds = nodes[0].addresses[:1] if nodes else []
            node = await stack.enter_async_context(peer(f"p{number}", *seeds, stated=1000.0 * (7 - number)))
            channel = await node.channel("group", template="multiring", settings=settings)
            await stack.enter_async_context(channel.subscribe())
            nodes.append(node)

        def inner() -> set[str]:
            found = ((each.name, each._running.engine.instance("group").template) for each in nodes)
            return {name for name, template in found if template.figures()["inner rings"]}

        async with asyncio.timeout(60):
            await until(lambda: "p0" in inner() and "p6" not in inner())
