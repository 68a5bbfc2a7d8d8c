"""Packages to try things on: somebody else's template, and ones that leave a trace when they run."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

from gossamer.runtime.template_loader import NAMESPACE
from gossamer.security.keys import PrivateKey
from gossamer.security.package import pack

ECHO = Path(__file__).parents[1] / "third_party" / "gossamer_echo" / "src" / "gossamer_echo" / "__init__.py"
NAUGHTY = """
import builtins
from gossamer.template import Settings, Template

builtins.gossamer_package_ran = True


class Naughty(Template[Settings]):
    \"\"\"Runs.

    Promises: nothing.
    Costs: nothing.
    Needs: nothing.
    \"\"\"

    name = "naughty"
"""
SENTINEL = "gossamer_package_ran"


def echo_files() -> dict[str, bytes]:
    return {"__init__.py": ECHO.read_bytes()}


def echo(key: PrivateKey, version: str = "1.0", **more: bytes) -> bytes:
    """A package with the template ``echo``; more files by name of their module."""
    files = echo_files() | {f"{name}.py": content for name, content in more.items()}
    return pack("gossamer-echo", version, ["echo"], files, key)


def naughty(key: PrivateKey) -> bytes:
    """A package that sets an attribute of builtins when its code runs."""
    return pack("naughty", "1", ["naughty"], {"__init__.py": NAUGHTY.encode()}, key)


def forget() -> None:
    """Leave nothing of any package in this process, and no sign that one ran."""
    for name in [each for each in sys.modules if each.startswith(NAMESPACE)]:
        del sys.modules[name]
    sys.meta_path[:] = [
        each for each in sys.meta_path if type(each).__module__ != "gossamer.runtime.template_loader"
    ]
    vars(builtins).pop(SENTINEL, None)
