"""A context without an engine, and parcels without a network: enough to list a template's effects.

::

    ctx = FakeContext("b", neighbours=("a", "c"))
    template = Multicast(MulticastSettings())
    template.on_parcel(ctx, parcel("a"), "a")
    assert ctx.sent() == []

Nothing happens by itself: a test calls the handlers, sets ``ctx.now`` and reads what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from typing import Any, NoReturn, TypeVar

from gossamer.core.context import BELOW, SERVER, TREE, ChannelSpec, Context, Dice
from gossamer.core.control import Control, Message
from gossamer.core.effect import Deliver, DeliverFeedback, Drop, Effect, Reply, Send, Wake
from gossamer.core.event import NO_QOS, Attributes, Criteria, QoS
from gossamer.core.names import Role, channel_id
from gossamer.core.parcel import Answer, Header, Parcel, make_body
from gossamer.core.receipt import Notary, Stamp
from gossamer.core.tree import Tree

CHANNEL = "news"
"""The channel of fakes that are not given one."""

T = TypeVar("T", bound=Effect)
Element = TypeVar("Element")


class NoDice:
    """Dice of a test that gave none: a template that rolls them is told so."""

    def random(self) -> float:
        self._refuse()

    def randrange(self, stop: int, /) -> int:
        self._refuse()

    def choice(self, seq: Sequence[Element], /) -> Element:
        self._refuse()

    def shuffle(self, seq: MutableSequence[Any], /) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise AssertionError("the template rolls dice: give FakeContext(..., rng=random.Random(seed))")


class _FakeDesk:
    """The engine's side of the fake: notes what was asked for and does nothing else."""

    def __init__(self, effects: list[Effect], containers: dict[str, Any]) -> None:
        self.effects = effects
        self.containers = containers
        self.opened: list[ChannelSpec] = []

    def deliver(self, context: Context, parcel: Parcel, sender: str | None) -> None:
        self.effects.append(Deliver(context.id, 0, parcel, None, sender))

    def deliver_feedback(self, context: Context, parcel: Parcel) -> None:
        self.effects.append(DeliverFeedback(context.id, parcel))

    def open(self, spec: ChannelSpec) -> None:
        self.opened.append(spec)

    def put(self, name: str, value: object) -> None:
        self.containers[name] = value


class FakeContext(Context):
    """One template instance's view of a node that is not there. Everything asked for is in ``effects``.

    neighbours
        Who is next to the node; short for a tree that is a star around it.
    tree, server, below
        The containers of those names, if the place of the node matters.
    subscribers
        Local subscriptions and their criteria; change the dict to make somebody come or go.
    rng
        Dice; a template that rolls them needs them given, for instance ``random.Random(7)``.

    ``deliver`` records one Deliver with subscription 0 per call, whoever subscribes: which events each
    subscriber's criteria pick is the engine's work, not the template's.
    """

    def __init__(
        self,
        node: str,
        *,
        neighbours: Iterable[str] = (),
        tree: Tree | None = None,
        server: str | None = None,
        below: Iterable[str] = (),
        containers: Mapping[str, Any] | None = None,
        channel: str = CHANNEL,
        subscribers: Mapping[int, Criteria] | None = None,
        rng: Dice | None = None,
        role: Role = Role.PEER,
        incarnation: int = 1,
        now: int = 0,
    ) -> None:
        near = tuple(neighbours)
        if near and tree is not None:
            raise ValueError(f"neighbours {near} and a tree say the same twice: give one of them")
        if near:
            tree = Tree((node, each) for each in near)
        self.effects: list[Effect] = []
        self.containers: dict[str, Any] = {
            TREE: tree,
            SERVER: server,
            BELOW: tuple(below),
            **(containers or {}),
        }
        self._fake = _FakeDesk(self.effects, self.containers)
        super().__init__(
            node=node,
            channel=channel,
            emit=self.effects.append,
            desk=self._fake,
            rng=rng or NoDice(),
            containers=self.containers,
            role=role,
            incarnation=incarnation,
        )
        self.now = now
        self.subscribers.update(subscribers or {})

    @property
    def opened(self) -> list[ChannelSpec]:
        """Channels that a service asked to run here."""
        return self._fake.opened

    def sent(self) -> list[tuple[str, Parcel | Message]]:
        """What was sent, to whom, in order; one pair per receiver, control messages unwrapped."""
        return [(to, _inside(effect.item)) for effect in self._all(Send) for to in effect.to]

    def delivered(self) -> list[Parcel]:
        """Parcels handed to local subscribers, in order."""
        return [effect.parcel for effect in self._all(Deliver)]

    def answered(self) -> list[Parcel]:
        """Feedback that reached its target here, in order."""
        return [effect.parcel for effect in self._all(DeliverFeedback)]

    def dropped(self) -> list[tuple[Parcel | Message, str]]:
        """What was dropped and why, in order."""
        return [(_inside(effect.item), effect.reason) for effect in self._all(Drop)]

    def woken(self) -> dict[str, int]:
        """Wakes that are due at some instant, by name, after all replacements and cancellations."""
        due: dict[str, int] = {}
        for effect in self._all(Wake):
            due.pop(effect.name, None)
            if effect.at is not None:
                due[effect.name] = effect.at
        return due

    def replies(self) -> list[Reply]:
        """Answers to calls of the application, in order."""
        return self._all(Reply)

    def clear(self) -> None:
        """Forget the effects so far, wakes included."""
        self.effects.clear()

    def _all(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


def _inside(item: Parcel | Control) -> Parcel | Message:
    if isinstance(item, Parcel):
        return item
    assert item.message is not None, "a template sends messages, not bytes"
    return item.message


def notary(node: str) -> Notary:
    """The notary of a node in tests; its secret is its name."""
    return Notary(node.encode())


def parcel(
    source: str,
    sequence: int = 1,
    first: int = 1,
    payloads: Sequence[bytes] = (b"x",),
    *,
    attributes: Sequence[Attributes | None] = (),
    qos: QoS = NO_QOS,
    channel: str = CHANNEL,
    incarnation: int = 1,
    sent: int = 0,
) -> Parcel:
    """A parcel just as the source would seal it, proved by ``notary`` of the last node of its address."""
    body, split = make_body(payloads, attributes)
    stamp = _stamp(source, sequence, first, len(payloads), channel, incarnation)
    return Parcel(Header(channel_id(channel), stamp, sent, split, _made(qos)), body)


def answer(
    source: str,
    to: Parcel,
    index: int = 0,
    payload: bytes = b"answer",
    *,
    first: int = 1,
    attributes: Attributes | None = None,
    qos: QoS = NO_QOS,
    channel: str = CHANNEL,
    incarnation: int = 1,
    sent: int = 0,
) -> Parcel:
    """A feedback parcel of ``source`` about one event of a parcel."""
    body, split = make_body([payload], [attributes] if attributes else [])
    stamp = _stamp(source, 0, first, 1, channel, incarnation)
    answers = Answer(to.stamp, to.stamp.first + index)
    return Parcel(Header(channel_id(channel), stamp, sent, split, _made(qos), answers), body)


def _stamp(source: str, sequence: int, first: int, count: int, channel: str, incarnation: int) -> Stamp:
    node = source.rpartition("/")[2]
    proof = notary(node).prove(channel_id(channel), incarnation, sequence, first, count)
    return Stamp(source, incarnation, sequence, first, count, proof)


def _made(qos: QoS) -> QoS | None:
    return None if qos == NO_QOS else qos
