"""Several engines in memory, with a queue of frames between them; what is lost is up to the test."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from gossamer.core.context import BELOW, SERVER, TREE
from gossamer.core.control import Control
from gossamer.core.effect import SENSELESS, Drop, Effect, Reply, Send, Store, Stored, Wake
from gossamer.core.engine import Engine
from gossamer.core.errors import ProtocolError
from gossamer.core.names import Role
from gossamer.core.template import Template
from gossamer.core.tree import Tree
from gossamer.core.wire import decode, encode
from gossamer.overlay.directory.service import Directory
from gossamer.overlay.registry.api import RegistrySettings
from gossamer.overlay.registry.service import Registry

Frame = tuple[str, str, bytes]


class Pump:
    """Carries frames in order, fires wakes when time is told to pass, keeps replies and what is stored."""

    def __init__(
        self,
        templates: dict[str, type[Template[Any]]] | None = None,
        settings: RegistrySettings | None = None,
    ) -> None:
        self.templates = templates or {}
        self.settings = settings
        self.now = 1_000
        self.engines: dict[str, Engine] = {}
        self.directories: dict[str, Directory] = {}
        self.registries: dict[str, Registry] = {}
        self.stored: dict[str, dict[str, bytes]] = {}
        self.queue: deque[Frame] = deque()
        self.carried: list[Frame] = []
        self.replies: dict[tuple[str, int], Reply] = {}
        """The last, or only, reply to each call."""
        self.told: dict[tuple[str, int], list[Any]] = {}
        """What the replies before the last one said."""
        self.refused: list[ProtocolError | Drop] = []
        """Frames that cannot be read, and messages that make no sense."""
        self.wakes: dict[tuple[str, int, str], int] = {}
        self.loses: Callable[[Frame], bool] = lambda frame: False
        self.links: set[frozenset[str]] = set()

    def add(self, *nodes: str, role: Role = Role.PEER, incarnation: int = 1) -> None:
        """New nodes, or new lives of nodes, with what their earlier lives stored."""
        for node in nodes:
            registry = self.registries[node] = Registry(self.stored.setdefault(node, {}), self.settings)
            directory = self.directories[node] = Directory(self.templates, registry)
            self.wakes = {key: at for key, at in self.wakes.items() if key[0] != node}
            self.engines[node] = Engine(
                node,
                templates=self.templates,
                dice=random.Random,
                secret=node.encode(),
                incarnation=incarnation,
                role=role,
                services=[registry, directory],
            )

    def backbone(self, *edges: tuple[str, str]) -> None:
        """One tree over all nodes named, and its links."""
        tree = Tree(edges)
        for node in tree.nodes:
            self.do(node, self.engines[node].set(self.now, TREE, tree))
        for a, b in edges:
            self.link(a, b)

    def hang(self, node: str, below: str) -> None:
        """Put a node below a server."""
        server = self.engines[below]
        children = (*(server.containers.get(BELOW) or ()), node)
        self.do(below, server.set(self.now, BELOW, children))
        self.do(node, self.engines[node].set(self.now, SERVER, server.address))
        self.link(node, below)

    def link(self, a: str, b: str) -> None:
        self.links.add(frozenset((a, b)))
        self.do(a, self.engines[a].linked(self.now, b))
        self.do(b, self.engines[b].linked(self.now, a))

    def unlink(self, a: str, b: str) -> None:
        self.links.discard(frozenset((a, b)))
        self.do(a, self.engines[a].unlinked(self.now, b))
        self.do(b, self.engines[b].unlinked(self.now, a))

    def do(self, node: str, effects: Iterable[Effect]) -> None:
        stored: dict[int, int] = {}
        for effect in effects:
            if isinstance(effect, Store) and effect.ticket:
                stored[effect.channel] = effect.ticket
            match effect:
                case Send():
                    self.queue.extend((node, to, encode(effect.item)) for to in effect.to)
                case Reply(more=True):
                    self.told.setdefault((node, effect.call), []).append(effect.value)
                case Reply():
                    assert (node, effect.call) not in self.replies, "a call is answered once"
                    self.replies[node, effect.call] = effect
                case Store(key, None):
                    self.stored[node].pop(key, None)
                case Store(key, bytes(value)):
                    self.stored[node][key] = value
                case Drop(Control(), reason) if reason.endswith(SENSELESS):
                    self.refused.append(effect)
                case Wake():
                    wake = (node, effect.channel, effect.name)
                    self.wakes.pop(wake, None)
                    if effect.at is not None:
                        self.wakes[wake] = effect.at
        for channel, ticket in stored.items():
            self.do(node, self.engines[node].report(self.now, channel, Stored(ticket)))

    def settle(self) -> None:
        """Carry frames until nothing is on its way."""
        for _ in range(100_000):
            if not self.queue:
                return
            frame = self.queue.popleft()
            sender, to, data = frame
            self.carried.append(frame)
            if frozenset((sender, to)) not in self.links or self.loses(frame):
                continue
            try:
                self.do(to, self.engines[to].receive(self.now, sender, decode(data)))
            except ProtocolError as error:
                self.refused.append(error)
        raise AssertionError("frames are sent for ever")

    def passes(self, seconds: float) -> None:
        """Let time go by: each wake fires when it is due, frames travel at once."""
        end = self.now + round(seconds * 1e9)
        self.settle()
        while due := [(at, key) for key, at in self.wakes.items() if at <= end]:
            at, key = min(due)
            del self.wakes[key]
            self.now = max(self.now, at)
            node, channel, name = key
            self.do(node, self.engines[node].wake(self.now, channel, name))
            self.settle()
        self.now = end

    def call(self, node: str, call: int, question: Any, service: str = Directory.name) -> None:
        self.do(node, self.engines[node].call(self.now, service, call, question))

    def ask(self, node: str, call: int, question: Any, service: str = Directory.name) -> Any:
        """Ask, let everything travel, and give the answer; None if there is none yet."""
        self.call(node, call, question, service)
        self.settle()
        reply = self.replies.get((node, call))
        return reply.value if reply else None
