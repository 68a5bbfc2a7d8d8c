"""What a node tells others of where it listens."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import gossamer
from gossamer.core.context import NODES
from gossamer.runtime.config import load
from gossamer.runtime.net.addresses import reachable


def hosts(addresses: tuple[str, ...]) -> list[str]:
    return [urlsplit(each).hostname or "" for each in addresses]


def test_a_node_never_tells_the_address_of_all_interfaces() -> None:
    told = reachable(["tcp://0.0.0.0:7400", "udp://[::]:7401?mtu=1200"], (), ())
    assert told
    for address, host in zip(told, hosts(told), strict=True):
        assert not ip_address(host).is_unspecified, address
    assert {urlsplit(each).port for each in told} == {7400, 7401}
    assert all(each.endswith("?mtu=1200") for each in told if each.startswith("udp"))


def test_an_address_by_which_a_link_came_is_told_first() -> None:
    assert hosts(reachable(["tcp://0.0.0.0:7400"], (), ["203.0.113.7", "2001:db8::1"]))[0] == "203.0.113.7"
    assert hosts(reachable(["tcp://[::]:7400"], (), ["203.0.113.7", "2001:db8::1"]))[0] == "2001:db8::1"


def test_an_address_of_one_link_alone_and_no_address_at_all_are_not_told() -> None:
    assert "fe80::1" not in hosts(reachable(["tcp://[::]:7400"], (), ["fe80::1", "::", "somewhere"]))


def test_a_plain_address_and_a_name_stay_what_they_are() -> None:
    listens = ["tcp://127.0.0.1:7400", "ws://example.net:80/path", "local://here"]
    assert reachable(listens, (), ["203.0.113.7"]) == tuple(listens)


def test_what_a_deployment_advertises_is_told_and_nothing_else() -> None:
    assert reachable(["tcp://0.0.0.0:7400"], ["tcp://n1.example.net:7400"], ()) == (
        "tcp://n1.example.net:7400",
    )


async def test_a_client_finds_a_node_at_what_it_tells() -> None:
    async with (
        gossamer.connect(listen="tcp://0.0.0.0:0", name="server") as server,
        gossamer.connect(server.addresses[0], name="client") as client,
    ):
        assert client.peers == ["server"]
        assert urlsplit(server.addresses[0]).hostname != "0.0.0.0"


async def test_a_name_that_is_advertised_reaches_others() -> None:
    async with gossamer.connect(
        listen="tcp://127.0.0.1:0", advertise="tcp://localhost:1", name="server"
    ) as node:
        assert node.addresses == ["tcp://localhost:1"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://0.0.0.0:1", "means that machine"),
        ("tcp://[::]:7400", "means that machine"),
        ("nonsense", "expected scheme://host:port"),
        ("n1.example.net:7400", "expected scheme://host:port"),
        ("pigeon://coop:1", "no transport for 'pigeon'"),
        ("tcp://n1.example.net", "expected scheme://host:port"),
        ("tcp://n1.example.net:0", "port 0"),
        ("tcp://n1.example.net:99999", "ort"),
    ],
)
def test_an_address_that_nobody_could_use_is_not_advertised(
    address: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(gossamer.errors.ConfigError, match=reason) as told:
        gossamer.connect(listen="tcp://127.0.0.1:0", advertise=address)
    assert told.value.key == "advertise"
    file = tmp_path / "node.toml"
    file.write_text(f'name = "a"\nadvertise = ["tcp://fine:1", "{address}"]\n')
    with pytest.raises(gossamer.errors.ConfigError, match=reason) as told:
        load(file)
    assert (told.value.key, told.value.line) == ("advertise", 2)


async def test_two_nodes_reach_each_other_by_the_name_of_a_host() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    at = f"tcp://localhost:{port}"
    async with (
        gossamer.connect(name="hub", listen="tcp://127.0.0.1:0") as hub,
        gossamer.connect(
            hub.addresses[0], name="named", role="backbone", listen=f"tcp://127.0.0.1:{port}", advertise=at
        ) as named,
        gossamer.connect(
            hub.addresses[0], name="third", role="backbone", listen="tcp://127.0.0.1:0"
        ) as third,
    ):
        assert named.addresses == [at]
        heard = await named.channel("news", "direct")
        async with heard.subscribe() as events:
            channel = await third.channel("news")
            await channel.wait_for_subscribers(10)
            await channel.publish(b"by name")
            assert (await events.next(timeout=10)).payload == b"by name"
        host = third._host
        assert host is not None
        assert "named" in third.peers
        known = host.engine.containers[NODES]
        assert known["named"] == (at,)
