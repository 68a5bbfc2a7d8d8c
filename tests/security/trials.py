"""What an altered package does: the trial that both the tests and the planted bugs are put through."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator

from gossamer.core.errors import GossamerError
from gossamer.runtime.template_loader import load
from gossamer.security.package import Trust, read_package
from tests.security.sources import SENTINEL, forget


def ran(data: bytes, trust: Trust) -> bool:
    """Take a package in as a node does; whether its code ran."""
    forget()
    try:
        package = read_package("trial", data)
        trust.admit("trial", package.label)
        load(package)
    except GossamerError:
        pass
    return hasattr(builtins, SENTINEL)


def flipped(data: bytes, positions: Iterable[int], mask: int = 1) -> Iterator[bytes]:
    """Copies of a package with one byte changed each."""
    for position in positions:
        yield data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def accepted(packages: Iterable[bytes], trust: Trust) -> int:
    """How many of these packages ran."""
    return sum(ran(each, trust) for each in packages)
