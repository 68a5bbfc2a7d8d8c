"""Causal order on real nodes: an answer names its question, and everybody has it in that order."""

from __future__ import annotations

from gossamer import ReceivedEvent
from tests.runtime.parties import SOON, client, reach, server


async def test_an_answer_published_on_delivery_names_its_question_and_comes_after_it_everywhere() -> None:
    async with server() as middle, client(middle, "asks") as asks, client(middle, "answers") as answers:
        asking = await asks.channel("talk", "causal")
        answering = await answers.channel("talk", "causal")
        looking = await middle.channel("talk", "causal")

        async def answer(event: ReceivedEvent) -> None:
            if event.payload.startswith(b"question"):
                await answering.publish(b"answer " + event.payload[9:])

        async with looking.subscribe() as events, answering.subscribe(callback=answer), asking.subscribe():
            await reach(asking, events)
            for number in range(50):
                await asking.publish(b"question %d" % number)
            seen: dict[bytes, ReceivedEvent] = {}
            while len(seen) < 100:
                event = await events.next(timeout=SOON)
                seen[event.payload] = event
    order = list(seen)
    for number in range(50):
        question, reply = b"question %d" % number, b"answer %d" % number
        assert order.index(question) < order.index(reply)
        assert seen[reply].source == "answers"
    stamp = seen[b"question 0"].parcel.stamp
    first = min((seen[each] for each in seen if each.startswith(b"answer")), key=lambda event: event.number)
    named = {(node, life): number for node, life, number in first.parcel.depends}
    assert named["asks", stamp.incarnation] >= stamp.sequence
