"""Instants that no clock can show yet are refused wherever they stand in a message."""

from __future__ import annotations

import msgspec
import pytest

from gossamer.catalog import templates
from gossamer.consensus.messages import AppendEntries, Entry, InstallSnapshot, NoSuchLog
from gossamer.core.control import AHEAD, Instant, Life, Message, check_instants
from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS
from gossamer.overlay.backbone.messages import Offer
from gossamer.runtime.net.handshake import Hello
from gossamer.templates.causal.cut import AskCut, Cut
from gossamer.templates.dispatch.hop_messages import Begin, Begun
from gossamer.templates.dispatch.messages import Tell
from gossamer.templates.dispatch.session_messages import Claim, Filled, Hosts, Passed, Settled
from gossamer.templates.multiring.messages import Announce, Found, Person, Seek
from gossamer.templates.reliable.messages import Acks
from gossamer.templates.total_order.forwarding import Relay

NOW = 1_700_000_000 * NANOSECONDS
LIFE = NOW // 1_000_000
HUGE = 2**62
LETTER = ("m", "a", LIFE, (NOW, "a"), 1)

EVIL: dict[str, Message] = {
    "tell": Tell(HUGE, 1, 0, (0, 0), (), ()),
    "tell knows": Tell(LIFE, 1, 0, (HUGE, 0), (), ()),
    "begin": Begin(HUGE, 1),
    "begun": Begun(HUGE, 1, 1),
    "hello": Hello("a", HUGE, "peer", "a", (), True),  # type: ignore[arg-type]
    "offer": Offer(1, (("a", LIFE, 1), ("b", HUGE, 1))),
    "acks": Acks(NOW, 1, (("a", HUGE, 1, 1, 1),)),
    "acks of a tree": Acks(HUGE, 1, ()),
    "cut": Cut((("a", HUGE, 1),)),
    "ask for a cut": AskCut((("a", HUGE, 1),)),
    "history": NoSuchLog("m", "a", LIFE, (HUGE, "a"), 1),
    "entry": AppendEntries(*LETTER, 1, 1, (Entry(1, "a", HUGE, 1),), 1, 1),
    "seat of an entry": AppendEntries(*LETTER, 1, 1, (Entry(1, "", 0, 0, (("a", HUGE),)),), 1, 1),
    "seat": InstallSnapshot(*LETTER, 1, 1, (("a", HUGE),), (), 1),
    "position": InstallSnapshot(*LETTER, 1, 1, (), (("a", HUGE, 1),), 1),
    "relayed letter": Relay(1, NoSuchLog("m", "a", HUGE, (0, ""), 0)),
    "claim": Passed(1, 1, Claim("orders", "a", 1, HUGE)),
    "settled": Passed(1, 1, Settled("orders", 1, HUGE)),
    "hosts": Passed(1, 1, Hosts((("orders", HUGE),))),
    "marks": Passed(1, 1, Filled("a", 1, marks=(("a", HUGE, 1),))),
    "peer": Found((Person("a", HUGE, 1, 0),)),
    "origin": Seek(Person("a", HUGE, 1, 0), 1, 1),
    "announced": Announce((("a", HUGE, 1),)),
}


@pytest.mark.parametrize("message", EVIL.values(), ids=EVIL)
def test_an_instant_of_the_future_is_refused_wherever_it_stands(message: Message) -> None:
    with pytest.raises(ProtocolError, match="a day ahead"):
        check_instants(message, NOW)


@pytest.mark.parametrize("message", EVIL.values(), ids=EVIL)
def test_the_same_message_with_an_instant_of_today_is_taken(message: Message) -> None:
    data = msgspec.msgpack.encode(message)
    honest = data.replace(HUGE.to_bytes(8, "big"), LIFE.to_bytes(8, "big"))
    check_instants(msgspec.msgpack.decode(honest, type=type(message)), NOW)


class Inner(msgspec.Struct, frozen=True, array_like=True, tag=True):
    lives: tuple[Life, ...] = ()
    maybe: Instant | None = None


class Outer(Message, frozen=True):
    name: str
    inner: Inner | None
    pairs: tuple[tuple[str, Inner | None], ...] = ()


def test_an_error_names_the_place_and_nothing_is_no_instant() -> None:
    check_instants(Outer("x", None, (("x", None), ("y", Inner()))), NOW)
    with pytest.raises(ProtocolError) as caught:
        check_instants(Outer("x", Inner((1, 2)), (("x", None), ("y", Inner((), NOW + AHEAD + 1)))), NOW)
    assert caught.value.field == "message.pairs[][1].maybe"


@pytest.mark.parametrize("template", sorted(templates()))
def test_every_life_and_epoch_of_every_vocabulary_is_checked(template: str) -> None:
    """Fields that are called so are annotated so."""
    for kind in templates()[template].vocabulary():
        for field in msgspec.structs.fields(kind):
            if field.name in ("life", "incarnation", "epoch"):
                assert field.type in (Life, Instant), f"{kind.__name__}.{field.name}"
