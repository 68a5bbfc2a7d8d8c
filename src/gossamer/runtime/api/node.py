"""A node as an application holds it: ``async with gossamer.connect(...) as node``."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from gossamer import catalog
from gossamer.core.context import BANDWIDTH, CONTACTS, REGION
from gossamer.core.engine import Engine
from gossamer.core.errors import (
    BadAddress,
    BadName,
    Closed,
    ConfigError,
    Lost,
    NoAnswer,
    StorageError,
)
from gossamer.core.event import NO_QOS, QoS
from gossamer.core.names import MILLISECOND, Role, check_node
from gossamer.core.template import Template
from gossamer.core.trace import Recorder
from gossamer.core.tree import Tree
from gossamer.links import codecs
from gossamer.links.binding import Binding
from gossamer.links.codecs import Codec
from gossamer.links.selector import Selector
from gossamer.overlay.backbone.setup import monitor
from gossamer.overlay.directory.service import Directory
from gossamer.overlay.registry.service import Registry
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.directory import NodeDirectory
from gossamer.runtime.api.packages import NodePackages
from gossamer.runtime.api.registry import NodeRegistry, Watch
from gossamer.runtime.config import Limits, NodeConfig, TrustConfig, check_advertised, check_bindings
from gossamer.runtime.host import Host
from gossamer.runtime.net.bandwidth import Bandwidth
from gossamer.runtime.net.connector import Reach
from gossamer.runtime.net.dialer import Dialer, Opener
from gossamer.runtime.net.discovery import Discovery, Way
from gossamer.runtime.net.link import ConnectionReport
from gossamer.runtime.state import opened
from gossamer.runtime.template_loader import Templates
from gossamer.runtime.trace_thread import TraceThread
from gossamer.security.package import Trust
from gossamer.storage.cipher import key_from
from gossamer.transports.base import Listener, Transport

log = logging.getLogger("gossamer")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_MEMORY, LARGEST = 64 * 1024 * 1024, 32 * 1024 * 1024
"""Bytes that a process keeps free for the next parcels instead of giving them back, and the largest piece of
memory for which that holds.
"""
T = TypeVar("T")

TRACE_FLUSH = 5.0
"""Seconds after which rows of the trace are written even if their segment is not full."""


def keep_memory() -> None:
    """Let the C library keep what parcels take: to give it back and get it again, page by page, costs more
    than all copies of them. Where the library has no such setting nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY)
        mallopt(M_MMAP_THRESHOLD, LARGEST)


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on uvloop where it is installed, in a process that keeps the memory of its parcels."""
    keep_memory()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def connect(
    *addresses: str,
    name: str = "",
    role: Role | str | None = None,
    listen: str | Iterable[str] = (),
    advertise: str | Iterable[str] = (),
    tree: Iterable[tuple[str, str]] = (),
    discover: Way | Iterable[Way] = (),
    region: str = "",
    state: str | Path = "",
    storage_key: str = "",
    archive: str | Path = "",
    trace: str | Path = "",
    run: str = "",
    limits: Limits | None = None,
    bind: Iterable[Binding] = (),
    trust: str | Iterable[str] = (),
    transports: Iterable[Transport] = (),
    selector: Selector | None = None,
) -> Node:
    """A node, to be used as ``async with connect(...) as node``.

    Without arguments: a node inside this program, with nothing to start. With addresses: a client of the
    node that answers at the first of them that does. With ``listen``: a node that others connect to; it tells
    them ``advertise`` if that is given, else addresses of its own at which it can be reached.
    ``bind`` says which channels take which transports; a ``selector`` picks a connection for each frame in
    another way than the default does. ``discover`` finds peers of a channel by ``"lan"`` or ``"registry"``.
    ``trust`` names the public keys whose template packages are loaded from the registry when needed.
    """
    listening = (listen,) if isinstance(listen, str) else tuple(listen)
    if role is None:
        role = Role.CLIENT if addresses and not listening else Role.BACKBONE
    try:
        role = Role(role)
    except ValueError:
        raise BadName("role", str(role), f"one of {', '.join(Role)}") from None
    config = NodeConfig(
        name=name,
        role=role,
        listen=listening,
        advertise=(advertise,) if isinstance(advertise, str) else tuple(advertise),
        connect=addresses,
        tree=tuple((a, b) for a, b in tree),
        discover=(discover,) if isinstance(discover, str) else tuple(discover),
        region=region,
        state=str(state),
        storage_key=storage_key,
        archive=str(archive),
        trace=str(trace),
        run=run,
        limits=limits or Limits(),
        bind=tuple(bind),
        trust=TrustConfig((trust,) if isinstance(trust, str) else tuple(trust)),
    )
    return Node(config, transports=transports, selector=selector)


class Node:
    """A place where channels run. Made by ``connect`` or from a NodeConfig."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        transports: Iterable[Transport] = (),
        patient: bool = False,
        selector: Selector | None = None,
    ) -> None:
        self.config = config
        self.name = check_node(config.name) if config.name else f"node-{secrets.token_hex(4)}"
        self.templates = Templates(catalog.templates())
        self.packages = NodePackages(self, Trust(config.trust.keys))
        self.directory = NodeDirectory(self)
        self.registry = NodeRegistry(self)
        self._patient = patient
        self._selector = selector
        self._given = {each.scheme: each for each in transports}
        self._kinds = catalog.transports()
        self._listeners: list[Listener] = []
        self._channels: dict[str, Channel] = {}
        self._recorder: Any = None
        self._trace_thread = TraceThread()
        self._host: Host | None = None
        self._discovery: Discovery | None = None
        self._background: list[asyncio.Task[None]] = []
        for address in (*config.listen, *config.connect):
            self._transport(address)
        check_advertised(config, {*self._kinds, *self._given})
        check_bindings(config, {*self._kinds, *self._given})
        self._tree = Tree(config.tree) if config.tree else None

    # opening

    async def __aenter__(self) -> Node:
        incarnation = time.time_ns() // MILLISECOND
        archive = self._open_archive()
        cipher = key_from(self.config.storage_key)
        state = await opened(self.config.state, cipher)
        registry = Registry(state.values, self.config.registry, time.time_ns())
        if registry.unreadable:
            log.warning("%d items of the registry cannot be read or find no room", registry.unreadable)
        seed = int.from_bytes(os.urandom(8), "big")
        engine = Engine(
            self.name,
            templates=self.templates,
            dice=lambda label: random.Random(f"{seed}/{label}"),
            secret=os.urandom(32),
            role=self.config.role,
            incarnation=incarnation,
            services=[*self._monitoring(), registry, Directory(self.templates, registry)],
            recorder=self._open_trace(incarnation),
        )
        config = self.config
        host = self._host = Host(
            engine,
            config.limits,
            self._tree,
            config.state,
            state,
            config.bind,
            self._selector,
            archive,
            cipher,
        )
        host.do(engine.set(host.now(), REGION, config.region))
        self._reach = Reach(host, self.config, self._transport, self._patient)
        host.neighbours.opener = Opener(host.neighbours, self._reach.link)
        if self.config.role in (Role.BACKBONE, Role.PEER):
            host.dialer = Dialer(host, self._reach.link)
        self._bandwidth = Bandwidth(host, config.bandwidth)
        self.packages.start(host)
        try:
            await self._start(self._host)
        except BaseException:
            await self.close()
            raise
        return self

    def _monitoring(self) -> list[Template[Any]]:
        """Who watches the backbone: every node of the first tier that was not given a tree."""
        first = self.config.role in (Role.BACKBONE, Role.PEER)
        return monitor(self.config.monitor) if first and self._tree is None else []

    def _open_trace(self, incarnation: int) -> Recorder | None:
        if not self.config.trace:
            return None
        from gossamer.traces.writer import TraceWriter  # pyarrow is heavy; only who traces pays for it

        run = self.config.run or f"live-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
        name = f"{self.name}-{incarnation}"
        self._recorder = TraceWriter(self.config.trace, run, name, carry_out=self._trace_thread)
        return self._recorder  # type: ignore[no-any-return]

    def _open_archive(self) -> Callable[[str, Any], object] | None:
        if not self.config.archive:
            return None
        if not self.config.state:
            raise ConfigError("needs a state folder: only logs on disk are archived", key="archive")
        if self.config.storage_key:
            raise ConfigError("archives are plain, and the state folder is encrypted", key="archive")
        from gossamer.storage.archive import Archive  # pyarrow is heavy; only who archives pays for it

        return Archive(self.config.archive, self.name).put

    async def _start(self, host: Host) -> None:
        for address in self.config.listen:
            transport, accept = self._transport(address), host.neighbours.accept
            self._listeners.append(
                await transport.listen(address, partial(accept, transport=transport.scheme))
            )
        sockets = tuple(listener.address for listener in self._listeners)
        host.neighbours.listen_at(sockets, self.config.advertise)
        self._discovery = Discovery(self, host, self.config.discover)
        if self._recorder is not None:
            self._background.append(asyncio.create_task(self._flush_trace()))
        self._background += await self._reach.begin()
        for each in self.config.channel:
            await self.directory.clone(each.template, each.name, each.settings)

    def _transport(self, address: str) -> Transport:
        scheme, separator, _ = address.partition("://")
        if not separator:
            raise BadAddress(address, "expected scheme://host:port, such as tcp://127.0.0.1:7400")
        if scheme not in self._given:
            if scheme not in self._kinds:
                raise BadAddress(address, f"no transport for {scheme!r}; known: {', '.join(self._kinds)}")
            self._given[scheme] = self._kinds[scheme]()
        return self._given[scheme]

    async def _flush_trace(self) -> None:
        while True:
            await asyncio.sleep(TRACE_FLUSH)
            self._recorder.flush()

    # use

    @property
    def _running(self) -> Host:
        if self._host is None or self._host.closed:
            raise Closed(f"node {self.name!r}")
        return self._host

    @property
    def addresses(self) -> list[str]:
        """Where others can connect to this node, as it tells them."""
        return list(self._host.neighbours.listens) if self._host is not None else []

    @property
    def peers(self) -> list[str]:
        """Names of the nodes this one is linked to."""
        return sorted(self._running.links)

    @property
    def links(self) -> dict[str, list[ConnectionReport]]:
        """The connections to each of them."""
        return {name: link.report for name, link in sorted(self._running.links.items())}

    @property
    def drops(self) -> dict[str, int]:
        """What was dropped here, by reason: parcels and messages that ended, and faults contained."""
        host = self._host
        if host is None:
            return {}
        unarchived = {"segments not archived": host.unarchived} if host.unarchived else {}
        return {**host.engine.drops, **host.faults, **unarchived}

    async def channel(
        self,
        name: str,
        template: str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        linger: float = 0.0,
        qos: QoS = NO_QOS,
        reliability: str | None = None,
        codec: str | Codec | None = None,
    ) -> Channel:
        """A channel: with a template it is cloned if absent, without one it must exist.

        linger, wishes, codec
            Of the events that this node publishes; given when the channel is first taken here. Seconds that
            one may wait for others to share its parcel, 0 sends when the loop turns; what holds for all that
            do not wish otherwise; and how values become payloads, by name or as an object.
        reliability
            What the template has to promise: at-most-once, at-least-once or exactly-once.
        """
        if template is None:
            entry = await self.directory.lookup(name)
        else:
            entry = await self.directory.clone(template, name, settings)
        await self.packages.need(entry.template)
        host = self._running
        channel = self._channels.get(name)
        if channel is None:
            host.do(host.engine.run(host.now(), entry))
            await host.looked_at(name)
            made = codecs.named(codec) if isinstance(codec, str) else codec
            channel = self._channels[name] = Channel(host, entry, linger, qos, made)
            self._look_around(name, self.templates[entry.template].watches)
        if reliability is not None:
            channel.refuse(f"reliability={reliability}")
        return channel

    def _look_around(self, channel: str, watches: Iterable[str]) -> None:
        """Find out what the template of a channel needs to know of the network."""
        if BANDWIDTH in watches:
            self._bandwidth.begin()
        if CONTACTS in watches and self._discovery is not None:
            self._discovery.seek(channel)

    async def ask(self, service: str, request: Any, what: str) -> Any:
        """Ask a service of this node; raises NoAnswer."""
        host, seconds = self._running, self.config.limits.answer
        try:
            async with asyncio.timeout(seconds):
                return await host.ask(service, request)
        except TimeoutError:
            raise NoAnswer(what, seconds) from None

    def watch(self, prefix: str) -> Watch:
        """Watch the registry; see ``node.registry.watch``."""
        return Watch(self._running, prefix)

    async def drain(self) -> None:
        """Wait until other nodes answer for everything published here, within the limit ``handover``.

        Raises NoAnswer that names the first channel for which this is not so; see ``channel.drain``.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self.config.limits.handover
        for channel in self._channels.values():
            await channel.drain(max(0.0, end - loop.time()))

    # closing

    async def close(self) -> None:
        """Drain, say goodbye, close. Safe to call twice.

        Raises NoAnswer, Lost or DiskFull, once everything is closed, if events that were published here were
        lost, or may be lost by it.
        """
        host = self._host
        if host is None or host.closed:
            return
        undelivered: Lost | NoAnswer | StorageError | None = None
        try:
            await self.drain()  # while it may still move to another server
        except (Lost, NoAnswer, StorageError) as error:
            undelivered = error
        for task in self._background:
            task.cancel()
        if self._discovery is not None:
            await self._discovery.close()
        for listener in self._listeners:
            await listener.close()
        for channel in self._channels.values():
            channel.close()
        await host.close()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._recorder is not None:
            self._recorder.close()
            await self._trace_thread.close()
        if undelivered is not None:
            log.warning("%s", undelivered)
            raise undelivered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except (Lost, NoAnswer, StorageError):
            if error is None:  # what the application met first says more
                raise

    def __repr__(self) -> str:
        return f"<node {self.name!r} ({self.config.role})>"
