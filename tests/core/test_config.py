"""A settings file that is wrong says where: file, key and line."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from gossamer.core.config import parse
from gossamer.core.errors import ConfigError


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the settings below."""


class Link(Strict, frozen=True):
    """A table within a table of an array."""

    to: str
    delay: Annotated[float, Meta(ge=0)] = 0


class Channel(Strict, frozen=True):
    """A table of an array."""

    name: str
    size: Annotated[int, Meta(ge=1, le=100)] = 1
    links: list[Link] = []
    settings: dict[str, int] = {}


class Limits(Strict, frozen=True):
    """A table."""

    answer: float = 5
    queue: int = 3


class Outer(Strict, frozen=True):
    """A table with a table."""

    limits: Limits = Limits()


class Shape(Strict, frozen=True):
    """A whole file."""

    node: str
    listen: list[str] = []
    limits: Limits = Limits()
    outer: Outer = Outer()
    channel: list[Channel] = []
    by_name: dict[str, Limits] = {}


NODE = 'node = "a"\n'

BAD = {
    "a value of the wrong type": ("# first\nnode = 5\n", "node", 2),
    "a quoted key": ('"node" = 5\n', "node", 1),
    "an unknown key": (NODE + "nodes = 1\n", "nodes", 2),
    "a key of a table": (NODE + '[limits]\nanswer = 2\nqueue = "x"\n', "limits.queue", 4),
    "an unknown key of a table": (NODE + "[limits]\nanswer = 2\nquue = 4\n", "limits.quue", 4),
    "a key that begins like another": (NODE + "[limits]\nqueue = 1\nqueue_x = 1\n", "limits.queue_x", 4),
    "an indented table": (NODE + "  [limits]\n    queue = 1.5\n", "limits.queue", 3),
    "a key behind comments": (
        NODE + "# queue = 3\n[limits] # [outer]\nqueue = false # no\n",
        "limits.queue",
        4,
    ),
    "a key behind a long text": (
        'node = """\nqueue = 3\n[limits]\n"""\n[limits]\nqueue = false\n',
        "limits.queue",
        6,
    ),
    "a nested table": (NODE + '[outer]\n[outer.limits]\nanswer = "x"\n', "outer.limits.answer", 4),
    "a nested table of the same name": (
        NODE + '[limits]\nanswer = 1\n[outer.limits]\nanswer = "x"\n',
        "outer.limits.answer",
        5,
    ),
    "a table in one line": (NODE + '[outer]\nlimits = { answer = "x" }\n', "outer.limits.answer", 3),
    "a dotted key": (NODE + 'outer.limits.answer = "x"\n', "outer.limits.answer", 2),
    "the second of an array of tables": (
        NODE + '[[channel]]\nname = "x"\nsize = 5\n[[channel]]\nname = "y"\nsize = 500\n',
        "channel.size",
        7,
    ),
    "a key missing in the second table": (
        NODE + '[[channel]]\nname = "x"\n[[channel]]\nsize = 50\n',
        "channel.name",
        4,
    ),
    "an unknown key in the second table": (
        NODE + '[[channel]]\nname = "x"\nsize = 1\n[[channel]]\nname = "y"\nsiz = 50\n',
        "channel.siz",
        7,
    ),
    "the second array in the second table": (
        NODE
        + '[[channel]]\nname = "x"\n[[channel.links]]\nto = "b"\n[[channel.links]]\nto = "c"\n'
        + '[[channel]]\nname = "y"\n[[channel.links]]\nto = "d"\n[[channel.links]]\nto = "e"\ndelay = -1\n',
        "channel.links.delay",
        14,
    ),
    "a table below the second table": (
        NODE
        + '[[channel]]\nname = "x"\n[channel.settings]\na = 1\n'
        + '[[channel]]\nname = "y"\n[channel.settings]\na = "x"\n',
        "channel.settings.a",
        9,
    ),
    "an entry of a mapping": (
        NODE + '[by_name.x]\nanswer = 1\n[by_name.y]\nanswer = "q"\n',
        "by_name.y.answer",
        5,
    ),
    "an item of a list": (NODE + 'listen = [\n  "a",\n  5,\n]\n', "listen", 2),
    "a value for a table": (NODE + "limits = 5\n", "limits", 2),
    "a table for a value": ("[node]\nx = 1\n", "node", 1),
    "a line without an equals sign": (NODE + "listen 5\n", "listen", 2),
    "an open text": (NODE + '\nlisten = "open\n', "listen", 3),
    "an open list": (NODE + "listen = [\n", "listen", 2),
    "a key said twice": (NODE + 'node = "b"\n', "node", 2),
    "a table said twice": (NODE + "[limits]\n[limits]\n", "limits", 3),
}


@pytest.mark.parametrize("what", BAD)
def test_an_error_names_file_key_and_line(what: str) -> None:
    text, key, line = BAD[what]
    with pytest.raises(ConfigError) as caught:
        parse(text, Shape, "node.toml")
    error = caught.value
    assert (error.file, error.key, error.line) == ("node.toml", key, line)
    assert str(error).startswith(f"node.toml, line {line}, key {key!r}: ")
    assert error.reason


@pytest.mark.parametrize("text", ["", "listen = []\n"])
def test_a_missing_key_is_named_though_it_stands_nowhere(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, Shape, "node.toml")
    assert caught.value.key == "node"
    assert "missing" in caught.value.reason


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000])
def test_a_value_that_the_reader_cannot_take_is_still_an_error_of_ours(value: str) -> None:
    with pytest.raises(ConfigError, match=r"node\.toml"):
        parse(f"{NODE}listen = {value}\n", Shape, "node.toml")


def test_a_good_file_is_read() -> None:
    text = NODE + '[limits]\nqueue = 9\n[[channel]]\nname = "x"\n[[channel]]\nname = "y"\n'
    assert parse(text, Shape) == Shape("a", limits=Limits(queue=9), channel=[Channel("x"), Channel("y")])
