"""Four honest nodes without I/O: m, its neighbours a and stranger on the backbone, and a client below m.

All of them run the protocol: a stranger that listens here hears live tokens, and every message that is said
in the name of a neighbour comes from a neighbour. Storage is carried out in memory.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from gossamer.catalog import templates
from gossamer.core.context import BELOW, CONTACTS, SERVER, TREE
from gossamer.core.control import Control, handlers_of
from gossamer.core.effect import (
    SENSELESS,
    Append,
    Appended,
    Deliver,
    Drop,
    Effect,
    History,
    Read,
    Repair,
    Send,
    Store,
    Stored,
    Trim,
    Wake,
)
from gossamer.core.engine import Engine
from gossamer.core.errors import ProtocolError
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, Role
from gossamer.core.operations import KeepSession, ReadHistory
from gossamer.core.tree import Tree
from gossamer.core.wire import Item, decode, encode
from gossamer.overlay.backbone.setup import MonitorSettings, monitor
from gossamer.overlay.directory.service import Directory, Entry
from gossamer.overlay.registry.service import Registry
from gossamer.storage.memory import MemoryLog
from gossamer.testing.hostile import Stranger

START = 1_700_000_000 * NANOSECONDS
BACKBONE = ("a", "m", "stranger")
NAMES = (*BACKBONE, "client")
STORM = 1000
"""Messages that one input may cause at one instant."""
STORMY = ("multiring",)
"""Templates in which peers may answer each other without a pause, in a network without delay."""
TRIES = 20
"""Messages of a kind after which it is no longer looked whether they change anything without an effect."""
DELAY = NANOSECONDS // 1000


class Neighbours:
    """The four, and what each delivered.

    watched
        Whether the monitor runs: nodes probe each other and find the tree themselves.
    skews
        Nanoseconds by which clocks of nodes are ahead, or behind if negative.
    """

    def __init__(
        self, template: str, stranger: Stranger, watched: bool = False, skews: Mapping[str, int] | None = None
    ) -> None:
        self.now = START
        self.skews = dict.fromkeys(NAMES, 0) | dict(skews or {})
        self.heard = ""
        """What the stranger said last."""
        self.template, self.watched = template, watched
        self.stranger = stranger
        self.engines: dict[str, Engine] = {}
        self.wakes: dict[tuple[str, int, str], int] = {}
        self.logs: dict[tuple[str, int], MemoryLog] = {}
        self.delivered: Counter[str] = Counter()
        self.entered: Counter[tuple[str, str]] = Counter()
        """Handlers that did something with what the stranger said, by class and name: they caused an effect,
        or changed what their template keeps."""
        self._tries: Counter[tuple[str, str]] = Counter()
        self._way: deque[tuple[str, str, Item]] = deque()
        for name in NAMES:
            self._begin(name, watched)
        for name in NAMES:
            self._open(name)

    def _begin(self, name: str, watched: bool) -> None:
        role = Role.CLIENT if name == "client" else Role.BACKBONE
        registry = Registry({})
        services = monitor(MonitorSettings()) if watched and role is Role.BACKBONE else []
        self.engines[name] = Engine(
            name,
            templates=templates(),
            dice=lambda label: random.Random(f"{name} {label}"),
            secret=name.encode().ljust(32, b"."),
            role=role,
            incarnation=START // 1_000_000,
            services=[*services, registry, Directory(templates(), registry)],
        )

    def _open(self, name: str) -> None:
        engine = self.engines[name]

        def put(container: str, value: object) -> None:
            self.do(name, engine.set(self.clock(name), container, value))

        if name == "client":
            put(SERVER, "m")
            peers = ["m"]
        else:
            put(CONTACTS, dict.fromkeys(BACKBONE, ()))
            put(TREE, Tree([("a", "m"), ("m", "stranger")]))
            put(BELOW, ("client",) if name == "m" else ())
            peers = ["a", "stranger", "client"] if name == "m" else ["m"]
        for peer in peers:
            self.do(name, engine.linked(self.clock(name), peer))
        self.do(name, engine.run(self.clock(name), Entry("news", self.template, {})))
        number, effects = engine.subscribe(self.clock(name), "news", Criteria())
        self.do(name, effects)
        if self.template == "persistent" and name == "client":
            self.do(name, engine.call(self.clock(name), "news", 1, ReadHistory(number, 0)))
        if self.template == "dispatch" and name == "client":
            number, effects = engine.subscribe(self.clock(name), "news", Criteria())
            self.do(name, effects)
            self.do(name, engine.call(self.clock(name), "news", 1, KeepSession(number, "orders")))

    def clock(self, name: str) -> int:
        """What the clock of a node shows."""
        return self.now + self.skews[name]

    # what engines want

    def do(self, name: str, effects: list[Effect]) -> None:
        assert len(effects) < 20_000, "one input makes any number of effects"
        stored: dict[int, int] = {}
        for effect in effects:
            match effect:
                case Wake():
                    key = (name, effect.channel, effect.name)
                    self.wakes.pop(key, None)
                    if effect.at is not None:
                        self.wakes[key] = effect.at - self.skews[name]
                case Send():
                    self._way += ((to, name, effect.item) for to in effect.to if to in self.engines)
                case Deliver():
                    self.delivered[name] += 1
                case Append() | Read() | Trim() | Repair():
                    self._store(name, effect)
                case Store() if effect.ticket:
                    stored[effect.channel] = effect.ticket
        for channel, ticket in stored.items():
            self.do(name, self.engines[name].report(self.clock(name), channel, Stored(ticket)))

    def _store(self, name: str, effect: Append | Read | Trim | Repair) -> None:
        log = self.logs.setdefault((name, effect.channel), MemoryLog())
        report: Any = None
        match effect:
            case Append():
                report = Appended(effect.ticket, log.append(effect.records))
            case Read():
                position, records = log.read(effect.position, effect.limit)
                report = History(effect.ticket, position, tuple(records), log.begin, log.end)
            case Trim():
                log.trim(effect.position)
            case Repair():
                report = History(effect.ticket, log.end, (), log.begin, log.end)
        if report is not None:
            self.do(name, self.engines[name].report(self.clock(name), effect.channel, report))

    # what happens

    def settle(self) -> None:
        """Deliver what is on its way; the stranger listens."""
        for _ in range(STORM):
            if not self._way:
                return
            to, sender, item = self._way.popleft()
            self.stranger.learn(item)
            self._carry(to, sender, encode(item))
        if self.template in STORMY:
            self._way.clear()
            return
        raise AssertionError(f"{STORM} messages at one instant, {self._way[0]} among them: they never end")

    def _carry(self, to: str, sender: str, frame: bytes) -> None:
        """A frame of an honest node comes to another one, which can read it and finds it plausible."""
        item = decode(frame)
        try:
            effects = self.engines[to].receive(self.clock(to), sender, item)
        except ProtocolError as error:
            raise AssertionError(
                f"{to} cannot read what {sender} said: {error}; {self.said(item)}"
            ) from error
        for effect in effects:
            if isinstance(effect, Drop) and effect.item is item and isinstance(item, Control):
                believed = (
                    self.skews[sender] > self.skews[to]
                )  # it could still be what the sender's clock allows
                senseless = effect.reason.endswith(SENSELESS) and not believed
                assert not senseless, f"{to} from {sender}: {effect.reason}; {self.said(item)}"
        self.do(to, effects)

    def said(self, item: Item) -> str:
        """An item and what the stranger said last, for people to read."""
        what = item.message if isinstance(item, Control) else item.header
        return f"{str(what)[:500]}, after {self.heard[:500]}"

    def wait(self, seconds: float, steps: int = 400) -> None:
        """Let time pass."""
        end = self.now + round(seconds * NANOSECONDS)
        self.settle()
        for _ in range(steps):
            due = min(((at, key) for key, at in self.wakes.items() if at <= end), default=None)
            if due is None:
                break
            at, (name, channel, wake) = due
            del self.wakes[name, channel, wake]
            self.now = max(self.now + DELAY, at)
            self.do(name, self.engines[name].wake(self.clock(name), channel, wake))
            self.settle()
        self.now = max(self.now, end)
        self.stranger.now = self.now

    def hear(self, to: str, sender: str, channel: str, item: Item) -> None:
        """A node hears what the stranger says in the name of a neighbour; nothing is on its way yet."""
        engine, before, key = self.engines[to], 0, ("", "")
        self.heard = str(item.message if isinstance(item, Control) else item.header)
        if isinstance(item, Control):
            template = engine.instance(channel).template
            key = (type(template).__name__, handlers_of(type(template)).get(type(item.message), ""))
            self._tries[key] += 1
            before = 0 if key in self.entered or self._tries[key] > TRIES else fingerprint(template)
        try:
            effects = engine.receive(self.clock(to), sender, item)
        except ProtocolError:
            return
        if key[1] and any(not isinstance(each, Drop) for each in effects):
            self.entered[key] += 1
        if before and key not in self.entered and (fingerprint(engine.instance(channel).template) != before):
            self.entered[key] += 1
        self.do(to, effects)

    def publish(self, name: str) -> None:
        engine = self.engines[name]
        engine.publish("news", b"honest")
        self.do(name, engine.seal(self.clock(name), "news"))

    def subjects(self, name: str) -> list[tuple[str, Any]]:
        """Services and the channel of a node, each with its class."""
        engine = self.engines[name]
        found = [(each.context.channel, type(each.template)) for each in engine._services]
        return [*found, ("news", type(engine.instance("news").template))]

    def neighbour(self) -> bool:
        """Whether the stranger is next to m in the tree; where nodes find the tree, whether it is in it."""
        tree = self.engines["m"].containers[TREE]
        return "stranger" in (tree.nodes if self.watched else tree.neighbours("m"))


def fingerprint(value: Any, seen: set[int] | None = None) -> int:
    """Changes when anything changes in what a template keeps."""
    seen = set() if seen is None else seen
    if isinstance(value, int | str | bytes | float | None):
        return hash(value)
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, dict):
        return hash(tuple((fingerprint(key, seen), fingerprint(each, seen)) for key, each in value.items()))
    if isinstance(value, list | tuple | deque):
        return hash((len(value), *(fingerprint(each, seen) for each in value)))
    if isinstance(value, set | frozenset):
        return hash(len(value)) ^ sum(hash(each) for each in value if isinstance(each, int | str | tuple))
    if isinstance(value, type) or callable(value) or not type(value).__module__.startswith("gossamer"):
        return 0
    fields = [*vars(value)] if hasattr(value, "__dict__") else []
    fields += getattr(type(value), "__struct_fields__", ())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        fields += slots if isinstance(slots, tuple) else ()
    return hash(tuple(fingerprint(getattr(value, each, None), seen) for each in dict.fromkeys(fields)))
