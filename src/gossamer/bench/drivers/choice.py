"""The driver of a system; imported only where it is used, since what it needs may not be installed."""

from __future__ import annotations

from typing import Protocol

from gossamer.bench.drivers.base import Driver, Echoing
from gossamer.bench.systems import System


class Whole(Driver, Echoing, Protocol):
    """A driver that makes round trips too."""


def driver(system: System) -> Driver:
    """How a system sends and receives."""
    match system.driver:
        case "raw":
            from gossamer.bench.drivers import raw

            return raw
        case "redis":
            from gossamer.bench.drivers import redis

            return redis
        case "mqtt":
            from gossamer.bench.drivers import mqtt

            return mqtt
    return echoing(system)


def echoing(system: System) -> Whole:
    """How a system sends, receives and makes round trips."""
    match system.driver:
        case "zeromq":
            from gossamer.bench.drivers import zeromq

            return zeromq
        case "zenoh":
            from gossamer.bench.drivers import zenoh

            return zenoh
        case "nats":
            from gossamer.bench.drivers import nats

            return nats
    from gossamer.bench.drivers import gossamer

    return gossamer
