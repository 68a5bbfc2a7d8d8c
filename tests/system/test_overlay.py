"""A real overlay of five processes that mixes transports by configuration, and loses a backbone node.

Three backbone nodes, a secondary server and a client, each from its own file. Backbone nodes are bound to
multicast among themselves and to udp towards the secondary server; the client has tcp. The backbone node that
is killed is the rendezvous node of the channel, so it stands in the middle of the tree.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from gossamer.core.names import channel_id
from gossamer.overlay.groups.rendezvous import rendezvous
from tests.system.programs import HERE, Program, gossamer

CHANNEL = next(
    name
    for name in (f"prices-{number}" for number in count())
    if rendezvous(channel_id(name), ["b1", "b2", "b3"]) == "b2"
)

MARKS = 30
"""Events sent on their way one by one after the kill, each when the one before has reached everybody."""

MONITOR = """
[monitor]
probe_budget = 5000
pause = 0.1
"""

BINDINGS = """
[[bind]]
channel = "prices-*"
tier = "backbone"
transports = ["{backbone}"]

[[bind]]
channel = "prices-*"
tier = "secondary"
transports = ["udp"]
"""


def group() -> str:
    """A group of loopback that nobody else uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"239.{os.getpid() % 250}.11.{os.getpid() // 250 % 250}"
    return f"multicast://{address}:{port}?interface=127.0.0.1&ttl=0"


class Overlay:
    """Five processes; the client hangs below the first of its servers."""

    def __init__(self, stack: ExitStack, folder: Path, client_of: tuple[str, ...]) -> None:
        self.stack, self.folder = stack, folder
        self.at: dict[str, str] = {}
        self.group = group()
        everywhere = ("tcp://127.0.0.1:0", "udp://127.0.0.1:0", self.group)
        self.victim = self.add("b2", "backbone", everywhere, ())
        self.publisher = self.add("b1", "backbone", everywhere, ("b2",))
        self.readers = {
            "b3": self.add("b3", "backbone", everywhere, ("b2",)),
            "s": self.add("s", "secondary", everywhere[:2], ("b3", "b1")),
            "c": self.add("c", "client", (), client_of),
        }
        assert self.publisher.json()["links"].keys() >= {"b2", "b3"}

    def add(self, name: str, role: str, listen: tuple[str, ...], servers: tuple[str, ...]) -> Program:
        """Start a node from its file; it is up when this returns."""
        file = self.folder / f"{name}.toml"
        settings = {
            "name": name,
            "role": role,
            "listen": list(listen),
            "connect": [self.at[each] for each in servers],
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        if role != "client":
            bindings = BINDINGS.format(backbone="multicast" if role == "backbone" else "udp")
            if role == "secondary":
                bindings = bindings[: bindings.rindex("[[bind]]")]
            lines.append(bindings)
            lines.append(MONITOR)
        if name == "b2":
            lines.append(
                f'[[channel]]\nname = "{CHANNEL}"\ntemplate = "reliable"\nsettings = {{ refresh = 2 }}'
            )
        file.write_text("\n".join(lines))
        if name == "b2":
            program = gossamer("up", str(file), "--json")
        elif name == "b1":
            peers = {"b2": ["tcp", "multicast"], "b3": ["multicast"]}
            program = self.script("overlay_publisher.py", str(file), CHANNEL, json.dumps(peers))
        else:
            program = self.script("overlay_subscriber.py", str(file), CHANNEL)
        self.stack.enter_context(program)
        addresses = program.json()["listen"]
        self.at[name] = addresses[0] if addresses else ""
        return program

    def script(self, name: str, *arguments: str) -> Program:
        return Program(str(HERE / name), *arguments, stdin=subprocess.PIPE)

    def marked(self) -> None:
        """What is published now reaches everybody."""
        self.publisher.write("mark\n")
        for reader in self.readers.values():
            assert "mark" in reader.json()


@pytest.mark.parametrize("client_of", [("s",), ("b2", "b3")], ids=["a node between", "the client's server"])
def test_a_killed_backbone_node_costs_reliable_channels_nothing(
    tmp_path: Path, client_of: tuple[str, ...]
) -> None:
    with ExitStack() as stack:
        overlay = Overlay(stack, tmp_path, client_of)
        overlay.publisher.write("go\n")
        for reader in overlay.readers.values():
            assert reader.json()["first"] >= 1
        overlay.marked()
        overlay.victim.kill()
        for _ in range(MARKS):
            overlay.marked()
        overlay.publisher.write("stop\n")
        published = overlay.publisher.json()
        reports = {name: reader.json() for name, reader in overlay.readers.items()}
        for program in (overlay.publisher, *overlay.readers.values()):
            program.end_input()
        for program in (overlay.publisher, *overlay.readers.values()):
            assert program.end() == 0, program.errors()

    for name, report in reports.items():
        moved = name == "c" and client_of[0] == "b2"
        assert report["last"] == published["last"], name
        assert report["disorder"] == report["dropped"] == 0, name
        assert report["gaps"] == 0 or (moved and report["gaps"] <= report["told"]), (name, report)

    assert published["links"]["b3"]["multicast"] >= MARKS, "the backbone did not use its group"
    (server,) = reports["s"]["links"].keys() - {"c"}
    assert reports["s"]["links"][server]["udp"] >= MARKS, "the secondary server did not use udp"
    (only,) = reports["c"]["links"].values()
    assert only.keys() == {"tcp"}
