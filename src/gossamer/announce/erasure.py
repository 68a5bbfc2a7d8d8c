"""Erasure codes: any k of n fragments give a block back, fewer give an error, never wrong bytes.

The code is Reed–Solomon by the library zfec, which is an extra (``pip install 'gossamer[announce]'``) since
its licence is another one than ours. zfec trusts its caller: told of one fragment twice it never returns,
told of one that cannot be it makes up bytes. So all of that is looked at here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from gossamer.core.errors import ConfigError, Incomplete, ProtocolError, TooLarge

try:
    import zfec
except ImportError:  # pragma: no cover - the extra is not installed
    zfec = None

MOST = 256
"""Fragments of one block: the code works on bytes."""
MOST_BLOCKS = 256


class Shape(NamedTuple):
    """How an announcement is laid out.

    needed
        Fragments that rebuild a block.
    size
        Bytes of a fragment.
    """

    length: int
    blocks: int
    needed: int
    size: int


def shaped(length: int, room: int, block: int) -> Shape:
    """Blocks alike in size, of at most ``block`` fragments of at most ``room`` bytes."""
    if not 1 <= block <= MOST:
        raise ConfigError(f"{block}: from 1 to {MOST} fragments", key="block")
    if room < 1:
        raise TooLarge("header of a packet", 1 - room, 0)
    pieces = ceil(length / room)
    blocks = ceil(pieces / block)
    if blocks > MOST_BLOCKS:
        raise TooLarge("number of blocks", blocks, MOST_BLOCKS)
    return fitted(length, blocks, ceil(pieces / blocks))


def fitted(length: int, blocks: int, needed: int) -> Shape:
    """The shape that follows from length, blocks and the fragments that rebuild one."""
    return Shape(length, blocks, needed, max(1, ceil(length / (blocks * needed))))


def encoded(payload: bytes, shape: Shape, made: int) -> list[list[bytes]]:
    """For each block its ``made`` fragments, those of the announcement itself first."""
    if not shape.needed <= made <= MOST:
        raise ConfigError(
            f"{made} fragments of which {shape.needed} are needed; from that to {MOST}", key="block"
        )
    _library()
    size = shape.size
    padded = payload.ljust(shape.blocks * shape.needed * size, b"\0")
    pieces = [padded[at : at + size] for at in range(0, len(padded), size)]
    encoder = zfec.Encoder(shape.needed, made)
    return [encoder.encode(pieces[block :: shape.blocks]) for block in range(shape.blocks)]


def decoded(shape: Shape, made: int, blocks: Mapping[int, Mapping[int, bytes]]) -> bytes:
    """The announcement; ``blocks`` has for each block its fragments by number. Raises Incomplete."""
    _library()
    decoder = zfec.Decoder(shape.needed, made)
    pieces: list[bytes] = [b""] * (shape.blocks * shape.needed)
    for block in range(shape.blocks):
        there = blocks.get(block, {})
        if len(there) < shape.needed:
            raise Incomplete(f"block {block}", len(there), shape.needed)
        chosen = sorted(there)[: shape.needed]
        for number in chosen:
            if not 0 <= number < made or len(there[number]) != shape.size:
                expected = f"below {made}, of {shape.size} bytes"
                raise ProtocolError("fragment", (number, len(there[number])), expected)
        pieces[block :: shape.blocks] = decoder.decode([there[number] for number in chosen], chosen)
    return b"".join(pieces)[: shape.length]


def _library() -> None:
    if zfec is None:
        reason = "erasure codes need zfec: pip install 'gossamer[announce]', or announce with Repetition"
        raise ConfigError(reason, key="reliability")
