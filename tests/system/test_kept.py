"""Kept subscriptions and a dispatcher that is killed: what nobody kept is told as a gap."""

from __future__ import annotations

import asyncio

import pytest

from gossamer import Node, connect
from gossamer.runtime.host import Host
from tests.system.programs import PATIENCE, address_of, gossamer, listening

MAIL = ("mail", "--template", "dispatch")
ANN = (*MAIL, "--durable", "ann", "--timeout", "60")
UP = ("up", "--json", "--listen")


def host_of(node: Node) -> Host:
    assert node._host is not None
    return node._host


async def test_a_subscriber_of_a_killed_dispatcher_is_told_a_gap() -> None:
    up = ("up", "--name", "b1", "--json", "--listen")
    with gossamer(*up, "tcp://127.0.0.1:0") as node:
        at = address_of(node)
        phone = connect(at, name="phone")
        await phone.__aenter__()
        news = await phone.channel("news", "dispatch")
        async with news.subscribe(durable="ann", ack="explicit") as events, asyncio.timeout(PATIENCE):
            await news.publish(b"1")
            assert (await events.next()).payload == b"1"
            await news.drain()
            node.process.kill()
            node.process.wait()
            with gossamer(*up, at) as again:
                assert address_of(again) == at
                await host_of(phone).until(lambda: events.missed > 0)
                await news.publish(b"2")
                assert (await events.next()).payload == b"2"
                await phone.close()


def publish(at: str, text: str) -> None:
    with gossamer("pub", *MAIL, text, "--at", at, "--wait", "0") as writer:
        assert writer.end() == 0, writer.errors()


@pytest.mark.parametrize("names", [("b0", "b1"), ("b1", "b0")])
def test_a_subscriber_without_a_memory_is_told_that_its_dispatcher_was_lost(names: tuple[str, str]) -> None:
    stays, dies = names  # the name decides which of the two is above
    with gossamer(*UP, "tcp://127.0.0.1:0", "--name", stays) as staying:
        near = address_of(staying)
        back = ("--name", dies, "--connect", near)
        with gossamer(*UP, "tcp://127.0.0.1:0", *back) as dying:
            at = address_of(dying)
            with listening(gossamer("sub", *ANN, "--at", at, "--count", "1")) as reader:
                with gossamer("pub", *MAIL, "one", "--at", near, "--wait", "30") as writer:
                    assert writer.end() == 0
                assert reader.lines(1) == ["one"]
                assert reader.end() == 0
                assert "missed" not in reader.errors()
            publish(near, "two")
            dying.kill()
            publish(near, "three")
            with gossamer(*UP, at, *back) as again:
                assert address_of(again) == at
                with gossamer("sub", *ANN, "--at", at, "--count", "1") as reader:
                    told = reader.error_line()
                    while "not kept" not in told:
                        told = reader.error_line()
                    publish(near, "four")
                    assert reader.lines(1) == ["four"]
                    assert reader.end() == 0
                    assert "missed: at least" in reader.errors()
