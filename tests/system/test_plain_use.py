"""Three nodes as a new user would use them: what ``gossamer pub`` calls published arrives.

On one machine, and on three hosts (network namespaces) whose nodes listen at all their interfaces.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from gossamer import catalog
from tests.system import namespaces
from tests.system.cluster import free_ports
from tests.system.programs import Program, gossamer, listening

TEMPLATES = (
    "multicast",
    "single-source",
    "ringtree",
    "dispatch",
    "reliable",
    "causal",
    "total-order",
    "persistent",
    "direct",
)
WITHOUT_SERVERS = {
    "loop": "what is published never leaves the node",
    "multiring": "peers alone, without any server; test_rings starts those",
}
EVENTS = 3


def three_nodes(
    stack: ExitStack, states: Path, hosts: namespaces.Hosts | None = None, six: bool = False
) -> list[str]:
    """Backbone nodes b1, b2 and b3; where to connect to each."""
    ports = free_ports(3)
    places = hosts.addresses if hosts else ["127.0.0.1"] * 3
    if hosts and six:
        places = [f"[{each}]" for each in hosts.six]
    addresses = [f"tcp://{place}:{port}" for place, port in zip(places, ports, strict=True)]
    for number, port in enumerate(ports):
        everywhere = f"tcp://{'[::]' if six else '0.0.0.0'}:{port}"
        listen = everywhere if hosts else addresses[number]
        contact = ("--connect", addresses[0]) if number else ()
        options = ("--name", f"b{number + 1}", "--listen", listen, "--state", str(states / f"b{number}"))
        inside = hosts.inside(number) if hosts else ()
        node = stack.enter_context(gossamer("up", *options, *contact, inside=inside))
        node.line()
    return addresses


def publish_and_read(
    stack: ExitStack, template: str, name: str, at: tuple[str, str], inside: tuple[tuple[str, ...], ...]
) -> None:
    """A subscriber at one node gets what short-lived publishers hand to another."""
    options = ("--template", template, "--at")
    if template == "direct":
        reader: Program = stack.enter_context(direct_reader(name, at[1], inside[1]))
        at = (reader.line(), at[1])
    else:
        reader = stack.enter_context(
            gossamer("sub", name, *options, at[1], "--count", str(EVENTS), inside=inside[1])
        )
    listening(reader)
    for number in range(EVENTS):
        with gossamer(
            "pub", name, f"hello {number}", *options, at[0], "--wait", "20", inside=inside[0]
        ) as publisher:
            code = publisher.end()
            assert (code, publisher.errors()) == (0, "")
    assert sorted(reader.lines(EVENTS)) == [f"hello {number}" for number in range(EVENTS)], template
    assert reader.end() == 0


def direct_reader(name: str, address: str, inside: tuple[str, ...]) -> Program:
    """A backbone node that listens to a direct channel, at the host of the node that it connects to."""
    host = address.removeprefix("tcp://").rpartition(":")[0]
    where = ("reader", name, str(EVENTS), f"tcp://{host}:0", address)
    return Program("-m", "tests.system.direct_reader", *where, inside=inside)


def test_every_template_that_has_servers_is_tried() -> None:
    assert sorted({*TEMPLATES, *WITHOUT_SERVERS}) == sorted(catalog.templates())
    assert not {*TEMPLATES} & {*WITHOUT_SERVERS}


def test_what_pub_calls_published_arrives_on_one_machine_with_every_template(tmp_path: Path) -> None:
    with ExitStack() as stack:
        nodes = three_nodes(stack, tmp_path)
        for template in TEMPLATES:
            publish_and_read(stack, template, f"{template}-news", (nodes[1], nodes[2]), ((), ()))


@pytest.mark.skipif(not namespaces.usable(), reason="needs root and network namespaces")
@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
def test_nodes_that_listen_at_all_interfaces_of_three_hosts_become_one_overlay(
    tmp_path: Path, six: bool
) -> None:
    with namespaces.Hosts(3) as hosts, ExitStack() as stack:
        nodes = three_nodes(stack, tmp_path, hosts, six)
        inside = (hosts.inside(1), hosts.inside(2))
        for template in ("multicast", "reliable"):
            publish_and_read(stack, template, f"{template}-news", (nodes[1], nodes[2]), inside)
