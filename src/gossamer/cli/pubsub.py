"""``gossamer pub``, ``sub`` and ``request``: events from and to a terminal."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, get_args

import typer

from gossamer.cli.lines import lines
from gossamer.cli.node import At, Json, Trusted
from gossamer.cli.session import DEFAULT_LISTEN, until_stopped
from gossamer.core.errors import BadEnvelope, ConfigError, NoAnswer, UnknownChannel
from gossamer.core.event import DEFAULT_PRIORITY, Attributes, Criteria, Envelope, QoS, Value
from gossamer.filters.language import event as parsed_event
from gossamer.filters.language import parse
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.event import ReceivedEvent
from gossamer.runtime.api.node import Node, connect
from gossamer.runtime.api.options import MAX_PENDING, OnFull
from gossamer.runtime.config import Limits

ChannelName = Annotated[str, typer.Argument(help="Name of the channel.", metavar="CHANNEL")]
TemplateName = Annotated[
    str, typer.Option("--template", help="Template to make the channel from, if it does not exist.")
]
Attribute = Annotated[
    list[str] | None, typer.Option("--attribute", "-a", help="NAME=VALUE for the envelope; may be repeated.")
]
EventText = Annotated[
    str | None, typer.Option("--event", help="'SoftwareReleased(Editor, 1.3, WinNT)': name and parameters.")
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--setting", help="NAME=VALUE for the channel, if it does not exist; may be repeated."),
]
Priority = Annotated[int, typer.Option(help="0 to 9.")]
Expiry = Annotated[float | None, typer.Option(help="Seconds after which nobody wants it.")]


def value_of(text: str) -> Value:
    """A typed value: true and false, whole numbers, numbers, and text (quoted if it looks like another)."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def attributes_of(pairs: list[str] | None, event: str | None = None) -> Attributes:
    """Attributes from an event such as ``SoftwareReleased(Editor, 1.3, WinNT)`` and from NAME=VALUE."""
    attributes: Attributes = parsed_event(event) if event else {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator:
            raise BadEnvelope("attribute", pair, "expected NAME=VALUE")
        # parameters of an event such as SoftwareReleased(Editor, 1.3) are numbered, and are texts
        attributes[name] = value if name.isdigit() else value_of(value)
    return attributes


def settings_of(pairs: list[str] | None) -> dict[str, Value]:
    """Settings of a template from NAME=VALUE."""
    settings: dict[str, Value] = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator:
            raise ConfigError(f"a setting is NAME=VALUE, and this is {pair!r}", key="setting")
        settings[name] = value_of(value)
    return settings


def criteria_of(conditions: list[str] | None) -> Criteria:
    """Criteria from filters such as ``price>10``, ``name prefix Win`` and ``*(Editor, *, Win*)``."""
    return Criteria(*(each for text in conditions or () for each in parse(text).constraints))


def described(channel: str, event: ReceivedEvent) -> dict[str, Any]:
    """An event for programs to read."""
    try:
        payload = {"payload": event.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": base64.b64encode(event.payload).decode()}
    attributes = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in event.attributes.items()
    }
    return {
        "channel": channel,
        "source": event.source,
        "number": event.number,
        "offset": event.offset,
        "sent_ns": event.sent,
        "attributes": attributes,
        **payload,
    }


def _show(channel: str, event: ReceivedEvent, as_json: bool) -> None:
    if as_json:
        print(json.dumps(described(channel, event)))
    else:
        sys.stdout.buffer.write(event.payload + b"\n")
    sys.stdout.flush()


def pub(
    channel: ChannelName,
    payload: Annotated[
        list[str] | None, typer.Argument(help="One event each; without any, each line of standard input.")
    ] = None,
    at: At = DEFAULT_LISTEN,
    template: TemplateName = "multicast",
    trust: Trusted = None,
    attribute: Attribute = None,
    event: EventText = None,
    setting: Setting = None,
    advertise: Annotated[
        list[str] | None, typer.Option(help="Filter that all events meet, said first; may be repeated.")
    ] = None,
    priority: Priority = DEFAULT_PRIORITY,
    expiry: Expiry = None,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep the last one for those who come later.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Publish everything so many times.")] = 1,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for a subscriber before publishing.")
    ] = 1.0,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds until another node must have taken the events over.")
    ] = 30.0,
    as_json: Json = False,
) -> None:
    """Publish events, and wait until another node has taken them over.

    Exit code 0 means, by the template of the channel: total-order, persistent: they are acknowledged.
    reliable, causal: the server has them and delivers them. dispatch: the server has confirmed them.
    multicast, single-source, ringtree, multiring, direct: the next nodes have read them, or on connections
    that may lose something the network has taken them; these templates repair nothing. With --json,
    "taken_over" says the same. Exit code 1: they were not taken over, and the message names the reason.
    """
    envelope = Envelope(attributes_of(attribute, event), QoS(priority, expiry, retain=retain))
    settings, offers = settings_of(setting), [parse(text) for text in advertise or ()]
    texts = [each.encode() for each in payload] * repeat if payload else None
    done = until_stopped(
        lambda: _publish(
            channel, texts, envelope, at, template, settings, offers, trust, wait, timeout, as_json
        )
    )
    if done is None:
        raise typer.Exit(130)


async def _publish(
    name: str,
    payloads: list[bytes] | None,
    envelope: Envelope,
    at: str,
    template: str,
    settings: dict[str, Value],
    offers: list[Criteria],
    trust: list[str] | None,
    wait: float,
    timeout: float,
    as_json: bool,
) -> bool:
    published, taken_over = 0, False
    limits = Limits(handover=min(timeout, Limits().handover))
    async with connect(at, trust=trust or (), limits=limits) as node:
        channel = await _open(node, name, template, settings)
        for offer in offers:
            await channel.advertise(offer)
        heard = True
        try:
            await channel.wait_for_subscribers(wait or 0.001)
        except NoAnswer:
            heard = False
        try:
            async for payload in given(payloads):
                try:
                    async with asyncio.timeout(timeout):
                        await channel.publish(payload, envelope)
                except TimeoutError:
                    raise NoAnswer(f"publishing event {published + 1} on {name!r}", timeout) from None
                published += 1
            await channel.drain(timeout)
            taken_over = True
        finally:
            heard = heard or channel.has_subscribers()
            if as_json:
                about = {"published": published, "taken_over": taken_over, "subscribers": heard}
                print(json.dumps({"channel": name, **about}))
            elif not heard:
                print(f"published {published}, but nobody listens on {name!r}", file=sys.stderr)
    return True


async def given(payloads: list[bytes] | None) -> AsyncIterator[bytes]:
    if payloads is not None:
        for payload in payloads:
            yield payload
        return
    if sys.stdin.isatty():
        print("each line is an event; Ctrl-D ends", file=sys.stderr)
    async for line in lines(sys.stdin.fileno()):
        yield line


async def _open(node: Node, name: str, template: str, settings: dict[str, Value] | None = None) -> Channel:
    """The channel as it is, or a new one made from the template."""
    try:
        return await node.channel(name)
    except UnknownChannel:
        return await node.channel(name, template, settings)


def sub(
    channel: ChannelName,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Filter: 'price>10', '*(Editor, Win*)'; may be repeated, all must hold."),
    ] = None,
    at: At = DEFAULT_LISTEN,
    template: TemplateName = "multicast",
    trust: Trusted = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Give up after so many seconds without one.")
    ] = None,
    reply: Annotated[str | None, typer.Option(help="Answer every event with this text.")] = None,
    max_pending: Annotated[int, typer.Option(min=1, help="Events that may wait here.")] = MAX_PENDING,
    on_full: Annotated[str, typer.Option(help=f"What then: {', '.join(get_args(OnFull))}.")] = "block",
    retained: Annotated[bool, typer.Option("--retained", help="The last value first.")] = False,
    setting: Setting = None,
    from_offset: Annotated[
        int | None, typer.Option(min=0, help="The history first, from this offset on (persistent).")
    ] = None,
    from_time: Annotated[
        datetime | None, typer.Option(help="The history first, from this instant on (persistent).")
    ] = None,
    state: Annotated[str, typer.Option(help="Folder in which this program remembers --durable.")] = "",
    durable: Annotated[
        str, typer.Option(metavar="NAME", help="Go on where the last one of this name ended (dispatch).")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the events of a channel, one line each."""
    criteria, settings = criteria_of(where), settings_of(setting)

    async def show() -> bool:
        async with connect(at, trust=trust or (), state=state) as node:
            opened = await _open(node, channel, template, settings)
            terms: dict[str, Any] = {"max_pending": max_pending, "on_full": on_full, "retained": retained}
            terms |= {"from_offset": from_offset, "from_time": from_time}
            if durable:
                terms |= {"durable": durable, "ack": "explicit"}
            async with opened.subscribe(criteria, **terms) as events:
                if not as_json:
                    print(f"listening on {channel!r}; Ctrl-C ends", file=sys.stderr)
                left = count
                try:
                    while left is None or left:
                        event = await events.next(timeout=timeout)
                        _show(channel, event, as_json)
                        if reply is not None:
                            await event.feedback(reply.encode())
                        if durable:
                            events.ack(event)
                        left = None if left is None else left - 1
                finally:
                    if events.dropped:
                        print(f"{events.dropped} events were dropped here", file=sys.stderr)
                    if events.missed:
                        print(f"missed: at least {events.missed}, before or between these", file=sys.stderr)
        return True

    until_stopped(show)


def request(
    channel: ChannelName,
    payload: Annotated[str, typer.Argument(help="What to ask.")],
    at: At = DEFAULT_LISTEN,
    template: TemplateName = "multicast",
    trust: Trusted = None,
    attribute: Attribute = None,
    event: EventText = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the answer.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Publish an event and show the first answer to it."""
    envelope = Envelope(attributes_of(attribute, event))

    async def ask() -> bool:
        async with connect(at, trust=trust or ()) as node:
            opened = await _open(node, channel, template)
            await opened.wait_for_subscribers(timeout)
            answer = await opened.request(payload.encode(), envelope, timeout=timeout)
            _show(channel, answer, as_json)
        return True

    if until_stopped(ask) is None:
        raise typer.Exit(130)
