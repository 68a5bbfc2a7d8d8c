"""Each law is fed what it forbids: a law that catches nothing is no law."""

from __future__ import annotations

import pytest

from tests.laws import checks

PROTOCOL = ("core", "overlay", "links", "templates")

CLOCKS = (
    "import time",
    "from time import monotonic",
    "import time as clock",
    "def later():\n    import time\n    return time.time()",
    "import datetime\nx = datetime.datetime.now()",
    "from datetime import datetime\nx = datetime.utcnow()",
    "x = __import__('time').time()",
    "import importlib\nx = importlib.import_module('time')",
    "from importlib import import_module as load\nx = load('time')",
)
DICE = (
    "import random",
    "from random import Random",
    "import secrets",
    "import uuid",
    "import os\nx = os.urandom(8)",
    "import numpy.random",
)
LOOPS = (
    "import asyncio",
    "from asyncio import sleep",
    "import threading",
    "import multiprocessing.shared_memory",
    "import subprocess",
    "import socket",
    "import select",
    "import ssl",
    "async def f(): ...",
    "class A:\n    async def f(self):\n        await self.g()",
)
OUTSIDE = (
    "import os",
    "from os import environ",
    "import io",
    "from pathlib import Path",
    "x = open('file')",
    "print('hello')",
    "shout = print",
    "x = input()",
    "x = eval('1')",
    "import pickle",
    "import sys\nsys.stdout.write('x')",
    "name = 'time'\nx = __import__(name)",
    "import logging",
)


@pytest.mark.parametrize("part", PROTOCOL)
@pytest.mark.parametrize("planted", [*CLOCKS, *DICE, *LOOPS, *OUTSIDE])
def test_input_and_output_planted_in_protocol_logic_is_caught(part: str, planted: str) -> None:
    assert checks.input_output(f"gossamer.{part}.planted", f'"""Planted."""\n{planted}\n')


@pytest.mark.parametrize("part", ["filters", "analysis"])
@pytest.mark.parametrize("planted", [*CLOCKS, *DICE, "import numpy as np\nx = np.random.default_rng()"])
def test_clocks_and_dice_planted_in_pure_functions_are_caught(part: str, planted: str) -> None:
    assert checks.input_output(f"gossamer.{part}.planted", f'"""Planted."""\n{planted}\n')


def test_arrays_are_for_analysis_only() -> None:
    arrays = "import numpy as np\nfrom numpy.typing import NDArray"
    assert not checks.input_output("gossamer.analysis.planted", arrays)
    assert checks.input_output("gossamer.filters.planted", arrays)


@pytest.mark.parametrize("part", ["runtime", "simulator", "transports", "traces", "cli"])
def test_hosts_may_have_clocks(part: str) -> None:
    assert not checks.input_output(f"gossamer.{part}.planted", "import time, asyncio\nasync def f(): ...")


@pytest.mark.parametrize(
    "allowed",
    [
        "import hashlib, hmac, struct, re, tomllib, collections, typing, functools, difflib, math",
        "def f(ctx):\n    return ctx.now",
        "def f(ctx, spec):\n    ctx.open(spec)\n    ctx.rng.random()",
        "class Desk:\n    def open(self, spec): ...",
        "from gossamer.core.names import nanoseconds",
        'x = "import time"  # a text is no import',
    ],
)
def test_what_needs_no_outside_is_left_alone(allowed: str) -> None:
    assert not checks.input_output("gossamer.core.planted", allowed)


@pytest.mark.parametrize("way", ["import {}", "from {} import x", "x = __import__('{}')"])
@pytest.mark.parametrize(
    ("part", "target"),
    [
        ("core", "gossamer.overlay.directory.service"),
        ("core", "gossamer.runtime.api.node"),
        ("core", "gossamer.catalog"),
        ("core", "gossamer.testing.fake"),
        ("core", "gossamer"),
        ("overlay", "gossamer.runtime.api.node"),
        ("overlay", "gossamer.simulator.world"),
        ("overlay", "gossamer.templates.multicast"),
        ("links", "gossamer.runtime.api.node"),
        ("links", "gossamer.cli.main"),
        ("templates", "gossamer.links.link"),
        ("templates", "gossamer.transports.tcp"),
        ("templates", "gossamer.traces.writer"),
        ("templates", "gossamer.runtime.api.node"),
        ("templates", "gossamer.catalog"),
        ("traces", "gossamer.runtime.api.node"),
        ("transports", "gossamer.runtime.api.node"),
        ("runtime", "gossamer.simulator.world"),
        ("simulator", "gossamer.runtime.api.node"),
        ("simulator", "gossamer.testing.fake"),
        ("runtime", "gossamer.cli.main"),
        ("pipeline", "gossamer.core.engine"),
        ("pipeline", "gossamer.runtime.api.node"),
        ("pipeline", "gossamer.traces.writer"),
        ("analysis", "gossamer.simulator.world"),
        ("testing", "gossamer.cli.main"),
        ("whatif", "gossamer.cli.main"),
        ("cli", "gossamer.apps.console"),
    ],
)
def test_an_upward_import_is_caught_however_it_is_written(part: str, target: str, way: str) -> None:
    assert checks.upward_imports(f"gossamer.{part}.planted", way.format(target))


@pytest.mark.parametrize(
    "planted",
    [
        "from ..runtime import node",
        "from .. import runtime",
        "from ...gossamer.runtime.node import Node",
        "from importlib import import_module\nimport_module('..runtime', __package__)",
        "import importlib\nimportlib.import_module('gossamer.runtime.api.node')",
        "import importlib\nimportlib.import_module(name='gossamer.runtime')",
        "def f():\n    from gossamer.runtime.api.node import Node",
        "if True:\n    from gossamer.runtime import *",
        "import importlib\nimportlib.import_module('gossamer.' + 'runtime')",
    ],
)
def test_a_hidden_upward_import_is_caught(planted: str) -> None:
    assert checks.upward_imports("gossamer.core.planted", planted)


@pytest.mark.parametrize(
    ("part", "fine"),
    [
        ("core", "from .wire import encode\nimport msgspec, re, struct"),
        ("overlay", "from gossamer.core.wire import encode\nfrom . import directory"),
        (
            "templates",
            "from gossamer.core import tree\nfrom gossamer.overlay.directory.service import Directory",
        ),
        ("templates", "from gossamer.templates.multicast import Multicast"),
        ("runtime", "from gossamer.transports.base import Transport\nimport asyncio, uvloop"),
        ("pipeline", "from gossamer.core.trace import COLUMNS\nimport pyspark"),
        ("pipeline", "from gossamer.core import trace\nimport gossamer.simulator.world"),
        ("testing", "from gossamer.simulator.world import World"),
        ("cli", "from gossamer.runtime.api.node import Node"),
    ],
)
def test_a_downward_import_is_left_alone(part: str, fine: str) -> None:
    assert not checks.upward_imports(f"gossamer.{part}.planted", fine)


@pytest.mark.parametrize("part", ["core", "templates"])
@pytest.mark.parametrize(
    "third", ["import numpy", "from cryptography.hazmat import x", "import pyarrow as pa"]
)
def test_a_third_party_in_the_core_is_caught(part: str, third: str) -> None:
    assert checks.upward_imports(f"gossamer.{part}.planted", third)


def test_a_new_part_must_be_given_its_place() -> None:
    assert checks.upward_imports("gossamer.stuff.planted", "")


@pytest.mark.parametrize("part", ["runtime", "simulator", "cli", "overlay"])
def test_a_template_imported_by_name_is_caught(part: str) -> None:
    planted = "from gossamer.templates.multicast import Multicast"
    assert checks.templates_named(f"gossamer.{part}.planted", planted)


@pytest.mark.parametrize(
    ("module", "planted"),
    [
        ("overlay.registry.planted", "from gossamer.overlay.groups.group import Group"),
        ("templates.reliable.planted", "from gossamer.templates.total_order.messages import Order"),
        ("templates.multiring.planted", "from gossamer.templates.ringtree.slots import Slots"),
        ("runtime.net.planted", "from gossamer.runtime.delivery.queue import Queue"),
    ],
)
def test_a_sibling_room_that_is_not_named_is_caught(module: str, planted: str) -> None:
    assert checks.between_rooms(f"gossamer.{module}", planted)


@pytest.mark.parametrize("planted", ["x = hash('a')", "x = sorted(y, key=lambda e: id(e))"])
def test_what_differs_from_run_to_run_is_caught(planted: str) -> None:
    assert checks.unstable_hashes("gossamer.core.planted", planted)
    assert not checks.unstable_hashes(
        "gossamer.core.planted", "class A:\n    def __hash__(self): return hash(1)"
    )


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "common", "misc", "link_manager", "managers"])
def test_a_name_that_says_nothing_is_caught(name: str) -> None:
    assert checks.bad_names(f"gossamer.core.{name}")
    assert checks.bad_names(f"gossamer.{name}.wire")


def test_a_manager_is_caught() -> None:
    assert checks.manager_classes("gossamer.core.planted", "class ChannelManager: ...")


def test_a_module_of_601_lines_is_caught() -> None:
    assert checks.too_long("gossamer.core.planted", "x = 1\n" * 601)
    assert not checks.too_long("gossamer.core.planted", "x = 1\n" * 600)


@pytest.mark.parametrize(
    "planted",
    ["x = 1", "def f(): ...", "if True:\n    import re", "__all__ = sorted(dir())", '"""A."""\n"""B."""'],
)
def test_logic_in_a_package_file_is_caught(planted: str) -> None:
    assert checks.logic_in_init("gossamer.core.__init__", planted)
    fine = '"""A."""\nfrom gossamer.core.wire import encode\n__all__ = ["encode"]'
    assert not checks.logic_in_init("gossamer.core.__init__", fine)


@pytest.mark.parametrize("planted", ["x = 1", '"""A."""\ndef f(): ...', '"""A."""\nclass A: ...'])
def test_a_missing_docstring_is_caught(planted: str) -> None:
    assert checks.undocumented("gossamer.core.planted", planted)
    assert not checks.undocumented("gossamer.core.planted", '"""A."""\ndef _f(): ...')


@pytest.mark.parametrize("place", ["root", "work", "home", "Users"])
@pytest.mark.parametrize("around", ["cd {}", "x = '{}/me/x'", "({}/a)", "file://{}/a", "`{}`"])
def test_a_path_of_some_machine_is_caught(place: str, around: str) -> None:
    text = around.format("/" + place)
    if text.startswith("file"):
        assert not checks.machine_paths("x.md", "https://example.org/" + place)
    else:
        assert checks.machine_paths("x.md", text)


@pytest.mark.parametrize(
    "fine", ["b1/s2/work", "a/root/b", "./work", "~/home", "the /working tree", "/rooted"]
)
def test_other_paths_are_left_alone(fine: str) -> None:
    assert not checks.machine_paths("x.md", fine)


def test_a_package_registry_is_caught() -> None:
    assert checks.machine_paths("x.txt", "https://files.python" + "hosted.org/x")
    assert checks.machine_paths("x.txt", "pip install --index" + "-url http://10.0.0.1/simple x")


@pytest.mark.parametrize("planted", ["Console().print(x)", "a = rich.console.Console(stderr=True)"])
def test_a_console_that_knows_styles_is_caught(planted: str) -> None:
    assert checks.styled("cli/x.py", planted)
    assert not checks.styled("cli/x.py", "from rich.console import Console\nscreen().print(x)")
