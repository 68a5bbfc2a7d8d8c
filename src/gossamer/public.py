"""The public names of ``gossamer`` and the modules that define them.

A module is imported when one of its names is first used, so that ``import gossamer`` takes no time and a
program that only publishes loads no code for announcements. ``__init__.pyi`` tells type checkers the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "Announcer": "gossamer.runtime.api.announcer",
    "AnnouncerSettings": "gossamer.announce.announcer",
    "Binding": "gossamer.links.binding",
    "Channel": "gossamer.runtime.api.channel",
    "Criteria": "gossamer.core.event",
    "Envelope": "gossamer.core.event",
    "Erasure": "gossamer.announce.reliability",
    "GossamerError": "gossamer.core.errors",
    "Indexer": "gossamer.runtime.api.indexer",
    "Limits": "gossamer.runtime.config",
    "Listener": "gossamer.runtime.api.listener",
    "ListenerSettings": "gossamer.announce.listener",
    "Node": "gossamer.runtime.api.node",
    "NodeConfig": "gossamer.runtime.config",
    "Pace": "gossamer.announce.sender",
    "QoS": "gossamer.core.event",
    "Receipt": "gossamer.core.receipt",
    "ReceivedEvent": "gossamer.runtime.api.event",
    "Redelivery": "gossamer.runtime.delivery.acks",
    "Repetition": "gossamer.announce.reliability",
    "Role": "gossamer.core.names",
    "Subscription": "gossamer.runtime.api.subscription",
    "connect": "gossamer.runtime.api.node",
    "run": "gossamer.runtime.api.node",
}
SUBMODULES = ("errors", "template")
__all__ = [*sorted(HOMES), *SUBMODULES]


def __getattr__(name: str) -> Any:
    """The attribute ``gossamer.name``, imported now."""
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    if name in SUBMODULES:
        return import_module(f"gossamer.{name}")
    raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
