"""Hosts of a test's own: network namespaces on one bridge. Needs root and ``ip``; ``usable`` says whether."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType

NET = "10.213.7"


def usable() -> bool:
    """Whether this machine lets a test make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = subprocess.run(
        ["ip", "netns", "add", f"gossamer-{os.getpid()}-probe"], capture_output=True, check=False
    )
    subprocess.run(["ip", "netns", "del", f"gossamer-{os.getpid()}-probe"], capture_output=True, check=False)
    return probe.returncode == 0


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts:
    """So many hosts, each with addresses of its own: ``10.213.7.1`` and ``fd00:213::1``, ``10.213.7.2`` …

    The bridge stands in a namespace of its own, so that nothing of the machine is touched.
    """

    def __init__(self, count: int) -> None:
        self.names = [f"gossamer-{os.getpid()}-{number}" for number in range(count)]
        self.addresses = [f"{NET}.{number + 1}" for number in range(count)]
        self.six = [f"fd00:213::{number + 1}" for number in range(count)]
        self._middle = f"gossamer-{os.getpid()}-bridge"

    def __enter__(self) -> Hosts:
        _ip("netns", "add", self._middle)
        _ip("-n", self._middle, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._middle, "link", "set", "bridge", "up")
        for number, (name, address, six) in enumerate(zip(self.names, self.addresses, self.six, strict=True)):
            _ip("netns", "add", name)
            _ip(
                "link",
                "add",
                "eth0",
                "netns",
                name,
                "type",
                "veth",
                "peer",
                f"p{number}",
                "netns",
                self._middle,
            )
            _ip("-n", self._middle, "link", "set", f"p{number}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "-6", "addr", "add", f"{six}/64", "dev", "eth0", "nodad")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for name in (*self.names, self._middle):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def inside(self, number: int) -> tuple[str, ...]:
        """What a command begins with to run on a host."""
        return ("ip", "netns", "exec", self.names[number])
