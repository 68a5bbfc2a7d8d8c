"""Ed25519 keys: who signs, and whom a node trusts.

A public key is one line of text, ``ed25519:BASE64 name``; the name is for people and proves nothing. A
private key is a PEM file that only its owner may read.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gossamer.core.errors import BadName, ConfigError

KEY_BYTES = 32
SIGNATURE_BYTES = 64
SCHEME = "ed25519:"
PUBLIC_SUFFIX = ".pub"
"""The public key stands beside the private one, under its name with this behind it."""

_NAME = re.compile(r"[^\s\x00-\x1f\x7f\ud800-\udfff]{0,64}")


class PublicKey(msgspec.Struct, frozen=True):
    """A key that signatures are checked with, and what people here call it."""

    raw: bytes
    name: str = ""

    @property
    def id(self) -> str:
        """The key as text, without its name."""
        return SCHEME + base64.b64encode(self.raw).decode()

    @property
    def line(self) -> str:
        """The key and its name, as settings and files have it."""
        return f"{self.id} {self.name}".rstrip()

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Whether this key's owner signed just these bytes."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def parse_public(line: str) -> PublicKey:
    """The key that a line says; raises BadName."""
    text, _, name = line.strip().partition(" ")
    name = name.strip()
    try:
        raw = base64.b64decode(text.removeprefix(SCHEME), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    key = PublicKey(raw, name)
    # one key has one text, or a list of keys could name it twice
    if len(raw) != KEY_BYTES or key.id != text or not _NAME.fullmatch(name):
        rule = f"{SCHEME}BASE64 of {KEY_BYTES} bytes, and a name of up to 64 characters without blanks"
        raise BadName("public key", line, rule)
    return key


class PrivateKey:
    """A key that signs. It is never shown."""

    def __init__(self, key: Ed25519PrivateKey, name: str = "") -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw(), name)

    @classmethod
    def new(cls, name: str = "") -> PrivateKey:
        """A key that nobody else has."""
        return cls(Ed25519PrivateKey.generate(), name)

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def write(self, path: Path) -> Path:
        """Keep the key in a new file, for its owner alone; where its public key stands.

        Raises ConfigError. A key is never overwritten.
        """
        beside = path.with_name(path.name + PUBLIC_SUFFIX)
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write_new(beside, f"{self.public.line}\n".encode(), 0o644)
        try:
            _write_new(path, pem, 0o600)
        except ConfigError:
            beside.unlink()
            raise
        return beside

    @classmethod
    def read(cls, path: Path) -> PrivateKey:
        """The key in a file that only its owner may read; raises ConfigError."""
        try:
            mode = path.stat().st_mode
            key = load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            reason = "this is no Ed25519 private key in PEM; `gossamer templates key FILE` makes one"
            raise ConfigError(reason, file=str(path))
        if os.name == "posix" and mode & 0o077:
            raise ConfigError(f"others may read this private key: chmod 600 {path}", file=str(path))
        return cls(key)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise ConfigError("it is there already, and a key is never overwritten", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
