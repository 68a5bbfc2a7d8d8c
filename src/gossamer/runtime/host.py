"""The asyncio host of one engine: carries out its effects on real links, timers and subscriptions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, Protocol

from gossamer.core.context import STORED, TREE
from gossamer.core.effect import (
    Acknowledged,
    Append,
    Deliver,
    DeliverFeedback,
    Drop,
    Effect,
    History,
    Lost,
    Missed,
    Read,
    Repair,
    Reply,
    Report,
    Retain,
    Room,
    Send,
    Stalled,
    Store,
    Stored,
    SubscribersChanged,
    Trim,
    Wake,
)
from gossamer.core.engine import Engine
from gossamer.core.errors import ProtocolError, StorageError
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.tree import Tree
from gossamer.core.wire import MAX_FRAME, Item, encode, size
from gossamer.links.binding import Binding
from gossamer.links.selector import NearestSelector, Selector
from gossamer.runtime.calls import Calls
from gossamer.runtime.config import Limits
from gossamer.runtime.delivery.drops import Losses
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.dialer import Dialer
from gossamer.runtime.net.links import Neighbours
from gossamer.runtime.state import State, closed
from gossamer.runtime.state_writer import Writer
from gossamer.runtime.storage import Storage
from gossamer.runtime.write_barrier import Gates
from gossamer.storage.cipher import Cipher
from gossamer.transports.base import Group

log = logging.getLogger("gossamer")


MAX_LOST = 10_000
"""Runs of lost events of a channel that are remembered."""


class Subscriber(Protocol):
    """Where delivered events go."""

    @property
    def full(self) -> bool: ...
    def put(self, parcel: Parcel, picks: tuple[int, ...] | None, origin: Strand | None) -> None: ...
    def gap(self, channel: int, source: str) -> None: ...


class Host:
    """Runs one engine. Everything happens on one event loop; nothing here waits."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        tree: Tree | None,
        state: str,
        values: State,
        bindings: Sequence[Binding] = (),
        selector: Selector | None = None,
        archive: Callable[[str, Any], object] | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.subscribers: dict[int, Subscriber] = {}
        self.feedback_to: dict[int, Callable[[Parcel, Strand | None], None]] = {}
        self.faults: Counter[str] = Counter()
        """What went wrong and was contained: malformed frames, template errors, and so on."""
        self.acknowledged: dict[int, int] = {}
        """Per channel the number up to which events published here are acknowledged."""
        self.lost: dict[int, list[tuple[int, int]]] = {}
        """Per channel the numbers of events published here that were given up, as (first, last)."""
        self.max_event = MAX_FRAME
        self.losses = Losses(self)
        self._values = values
        self._gates = Gates(engine.waits)
        self._troubled: set[int] = set()
        self._soon: dict[Hashable, Callable[[], object]] = {}
        self._loop = asyncio.get_running_loop()
        self._storage = Storage(
            state,
            lambda channel: self.channel_name(channel) or "service",
            self._reported,
            archive=archive,
            state=values,
            cipher=cipher,
        )
        self._writer = Writer(values, lambda: self._storage.ends, self._stalled)
        self._epoch = time.time_ns() - time.monotonic_ns()
        self._timers: dict[tuple[int, str], asyncio.TimerHandle] = {}
        self._calls = Calls(self._begin_call)
        self.ask, self.follow = self._calls.ask, self._calls.follow
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self.closed = False
        self.wants_server = False
        self.dialer: Dialer | None = None
        self.neighbours = Neighbours(self, bindings, selector or NearestSelector(), tree is not None)
        self.links = self.neighbours.links
        if tree is not None:
            self.do(engine.set(self.now(), TREE, tree))
        self.do(engine.set(self.now(), STORED, dict(values.values)))

    # values that survive this node

    @property
    def keeps(self) -> bool:
        """Whether what is kept survives."""
        return self._values.lasting

    def kept(self, key: str) -> bytes | None:
        """What was kept, in this life or an earlier one."""
        return self._values.values.get(key)

    def keep(self, key: str, value: bytes | None) -> None:
        """Keep a value, or none any more; all that is given while the disk is busy costs one sync."""
        self._writer.write([(key, value)])

    def soon(self, key: Hashable, action: Callable[[], object]) -> None:
        """Do something when the loop turns; the last that was said for a key counts."""
        if not self._soon:
            self._loop.call_soon(self.do_soon)
        self._soon[key] = action

    def do_soon(self) -> None:
        """Do now what was to be done when the loop turns."""
        soon, self._soon = self._soon, {}
        for action in soon.values():
            self.guarded(lambda action=action: action(), "template")  # type: ignore[misc]

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

    def do(self, effects: list[Effect], origin: Strand | None = None) -> None:
        """Carry out effects; origin is the link whose input caused them.

        What follows a Store of its channel is carried out when the value is on disk.
        """
        stored = 0
        storing: dict[int, tuple[int, list[tuple[str, bytes | None]]]] = {}
        tickets: dict[int, int] = {}
        for effect in effects:
            if isinstance(effect, Store):
                stored = effect.channel
                if stored not in storing:
                    storing[stored] = (self._gates.close(stored) if self._values.lasting else 0, [])
                storing[stored][1].append((effect.key, effect.value))
                tickets[stored] = max(tickets.get(stored, 0), effect.ticket)
            elif not self._gates.holds(effect, origin, stored):
                self._carry_out(effect, origin)
        for channel, (turn, pairs) in storing.items():
            self._writer.write(pairs, partial(self._durable, channel, turn, tickets[channel]))
        for effect in effects:
            if isinstance(effect, Deliver):  # only now, for all subscribers read what was opened once
                effect.parcel.close()

    def _durable(self, channel: int, turn: int, ticket: int) -> None:
        """Values of a channel are on disk: do what waited for them."""
        for effect, origin in self._gates.open(channel, turn):
            self.guarded(partial(self._carry_out, effect, origin), "effects")
            if isinstance(effect, Deliver):
                effect.parcel.close()
        if ticket:
            self._reported(channel, Stored(ticket))

    def _stalled(self, error: StorageError | None) -> None:
        """Values cannot be written, or can again: callers and templates that wait for them are told."""
        if error is not None:
            for reply in self._gates.refuse(error):
                self._calls.reply(reply)
        told = self._gates.channels if error is not None else tuple(self._troubled)
        self._troubled = set(told) if error is not None else set()
        for channel in told:
            self._reported(channel, Stalled(error))

    def _carry_out(self, effect: Effect, origin: Strand | None) -> None:
        """Do one thing that the engine asks for."""
        match effect:
            case Send():
                self._send(effect, origin)
            case Deliver():
                subscriber = self.subscribers.get(effect.subscription)
                if subscriber is not None:
                    subscriber.put(effect.parcel, effect.picks, origin)
            case DeliverFeedback():
                take = self.feedback_to.get(effect.channel)
                if self.losses.told(effect.parcel):
                    pass
                elif take is not None:
                    take(effect.parcel, origin)
                else:
                    self.faults["feedback that nobody listens for"] += 1
            case Wake():
                self._wake(effect)
            case Drop():
                self.losses.dropped(effect)
            case Reply():
                self._calls.reply(effect)
            case Append() | Read() | Trim() | Retain() | Repair():
                self._storage.request(effect)
            case Missed():
                for number, subscriber in tuple(self.subscribers.items()):
                    if effect.to is None or number in effect.to:
                        subscriber.gap(effect.channel, effect.source)
            case Acknowledged():
                self.acknowledged[effect.channel] = effect.number
                self.changed()
            case Lost():
                runs = self.lost.setdefault(effect.channel, [])
                if runs and runs[-1][1] + 1 == effect.first:
                    runs[-1] = (runs[-1][0], effect.last)
                else:
                    runs.append((effect.first, effect.last))
                del runs[:-MAX_LOST]
                self.changed()
            case SubscribersChanged() | Room():
                self.changed()

    def _send(self, effect: Send, origin: Strand | None) -> None:
        item, many = effect.item, len(effect.to) > 1 and isinstance(effect.item, Parcel)
        shared: dict[Group, list[Strand]] = {}
        for peer in effect.to:
            link = self.links.get(peer)
            strand = link.strand_for(item, size(item)) if link else None
            group = strand.connection.group if strand else None
            if many and strand is not None and group is not None:
                shared.setdefault(group, []).append(strand)
            else:
                self._send_on(strand, peer, item, origin)
        for group, strands in shared.items():
            self._send_to_group(group, strands, item, origin)

    def _send_to_group(self, group: Group, strands: list[Strand], item: Item, origin: Strand | None) -> None:
        """One transmission where all who hear it are meant, else one for each."""
        fits = size(item) <= strands[0].connection.max_frame
        if len(strands) > 1 and fits and self.neighbours.reaches_only(group, strands, origin):
            group.send(encode(item))
            for strand in strands:
                strand.has_sent(origin)
        else:
            for strand in strands:
                self._send_on(strand, strand.peer, item, origin)

    def send(self, peer: str, item: Item) -> None:
        """Send an item that waited."""
        link = self.links.get(peer)
        self._send_on(link.strand_for(item, size(item)) if link else None, peer, item, None)

    def _send_on(self, strand: Strand | None, peer: str, item: Item, origin: Strand | None) -> None:
        if strand is not None:
            problem = strand.send(item, origin)
        else:
            problem = self.dialer.send(peer, item) if self.dialer and not self.closed else "no link"
        if problem is not None:
            self.do(self.engine.lost(self.now(), peer, item, problem))

    def _reported(self, channel: int, report: Report) -> None:
        self.guarded(lambda: self._take_report(channel, report), "storage report")
        self.changed()

    def _take_report(self, channel: int, report: Report) -> None:
        effects = self.engine.report(self.now(), channel, report)
        if isinstance(report, History) and not any(isinstance(each, Store) for each in effects):
            # what is read from a log is on disk: reading goes on while small values cannot be written
            for effect in effects:
                self._carry_out(effect, None)
            return
        self.do(effects)

    async def looked_at(self, channel: str) -> None:
        """Wait until the log of a channel was opened here, if it has one; raises what is wrong with it."""
        instance = self.engine.instance(channel)
        template = instance.template
        await self.until(lambda: self.closed or getattr(template, "looked", True))
        if getattr(template, "refused", False):
            damage = self._storage.damage.get(channel_id(channel)) or template.failure(instance.context)
            raise damage or StorageError(f"log of {channel!r}", "it is refused")

    def channel_name(self, channel: int) -> str:
        """The name of a channel that runs here; empty for those of services."""
        return next((name for name in self.engine.channels if channel_id(name) == channel), "")

    def _wake(self, effect: Wake) -> None:
        key = (effect.channel, effect.name)
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        if effect.at is not None and not self.closed:  # else a node that was closed would go on for ever
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

    def tell(self, what: Callable[[int], list[Effect]]) -> None:
        """Tell the engine something at this instant, and do what it asks for."""
        self.guarded(lambda: self.do(what(self.now())), "template")

    def _begin_call(self, service: str, call: int, request: Any) -> None:
        self.do(self.engine.call(self.now(), service, call, request))

    # the network

    def receive(self, strand: Strand, item: Item) -> None:
        """A frame of a greeted neighbour."""
        try:
            self.do(self.engine.receive(self.now(), strand.peer, item), strand)
        except ProtocolError:
            raise
        except Exception:
            self.faults["error in template"] += 1
            log.exception("error in a template, on something from %s", strand.peer)

    # the end

    @property
    def unarchived(self) -> int:
        """How often archiving segments of logs has failed."""
        return self._storage.failed

    @property
    def pending(self) -> int:
        """Bytes that no network has taken yet, and parcels that wait for a link."""
        return self.neighbours.pending + (self.dialer.pending if self.dialer else 0)

    async def close(self) -> None:
        """Say goodbye and close every connection, within the drain limit; then nothing of this is left."""
        self.closed = True
        self.changed()
        self.neighbours.stop()
        self.losses.stop()
        await self._storage.close(self.limits.drain)
        for timer in self._timers.values():
            timer.cancel()
        closing = await self.neighbours.close(self.limits.drain)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *closing, return_exceptions=True)
        if await self._writer.close(self.limits.drain):  # else the thread still writes
            await closed(self._values)
