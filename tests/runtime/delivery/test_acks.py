"""Acknowledgements: what is not done comes again, ends as a dead letter, and a later life goes on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from gossamer import Envelope, Redelivery, Role, catalog, connect
from gossamer.errors import BadEnvelope, ConfigError, UnsupportedQoS
from tests.runtime.parties import SOON, take, turns

QUICK = {"heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}


async def test_what_is_rejected_comes_again_behind_what_waits() -> None:
    async with connect() as node:
        channel = await node.channel("work", "loop")
        async with channel.subscribe(ack="explicit") as events:
            await channel.publish_many([b"1", b"2"])
            first = await events.next(SOON)
            assert events.reject(first)
            assert events.reject(first), "it waits already, and comes once"
            second = await events.next(SOON)
            again = await events.next(SOON)
            assert (second.payload, again.payload) == (b"2", b"1")
            assert (events.attempt(second), events.attempt(again)) == (1, 2)
            assert events.ack(again)
            assert not events.ack(again)
            assert not events.reject(again)
            assert events.unacknowledged == 1


async def test_what_nobody_can_do_ends_as_a_dead_letter_that_says_where_it_comes_from() -> None:
    async with connect(name="n1") as node:
        letters = await node.channel("dead", "loop")
        channel = await node.channel("work", "loop", codec="json")
        async with letters.subscribe() as dead:
            terms = Redelivery(after=0.01, attempts=3)
            async with channel.subscribe(ack="explicit", redelivery=terms, dead_letter=letters) as events:
                await channel.publish({"job": 1}, Envelope({"kind": "hard"}))
                assert [(await events.next(SOON)).number for _ in range(3)] == [1, 1, 1]
                letter = await dead.next(SOON)
                assert (events.dead, events.unacknowledged) == (1, 0)
            assert letter.value == {"job": 1}
            assert letter.attributes == {
                "kind": "hard",
                "dead-channel": "work",
                "dead-source": "n1",
                "dead-number": 1,
                "dead-attempts": 3,
            }
            assert node.drops["not acknowledged"] == 1


async def test_a_callback_that_fails_gets_it_again_and_one_that_returns_has_done_it() -> None:
    async with connect() as node:
        channel, got = await node.channel("work", "loop"), []

        def work(event: object) -> None:
            got.append(event)
            if len(got) < 3:
                raise ValueError("try again")

        async with channel.subscribe(callback=work, redelivery=Redelivery(attempts=5)) as events:
            await channel.publish(b"1")
            while len(got) < 3:
                await turns(1)
            await turns()
            assert (events.failed, events.unacknowledged, events.dead) == (2, 0, 0)


async def test_no_more_is_handed_out_than_may_be_in_hand() -> None:
    async with connect() as node:
        channel = await node.channel("work", "loop")
        async with channel.subscribe(ack="explicit", max_pending=2) as events:
            for number in range(3):
                await channel.publish(b"%d" % number)
                channel.flush()
                if number < 2:
                    await events.next(SOON)
            with pytest.raises(Exception, match="waiting for an event"):
                await events.next(timeout=0.01)
            oldest = next(iter(events._acks._open.values())).event  # type: ignore[union-attr]
            assert events.ack(oldest)
            assert (await events.next(SOON)).payload == b"2"


async def test_a_durable_subscription_goes_on_behind_what_was_done_in_an_earlier_life(tmp_path: Path) -> None:
    async with connect(name="n1", state=tmp_path) as node:
        channel = await node.channel("log", "persistent", QUICK)
        await channel.publish_many([b"%d" % number for number in range(10)])
        async with channel.subscribe(durable="mine", ack="explicit") as events:
            got = [await events.next(SOON) for _ in range(6)]
            for event in (got[0], got[1], got[2], got[4]):  # 3 is missing: what is behind it comes again
                events.ack(event)
            await turns()
    async with connect(name="n1", state=tmp_path) as node:
        channel = await node.channel("log", "persistent", QUICK)
        async with channel.subscribe(durable="mine") as events:
            assert await take(events, 7) == [b"%d" % number for number in range(3, 10)]
        async with channel.subscribe(durable="mine") as events, channel.subscribe(durable="other") as other:
            await channel.publish(b"live")
            assert await take(events, 1) == [b"live"]
            assert (await take(other, 11))[-1] == b"live"


async def test_an_error_while_an_event_is_in_hand_leaves_it_to_the_next_life(tmp_path: Path) -> None:
    async with connect(name="n1", state=tmp_path) as node:
        channel = await node.channel("log", "persistent", QUICK)
        await channel.publish_many([b"1", b"2"])
        with suppress(ZeroDivisionError):
            async with channel.subscribe(durable="mine") as events:
                assert await take(events, 2) == [b"1", b"2"]
                raise ZeroDivisionError
        async with channel.subscribe(durable="mine") as events:
            assert await take(events, 1) == [b"2"]


async def test_what_cannot_be_is_refused() -> None:
    async with connect() as node:
        channel = await node.channel("log", "persistent")
        json = await node.channel("json", "loop", codec="json")
        with pytest.raises(ConfigError, match="state"):
            channel.subscribe(durable="mine").open()
        for terms in ({"ack": "sometimes"}, {"order": "random"}, {"ack": "none", "durable": "x"}):
            with pytest.raises(BadEnvelope):
                channel.subscribe(**terms)  # type: ignore[arg-type]
        with pytest.raises(BadEnvelope, match="without a codec"):
            channel.subscribe(dead_letter=json)
        with pytest.raises(BadEnvelope, match="pair"):
            channel.subscribe(mapping=["no pair"])  # type: ignore[list-item]
    for wrong in ({"after": 0}, {"attempts": 0}):
        with pytest.raises(BadEnvelope, match=next(iter(wrong))):
            Redelivery(**wrong)


@pytest.mark.parametrize(
    "template", sorted(name for name, each in catalog.templates().items() if not each.acknowledges)
)
async def test_where_nothing_is_acknowledged_waiting_for_it_is_refused_at_once(template: str) -> None:
    async with connect(role=Role.PEER if template == "multiring" else None) as node:
        channel = await node.channel("news", template)
        with pytest.raises(UnsupportedQoS, match=r"acknowledged; these do: .*reliable"):
            await channel.acknowledged(await channel.publish(b"x") if template != "multiring" else 1)
