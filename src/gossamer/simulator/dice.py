"""Seeded dice: the same for the same seed and label on every machine, never shared, never global.

The seed of a generator is a blake2b hash of world seed, node, incarnation and label, so that neither the
order of creation nor PYTHONHASHSEED matters. A generator is made at its first throw: a hundred thousand
nodes that never throw cost nothing.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar

import msgspec

Element = TypeVar("Element")


def derive(seed: int, node: str, incarnation: int, label: str) -> bytes:
    """32 bytes that depend on all four and on nothing else."""
    return blake2b(msgspec.json.encode((str(seed), node, incarnation, label)), digest_size=32).digest()


class SeededDice:
    """What protocols and models throw; ``core.context.Dice``."""

    __slots__ = ("_key", "_random")

    def __init__(self, seed: int, node: str = "", incarnation: int = 0, label: str = "") -> None:
        self._key: tuple[int, str, int, str] | None = (seed, node, incarnation, label)
        self._random: Random | None = None

    def made(self) -> Random:
        """The generator itself, for who throws with every item."""
        if self._random is None:
            assert self._key is not None
            self._random = Random(int.from_bytes(derive(*self._key), "big"))
            self._key = None
        return self._random

    def random(self) -> float:
        """At least 0 and less than 1."""
        made = self._random
        return self.made().random() if made is None else made.random()

    def randrange(self, stop: int, /) -> int:
        return self.made().randrange(stop)

    def choice(self, seq: Sequence[Element], /) -> Element:
        return self.made().choice(seq)

    def shuffle(self, seq: MutableSequence[Any], /) -> None:
        self.made().shuffle(seq)
