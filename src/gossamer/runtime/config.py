"""Settings of a node: what ``connect`` takes as arguments and ``gossamer up`` as a TOML file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer import catalog
from gossamer.core.config import parse, wrong
from gossamer.core.errors import BadAddress, ConfigError
from gossamer.core.names import Role
from gossamer.links.binding import Binding, problems
from gossamer.overlay.backbone.setup import MonitorSettings
from gossamer.overlay.registry.api import RegistrySettings
from gossamer.runtime.net.addresses import WILDCARDS
from gossamer.runtime.net.bandwidth import BandwidthSettings
from gossamer.runtime.net.discovery import Way
from gossamer.transports.base import HIGH_WATER, host_and_port

Seconds = Annotated[float, Meta(gt=0, le=3600)]


ON_ONE_MACHINE = frozenset({"local", "memory"})
"""Transports whose addresses have no host and port."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a node.

    queue_bytes
        Bytes that may wait on a link before whoever feeds it has to wait too; not less than what
        connections hold without telling when it is gone.
    patience
        Seconds that feeders wait for a link that takes nothing; then what is meant for it is dropped and
        counted until it takes something again.
    heartbeat
        Seconds between signs of life on a link.
    silence, datagram_silence
        Seconds without a sign of life after which a link counts as dead: on connections that know when
        they break, and on datagrams, which do not.
    answer
        Seconds that opening a link or asking the directory may take.
    drain
        Seconds that closing waits for what is pending.
    handover
        Seconds that closing waits until other nodes answer for what was published here.
    """

    queue_bytes: Annotated[int, Meta(ge=HIGH_WATER, le=2**30)] = 4 * 1024 * 1024
    patience: Seconds = 2.0
    heartbeat: Seconds = 1.0
    silence: Seconds = 20.0
    datagram_silence: Seconds = 5.0
    answer: Seconds = 5.0
    drain: Seconds = 2.0
    handover: Seconds = 15.0


class ChannelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel that a node makes when it starts."""

    name: str
    template: str
    settings: dict[str, Any] = {}


class TrustConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose template packages a node loads.

    keys
        Public keys, each ``ed25519:BASE64 name`` as in the file that ``gossamer templates key`` makes.
        Without any, nothing is ever loaded.
    """

    keys: tuple[str, ...] = ()


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node.

    name
        Unique in its network; made up if empty.
    role
        backbone, secondary, client or peer.
    listen, connect
        Addresses to accept connections at, and to connect to. A client or secondary server uses one
        ``connect`` address at a time and moves on to the next when it fails.
    advertise
        Addresses that others are told instead of those at ``listen``, for instance the name of a host, or an
        address that is translated on the way. Without it a node that listens at ``0.0.0.0`` or ``[::]`` tells
        the addresses of its network interfaces.
    tree
        Edges between names of backbone nodes or peers, for those who want to say it; without it they
        measure each other and find one.
    region
        Where the node is; templates that keep regions apart look at it.
    state
        Folder for what must survive a restart: the registry with its channels, the logs of persistent
        channels. Empty keeps it in memory, where it survives nothing. No two nodes may share one.
    storage_key
        64 hexadecimal digits: values and logs in ``state`` are encrypted with this key of 32 bytes. Empty
        encrypts nothing. A folder stays with the key that it began with.
    archive
        A path or a URI that pyarrow knows, such as ``s3://bucket/folder``: sealed segments of the node's logs
        go there as Parquet. Empty archives nothing.
    registry, monitor
        Settings of the node's registry, and of how backbone nodes watch each other.
    discover
        How peers of a channel are found beside those at ``connect``: ``lan`` by multicast DNS, ``registry``
        in the registry of the backbone that the node connects to.
    bandwidth
        How a peer finds out what it can send.
    trust
        Whose template packages the node loads.
    bind
        Which channels take which transports on links to which nodes; the first that fits wins.
    trace
        Folder for traces; empty writes none.
    run
        Name of the run in the trace; made up if empty.
    """

    name: str = ""
    role: Role = Role.BACKBONE
    listen: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    tree: tuple[tuple[str, str], ...] = ()
    discover: tuple[Way, ...] = ()
    region: Annotated[str, Meta(max_length=64)] = ""
    state: str = ""
    storage_key: str = ""
    archive: str = ""
    trace: str = ""
    run: str = ""
    channel: tuple[ChannelConfig, ...] = ()
    bind: tuple[Binding, ...] = ()
    limits: Limits = Limits()
    registry: RegistrySettings = RegistrySettings()
    monitor: MonitorSettings = MonitorSettings()
    bandwidth: BandwidthSettings = BandwidthSettings()
    trust: TrustConfig = TrustConfig()


def load(path: str | Path) -> NodeConfig:
    """Read a node's TOML file; raises ConfigError naming key and line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}", file=str(path)) from None
    config = parse(text, NodeConfig, str(path))
    check_advertised(config, catalog.transports(), text, str(path))
    check_bindings(config, catalog.transports(), text, str(path))
    return config


def check_advertised(config: NodeConfig, known: Collection[str], text: str = "", file: str = "") -> None:
    """Raise ConfigError for an address in ``advertise`` that no other node could use."""
    for place, address in enumerate(config.advertise):
        if reason := _unusable(address, known):
            raise wrong(f"{address!r}: {reason}", ("advertise", place), text, file)


def _unusable(address: str, known: Collection[str]) -> str:
    """Why other nodes cannot connect to an address; empty if they can."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return "expected scheme://host:port, such as tcp://n1.example.net:7400"
    if scheme not in known:
        return f"no transport for {scheme!r}; known: {', '.join(sorted(known))}"
    if scheme in ON_ONE_MACHINE:
        return ""
    try:
        host, port = host_and_port(address)
    except BadAddress as error:
        return error.reason
    if host in WILDCARDS:
        return f"at every other machine {host!r} means that machine; name one that others can reach"
    return "" if port else "port 0 is none that others can connect to"


def check_bindings(config: NodeConfig, known: Collection[str], text: str = "", file: str = "") -> None:
    """Raise ConfigError for a binding to an unknown transport, or one that can never apply."""
    for problem in problems(config.bind, known, config.role):
        raise wrong(problem.reason, ("bind", problem.place, problem.key), text, file)
