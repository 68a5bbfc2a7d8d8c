"""Keys: one line of text for everybody, one file for the owner."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gossamer.core.errors import BadName, ConfigError
from gossamer.security.keys import PrivateKey, PublicKey, parse_public


def test_a_key_is_read_back_and_signs_the_same(tmp_path: Path) -> None:
    made = PrivateKey.new("ann")
    beside = made.write(tmp_path / "ann")
    assert beside == tmp_path / "ann.pub"
    assert beside.read_text() == made.public.line + "\n"
    assert parse_public(beside.read_text()) == made.public
    signature = PrivateKey.read(tmp_path / "ann").sign(b"data")
    assert made.public.verifies(signature, b"data")
    assert not made.public.verifies(signature, b"date")
    assert not PrivateKey.new().public.verifies(signature, b"data")


def test_the_private_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        PrivateKey.new().write(tmp_path / "key")
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_a_private_file_that_others_may_read_is_refused_in_words(tmp_path: Path) -> None:
    PrivateKey.new().write(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        PrivateKey.read(tmp_path / "key")


@pytest.mark.parametrize("there", ["key", "key.pub"])
def test_a_key_is_never_overwritten_and_half_a_pair_is_not_left(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(ConfigError, match="never overwritten"):
        PrivateKey.new().write(tmp_path / "key")
    assert [each.name for each in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_a_file_that_is_no_such_key_is_named(tmp_path: Path) -> None:
    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (b"nonsense", other):
        (tmp_path / "key").write_bytes(content)
        (tmp_path / "key").chmod(0o600)
        with pytest.raises(ConfigError, match=r"key.*no Ed25519 private key"):
            PrivateKey.read(tmp_path / "key")
    for path in (tmp_path / "absent", tmp_path / "no" / "folder"):
        with pytest.raises(ConfigError, match="cannot be"):
            PrivateKey.read(path)
    with pytest.raises(ConfigError, match="cannot be written"):
        PrivateKey.new().write(tmp_path / "no" / "folder")


LINE = PublicKey(bytes(range(32)), "ann").line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        LINE.removeprefix("ed25519:"),
        LINE.replace("ed25519", "rsa"),
        LINE.replace("=", ""),
        LINE[:20],
        f"{LINE} and more",
        f"{PublicKey(bytes(31)).line} ann",
        LINE.replace("8=", "9="),  # the same bytes in other letters
        f"{LINE}{'x' * 100}",
    ],
)
def test_a_line_that_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(BadName, match="public key"):
        parse_public(line)


def test_a_line_may_have_no_name_and_blanks_around_it() -> None:
    assert parse_public(f"  {LINE}\n") == PublicKey(bytes(range(32)), "ann")
    assert parse_public(LINE.split()[0]).name == ""


def test_a_private_key_is_not_shown() -> None:
    key = PrivateKey.new()
    assert "object at" in repr(key)
