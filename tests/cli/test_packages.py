"""``gossamer templates key``, ``sign``, ``publish`` and ``published``, as people and scripts use them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gossamer.cli.packages import app
from gossamer.security.keys import PrivateKey
from gossamer.security.package import read_package
from tests.security.sources import ECHO
from tests.system.programs import address_of, gossamer, listening


def run(*arguments: object) -> Result:
    """The command in this process; an error of ours is in ``exception``."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder to work in, with the key of an author."""
    PrivateKey.new("ann").write(tmp_path / "ann")
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def test_who_keeps_which_wish_is_a_table_and_rows() -> None:
    assert "transaction" in run("--qos").stdout, "also on a narrow terminal"
    rows = {row["option"]: row for row in json.loads(run("--qos", "--json").stdout)}
    assert rows["history"]["supported"]["persistent"]
    assert not rows["history"]["supported"]["reliable"]
    assert rows["history"]["on"] == ["subscription"]


def test_a_key_pair_is_made_and_its_settings_are_shown(folder: Path) -> None:
    made = run("key", "bob")
    assert made.exit_code == 0
    public = Path("bob.pub").read_text().strip()
    assert f'keys = ["{public}"]' in made.stdout
    assert public.endswith(" bob")
    assert (folder / "bob").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in made.stdout
    assert "never overwritten" in str(run("key", "bob").exception)
    row = json.loads(run("key", "eve", "--name", "eve-at-work", "--json").stdout)
    assert row["key"].endswith(" eve-at-work")


def test_a_file_or_a_folder_is_packed_signed_and_says_what_it_has(folder: Path) -> None:
    done = run("sign", ECHO.parent, "--key", "ann", "--version", "1.0")
    assert done.stdout.startswith("gossamer_echo-1.0.package has echo (1 files")
    package = read_package("p", Path("gossamer_echo-1.0.package").read_bytes())
    assert package.files == {"__init__.py": ECHO.read_bytes()}
    (folder / "mine.py").write_bytes(ECHO.read_bytes())
    row = json.loads(run("sign", "mine.py", "--key", "ann", "--version", "2", "--out", "x", "--json").stdout)
    assert (row["name"], row["version"], row["templates"]) == ("mine", "2", ["echo"])
    assert Path("x").exists()


def test_what_is_no_python_is_left_out_and_said(folder: Path) -> None:
    source = folder / "pkg"
    (source / "__pycache__").mkdir(parents=True)
    (source / "__pycache__" / "x.pyc").write_text("")
    (source / "py.typed").write_text("")
    (source / "words.py").write_text("WORD = 1\n")
    (source / "__init__.py").write_text("from .words import WORD\n" + ECHO.read_text())
    done = run("sign", source, "--key", "ann", "--version", "1")
    assert "left out: py.typed" in done.stderr
    assert set(read_package("p", Path("pkg-1.package").read_bytes()).files) == {"__init__.py", "words.py"}


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("absent.py", (), "neither a Python file nor a folder"),
        (".", (), "neither a Python file nor a folder"),
        ("empty.py", (), "no template"),
        ("broken.py", (), "SyntaxError"),
        ("empty.py", ("--key", "absent"), "cannot be read"),
        ("empty.py", ("--key", "ann.pub"), "no Ed25519 private key"),
        ("echo.py", ("--version", "one two"), "not a valid package version"),
        ("echo.py", ("--name", "a b"), "not a valid package name"),
        ("echo.py", ("--out", "no/folder"), "cannot be written"),
    ],
)
def test_what_cannot_be_signed_says_why(
    folder: Path, source: str, options: tuple[str, ...], words: str
) -> None:
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("def (:\n")
    (folder / "echo.py").write_bytes(ECHO.read_bytes())
    done = run("sign", source, "--key", "ann", "--version", "1", *options)
    assert words in str(done.exception)
    assert not list(folder.glob("*.package"))


def test_what_is_no_package_is_not_published(folder: Path) -> None:
    for data, words in ((b"x", "no signature"), (None, "cannot be read")):
        if data is not None:
            (folder / "p.package").write_bytes(data)
        path = "p.package" if data is not None else "absent.package"
        assert words in str(run("publish", path, "--connect", "tcp://127.0.0.1:1").exception)


def test_a_package_goes_from_its_author_over_a_node_to_a_subscriber_that_trusts_it(folder: Path) -> None:
    run("sign", ECHO.parent, "--key", "ann", "--version", "1.0")
    trust = ("--trust", (folder / "ann.pub").read_text().strip())
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json", *trust) as node:
        at = ("--connect", address_of(node))
        done = run("publish", "gossamer_echo-1.0.package", *at, "--json")
        assert json.loads(done.stdout)["templates"] == ["echo"]
        assert "echo" in run("published", *at).stdout
        (row,) = json.loads(run("published", *at, "--json").stdout)
        assert (row["template"], row["version"]) == ("echo", "1.0")
        assert trust[1].startswith(row["key"])
        with listening(gossamer("sub", "hills", *at, "--template", "echo", *trust)) as reader:
            with gossamer("pub", "hills", "hello", *at, "--wait", "0", *trust) as writer:
                assert writer.end() == 0
            assert reader.line() == "hello"
            with gossamer("pub", "hills", "x", *at, "--wait", "0") as stranger:
                assert stranger.end() == 1
                errors = stranger.errors()
            assert row["key"] in errors
            assert "[trust]" in errors
            assert len(errors.splitlines()) == 1
            assert reader.stop() == 0
        assert node.stop() == 0
