"""Which systems are measured, and what each needs to be installed."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import msgspec

SERVER_FOLDERS = "/usr/sbin:/usr/local/sbin"
"""Where servers are, beside what PATH says: Debian puts them there."""


class System(msgspec.Struct, frozen=True):
    """A system, or one way to use it.

    driver
        The module that sends and receives with it.
    options
        What the driver is told: the form of a subscriber, the template of a channel.
    modules, server
        What has to be installed: Python modules, and the program of a server.
    peer
        Whether gossamer is compared with it; the bare socket is a floor and no messaging system.
    hub
        Whether messages go through a node between sender and receivers.
    echoes
        Whether round trips are measured.
    """

    name: str
    driver: str
    options: dict[str, str] = {}
    modules: tuple[str, ...] = ()
    server: str = ""
    peer: bool = True
    hub: bool = False
    echoes: bool = False


def _gossamer(
    name: str,
    form: str,
    template: str,
    hub: bool = False,
    echoes: bool = False,
    transport: str = "tcp",
    role: str = "",
) -> System:
    options = {"form": form, "template": template, "transport": transport, "role": role}
    return System(name, "gossamer", options, peer=False, hub=hub, echoes=echoes)


CHEAPEST = "single-source"
"""The template that costs least where there is one source."""

SYSTEMS = (
    System("raw", "raw", peer=False),
    _gossamer("gossamer", "callback", CHEAPEST, echoes=True),
    _gossamer("gossamer-memory", "callback", CHEAPEST, echoes=True, transport="memory"),
    _gossamer("gossamer-batches", "batches", CHEAPEST),
    _gossamer("gossamer-async-for", "async for", CHEAPEST),
    _gossamer("gossamer-one-by-one", "one by one", CHEAPEST),
    _gossamer("gossamer-reliable", "callback", "reliable"),
    _gossamer("gossamer-forwarded", "callback", "reliable", hub=True),
    _gossamer("gossamer-direct", "callback", "direct", role="peer"),
    _gossamer("gossamer-multiring", "callback", "multiring", role="peer"),
    System("pyzmq", "zeromq", modules=("zmq",), echoes=True),
    System("zenoh", "zenoh", {"shared": "yes"}, ("zenoh",), echoes=True),
    System("zenoh-tcp", "zenoh", {"shared": ""}, ("zenoh",), echoes=True),
    System("nats", "nats", {}, ("nats",), "nats-server", echoes=True),
    System("redis", "redis", {}, ("redis",), "redis-server"),
    System("mqtt", "mqtt", {}, ("paho", "paho.mqtt"), "mosquitto"),
)
NAMES = tuple(each.name for each in SYSTEMS)


def named(name: str) -> System:
    """The system of a name."""
    return next(each for each in SYSTEMS if each.name == name)


def program(name: str) -> str | None:
    """Where the program of a server is."""
    return shutil.which(name) or shutil.which(name, path=SERVER_FOLDERS)


def installed(system: System) -> bool:
    """Whether all that a system needs is here."""
    try:
        modules = all(find_spec(each) is not None for each in system.modules)
    except ModuleNotFoundError:
        return False
    return modules and (not system.server or program(system.server) is not None)
