"""The asyncio host of one engine: carries out its effects on real links, timers and subscriptions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from gossamer.core.context import SERVER, TREE
from gossamer.core.effect import (
    Append,
    Deliver,
    DeliverFeedback,
    Effect,
    Matching,
    Missed,
    Read,
    Reply,
    Report,
    Room,
    Send,
    Store,
    Trim,
    Wake,
)
from gossamer.core.engine import Engine
from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.sealer import PARCEL_BYTES
from gossamer.core.tree import Tree
from gossamer.core.wire import MAX_FRAME, Item, encode
from gossamer.runtime.calls import Calls
from gossamer.runtime.config import Limits
from gossamer.runtime.dialing import Dialer
from gossamer.runtime.link import Bye, Hello, Link, Ping
from gossamer.runtime.state import State
from gossamer.runtime.storage import Storage
from gossamer.runtime.surroundings import TIER, surroundings
from gossamer.transports.base import Connection, Group

log = logging.getLogger("gossamer")


class Subscriber(Protocol):
    """Where delivered events go."""

    def put(self, parcel: Parcel, picks: tuple[int, ...] | None, origin: Link | None) -> None: ...
    def gap(self, channel: int, source: str) -> None: ...


class Host:
    """Runs one engine. Everything happens on one event loop; nothing here waits."""

    def __init__(self, engine: Engine, limits: Limits, tree: Tree | None, state: str, values: State) -> None:
        self.engine = engine
        self.limits = limits
        self.links: dict[str, Link] = {}
        self.subscribers: dict[int, Subscriber] = {}
        self.feedback_to: dict[int, Callable[[Parcel, Link | None], None]] = {}
        self.faults: Counter[str] = Counter()
        """What went wrong and was contained: malformed frames, template errors, and so on."""
        self.max_event = MAX_FRAME
        self._tree = tree
        self._values = values
        self._loop = asyncio.get_running_loop()
        self._storage = Storage(state, self._channel_name, self._reported)
        self._epoch = time.time_ns() - time.monotonic_ns()
        self._timers: dict[tuple[int, str], asyncio.TimerHandle] = {}
        self._calls = Calls(self._begin_call)
        self.ask, self.follow = self._calls.ask, self._calls.follow
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._beat: asyncio.TimerHandle | None = None
        self._connections: set[Link] = set()
        self.closed = False
        self.wants_server = False
        self.listens: tuple[str, ...] = ()
        """Addresses that others are told."""
        self.dialer: Dialer | None = None
        if tree is not None:
            self.do(engine.set(self.now(), TREE, tree))
        self._schedule_beat()

    def now(self) -> int:
        """Nanoseconds of wall time that never run backwards."""
        return self._epoch + time.monotonic_ns()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in the background; its errors are logged."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.faults["background"] += 1
            log.error("background work failed", exc_info=task.exception())

    # waiting for anything to change: room, links, listeners

    def changed(self) -> None:
        """Something that somebody may wait for has changed."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at after each change."""
        while not condition():
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    # effects

    def do(self, effects: list[Effect], origin: Link | None = None) -> None:
        """Carry out effects; origin is the link whose input caused them."""
        stored = False
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect, origin)
                case Deliver():
                    subscriber = self.subscribers.get(effect.subscription)
                    if subscriber is not None:
                        subscriber.put(effect.parcel, effect.picks, origin)
                case DeliverFeedback():
                    take = self.feedback_to.get(effect.channel)
                    if take is not None:
                        take(effect.parcel, origin)
                    else:
                        self.faults["feedback that nobody listens for"] += 1
                case Wake():
                    self._wake(effect)
                case Reply():
                    self._calls.reply(effect)
                case Store() if not stored:
                    # all at once, for one sync; before anything that says so leaves
                    stored = True
                    self._values.keep((each.key, each.value) for each in effects if isinstance(each, Store))
                case Append() | Read() | Trim():
                    self._storage.request(effect)
                case Missed():
                    for subscriber in tuple(self.subscribers.values()):
                        subscriber.gap(effect.channel, effect.source)
                case Matching() | Room():
                    self.changed()

    def _send(self, effect: Send, origin: Link | None) -> None:
        shared: dict[Group, list[Link]] = {}
        for peer in effect.to:
            link = self.links.get(peer)
            group = link.connection.group if link else None
            if (
                link is not None
                and group is not None
                and isinstance(effect.item, Parcel)
                and len(effect.to) > 1
            ):
                shared.setdefault(group, []).append(link)
            else:
                self._send_on(link, peer, effect.item, origin)
        for group, links in shared.items():
            if len(links) == 1 or len(encode(effect.item)) > links[0].connection.max_frame:
                for link in links:
                    self._send_on(link, link.peer, effect.item, origin)
            else:
                group.send(encode(effect.item))

    def send(self, peer: str, item: Item) -> None:
        """Send an item that waited."""
        self._send_on(self.links.get(peer), peer, item, None)

    def _send_on(self, link: Link | None, peer: str, item: Item, origin: Link | None) -> None:
        if link is not None:
            problem = link.send(item, origin)
        else:
            problem = self.dialer.send(peer, item) if self.dialer else "no link"
        if problem is not None:
            self.do(self.engine.lost(self.now(), peer, item, problem))

    def _reported(self, channel: int, report: Report) -> None:
        self.guarded(lambda: self.do(self.engine.report(self.now(), channel, report)), "storage report")

    def _channel_name(self, channel: int) -> str:
        return next((name for name in self.engine.channels if channel_id(name) == channel), "service")

    def _wake(self, effect: Wake) -> None:
        key = (effect.channel, effect.name)
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        if effect.at is not None:
            delay = max(0, effect.at - self.now()) / NANOSECONDS
            self._timers[key] = self._loop.call_later(delay, self._woken, key)

    def _woken(self, key: tuple[int, str]) -> None:
        self._timers.pop(key, None)
        self.guarded(lambda: self.do(self.engine.wake(self.now(), *key)), "timer")

    def guarded(self, action: Callable[[], None], what: str) -> None:
        """Contain an error of a template: it must not take the node down."""
        try:
            action()
        except Exception:
            self.faults[f"error in {what}"] += 1
            log.exception("error in %s", what)

    def _begin_call(self, service: str, call: int, request: Any) -> None:
        self.do(self.engine.call(self.now(), service, call, request))

    # links

    def accept(self, connection: Connection) -> Link:
        """Somebody connected to us."""
        link = Link(self, connection, opened_here=False)
        self._connections.add(link)
        return link

    def open(self, connection: Connection) -> Link:
        """We connected to somebody."""
        link = Link(self, connection, opened_here=True)
        self._connections.add(link)
        return link

    def listen_at(self, addresses: tuple[str, ...]) -> None:
        """Others may connect here."""
        self.listens = addresses
        self._describe()

    def hello(self, heard: bool) -> Hello:
        engine = self.engine
        listens = self.listens[:8]
        return Hello(engine.node, engine.incarnation, engine.role, engine.address, listens, heard)

    def admit(self, link: Link, hello: Hello) -> bool:
        """Whether a greeting makes a link; tells the other side why if not."""
        engine = self.engine
        mine, theirs = TIER[engine.role], TIER[hello.role]
        known = self.links.get(hello.node)
        if hello.node == engine.node:
            link.refuse(f"a node called {hello.node!r} is here already: give this one another name")
        elif mine == theirs and mine > 1:
            link.refuse(
                f"{engine.node!r} is a {engine.role} too and serves nobody: connect to a backbone node"
            )
        elif theirs < mine and self._other_server(hello.node):
            link.refuse(f"{engine.node!r} has a server already")
        elif known is not None and known.hello is not None and hello.incarnation < known.hello.incarnation:
            link.refuse(f"a newer node called {hello.node!r} is connected: give this one another name")
        elif known is not None and not self._replaces(link, known, hello):
            link.refuse("")
        else:
            if known is not None and known.hello is not None:
                self._remove(known)
                same_life = known.hello.incarnation == hello.incarnation
                known.refuse("" if same_life else f"replaced by a newer node called {hello.node!r}")
            return True
        return False

    def _other_server(self, node: str) -> bool:
        server = self.engine.containers.get(SERVER)
        return server is not None and server.rpartition("/")[2] != node

    def _replaces(self, link: Link, known: Link, hello: Hello) -> bool:
        """Of two connections between the same two lives, keep the one opened by the lower name."""
        assert known.hello is not None
        if known.hello.incarnation != hello.incarnation or link.opened_here == known.opened_here:
            return True
        return link.opened_here == (self.engine.node < hello.node)

    def linked(self, link: Link) -> None:
        assert link.hello is not None
        self.links[link.peer] = link
        self._describe()
        log.info("linked to %s (%s) over %s", link.peer, link.hello.role, link.connection.remote)
        self.guarded(lambda: self.do(self.engine.linked(self.now(), link.peer)), "template")
        self.changed()

    def unlinked(self, link: Link, error: Exception | None) -> None:
        self._connections.discard(link)
        if isinstance(error, ProtocolError):
            self.malformed(link, error)
        if self._remove(link):
            log.info("link to %s is down%s", link.peer, f" ({error})" if error else "")

    def _remove(self, link: Link) -> bool:
        if self.links.get(link.peer) is not link:
            return False
        del self.links[link.peer]
        self._describe()
        self.guarded(lambda: self.do(self.engine.unlinked(self.now(), link.peer)), "template")
        self.changed()
        return True

    def _describe(self) -> None:
        """Keep what depends on who is around current."""
        for name, value in surroundings(
            self.engine, self.links, self.listens, self._tree is not None
        ).items():
            self.do(self.engine.set(self.now(), name, value))
        connections = [link.connection for link in self.links.values()]
        best = min((each.best_frame for each in connections), default=MAX_FRAME)
        self.engine.parcel_bytes = min(PARCEL_BYTES, best)
        self.max_event = max((each.max_frame for each in connections), default=MAX_FRAME)

    def receive(self, link: Link, item: Item) -> None:
        """A frame of a greeted neighbour."""
        try:
            self.do(self.engine.receive(self.now(), link.peer, item), link)
        except ProtocolError:
            raise
        except Exception:
            self.faults["error in template"] += 1
            log.exception("error in a template, on something from %s", link.peer)

    def unexpected(self, why: str) -> None:
        self.faults[f"frame {why}"] += 1

    def malformed(self, link: Link, error: ProtocolError) -> None:
        """Contain a frame that makes no sense: count it, and end a stream that sent it."""
        self.faults["malformed frame"] += 1
        log.warning("%s: %s", link.peer, error)
        if link.connection.reliable and not link.gone.is_set():
            self._remove(link)
            link.refuse(str(error))

    # signs of life

    def _schedule_beat(self) -> None:
        self._due = self.now() + round(self.limits.heartbeat * NANOSECONDS)
        self._beat = self._loop.call_later(self.limits.heartbeat, self._on_beat)

    def _on_beat(self) -> None:
        now = self.now()
        late = now - self._due
        for link in tuple(self._connections):
            limits = self.limits
            silence = limits.silence if link.connection.reliable else limits.datagram_silence
            if link.hello is None:
                silence = limits.answer
            if link.waiting or late > limits.heartbeat * NANOSECONDS:
                link.heard_at = max(link.heard_at, now - round(silence * NANOSECONDS / 2))
            # also where reading waits: the other side hears no answers then, and would take us for dead
            if now - link.heard_at > silence * NANOSECONDS:
                log.warning("%s has been silent for %g s", link.peer, silence)
                link.connection.abort()
            elif link.hello is not None and not link.stalled:
                link.say(Ping(now))
        self._schedule_beat()

    # the end

    @property
    def pending(self) -> int:
        """Bytes that no network has taken yet."""
        return sum(link.connection.pending for link in self.links.values() if not link.stalled)

    async def close(self) -> None:
        """Say goodbye and close every connection, within the drain limit; then nothing of this is left."""
        self.closed = True
        self.changed()
        if self._beat:
            self._beat.cancel()
        await self._storage.close(self.limits.drain)
        for timer in self._timers.values():
            timer.cancel()
        links = tuple(self._connections)
        for link in links:
            link.say(Bye(""))
        closing = [asyncio.ensure_future(link.connection.close()) for link in links]
        if closing:
            _, slow = await asyncio.wait(closing, timeout=self.limits.drain)
            for link in links:
                if slow and not link.gone.is_set():
                    link.connection.abort()
            for task in slow:
                task.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *closing, return_exceptions=True)
        self._values.close()
