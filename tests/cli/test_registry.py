"""``gossamer registry``, as people and scripts use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.programs import Program, address_of, gossamer


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json") as node:
        yield address_of(node)


def registry(at: str, *arguments: str) -> Program:
    return gossamer("registry", *arguments, "--connect", at)


def run(at: str, *arguments: str) -> tuple[int, str, str]:
    with registry(at, *arguments) as program:
        return program.end(), program.rest(), program.errors()


def test_what_was_set_is_got_listed_and_deleted(at: str) -> None:
    assert run(at, "set", "site/name", "north") == (0, "", "")
    assert run(at, "get", "site/name") == (0, "north", "")
    code, out, _ = run(at, "list", "site/", "--json")
    (row,) = json.loads(out)
    assert (code, row["key"], row["value"]) == (0, "site/name", "north")
    assert row["version"] > 0
    assert "north" in run(at, "list", "site/")[1]
    assert run(at, "delete", "site/name", "--json") == (0, '{"key": "site/name", "deleted": true}', "")
    code, out, errors = run(at, "get", "site/name")
    assert (code, out) == (1, "")
    assert "nothing under 'site/name'" in errors


def test_bytes_come_from_standard_input_and_leave_as_base64_in_json(at: str, tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"\xff\x00")
    with (
        (tmp_path / "value").open("rb") as given,
        gossamer("registry", "set", "raw", "--connect", at, "--json", stdin=given) as program,
    ):
        assert program.json() == {"key": "raw", "bytes": 2}
    code, out, _ = run(at, "get", "raw", "--json")
    assert (code, json.loads(out)) == (0, {"key": "raw", "value_base64": "/wA="})


def test_a_watch_shows_what_is_there_and_each_change(at: str) -> None:
    run(at, "set", "w/1", "there")
    with registry(at, "watch", "w/", "--count", "3", "--json") as watch:
        assert watch.json()["value"] == "there"
        run(at, "set", "w/2", "new")
        assert watch.json()["key"] == "w/2"
        run(at, "delete", "w/1")
        last = watch.json()
        assert (last["key"], last["value"]) == ("w/1", None)
        assert watch.end() == 0


def test_a_bad_key_is_one_line_of_error(at: str) -> None:
    code, out, errors = run(at, "set", "two words", "x")
    assert (code, out) == (1, "")
    assert "two words" in errors
    assert len(errors.splitlines()) == 1


def test_channels_are_listed_as_items_and_cannot_be_written(at: str) -> None:
    with gossamer("pub", "news", "x", "--connect", at, "--wait", "0", "--json") as writer:
        writer.json()
        assert writer.end() == 0
    _, out, _ = run(at, "list", "channel/", "--json")
    assert "channel/news" in [row["key"] for row in json.loads(out)]
    assert run(at, "set", "channel/news", "x")[0] == 1


def test_a_killed_node_with_a_state_folder_comes_back_with_its_items(tmp_path: Path) -> None:
    up = ("up", "--listen", "tcp://127.0.0.1:0", "--name", "b1", "--state", str(tmp_path), "--json")
    with gossamer(*up) as first:
        assert run(address_of(first), "set", "k", "v")[0] == 0
        first.kill()
    with gossamer(*up) as second:
        assert run(address_of(second), "get", "k") == (0, "v", "")


def test_registry_alone_says_what_it_can_do() -> None:
    with gossamer("registry", "--help") as program:
        program.end()
        text = program.rest()
    assert all(word in text for word in ("get", "set", "delete", "list", "watch"))
