"""What a node tells others of where it listens."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import gossamer
from gossamer.runtime.reachable import reachable


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
