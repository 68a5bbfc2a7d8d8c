"""Encryption at rest: ChaCha20-Poly1305 with one key for the folder of a node.

A nonce of twelve random bytes stands before each ciphertext. What the ciphertext belongs to (the key of a
value, the position of a record) is authenticated with it, so that no value passes for another.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gossamer.core.errors import ConfigError, StorageError

KEY_BYTES = 32
NONCE_BYTES = 12
OVERHEAD = NONCE_BYTES + 16
"""Bytes by which a ciphertext is longer than its text."""


class Cipher:
    """Seals and opens with one key."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        if len(key) != KEY_BYTES:
            raise ConfigError(f"a key has {KEY_BYTES} bytes; here are {len(key)}", key="storage_key")
        self._aead = ChaCha20Poly1305(key)

    def seal(self, data: bytes, place: bytes) -> bytes:
        """The ciphertext of data that belongs to a place."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, data, place)

    def open(self, data: bytes, place: bytes, file: str) -> bytes:
        """The data of a ciphertext; raises StorageError if the key or the place is another."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            raise StorageError(file, "the key does not fit: it was encrypted with another one") from None

    def seal_records(self, records: Sequence[bytes], first: int) -> list[bytes]:
        """Ciphertexts of the records of a log from a position on."""
        return [self.seal(each, _place(at)) for at, each in enumerate(records, first)]

    def open_records(self, records: Sequence[bytes], first: int, file: str) -> list[bytes]:
        """Records of a log from a position on; raises StorageError."""
        return [self.open(each, _place(at), file) for at, each in enumerate(records, first)]


def _place(position: int) -> bytes:
    return position.to_bytes(8, "big")


def key_from(text: str) -> Cipher | None:
    """The cipher for a key in 64 hexadecimal digits; None for an empty text. Raises ConfigError."""
    if not text:
        return None
    try:
        return Cipher(bytes.fromhex(text))
    except ValueError:
        raise ConfigError("a key is 64 hexadecimal digits", key="storage_key") from None
