"""Frames in pieces: whole or not at all, whatever happens to the pieces, in bounded memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.transports.datagram import Address, DatagramConnection, SharedSocket
from gossamer.transports.pieces import HEAD, MARK, MAX_OPEN, MAX_PIECES, Assembly, cut

SIZE = 100
FRAME = bytes(range(256)) * 2


@given(st.integers(1, MAX_PIECES * (SIZE - HEAD)), st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_a_frame_is_whole_whatever_order_its_pieces_come_in_and_however_often(
    length: int, number: int, dice: random.Random
) -> None:
    frame = random.Random(length).randbytes(length)
    pieces = list(cut(frame, number, SIZE))
    assert all(len(each) <= SIZE and each.startswith(MARK) for each in pieces)
    *early, last = dice.sample(pieces, len(pieces))
    assembly = Assembly()
    assert [assembly.add("a", each) for each in early + early] == [None] * (2 * len(early))
    assert assembly.add("a", last) == frame
    assert assembly.given_up == 0


def test_pieces_of_different_senders_and_frames_are_not_mixed() -> None:
    assembly = Assembly()
    first, second = list(cut(FRAME, 1, SIZE)), list(cut(FRAME[::-1], 2, SIZE))
    assert [assembly.add("a", each) for each in (*first[1:], *second[1:])][-1] is None
    assert assembly.add("b", first[0]) is None
    assert assembly.add("a", second[0]) == FRAME[::-1]
    assert assembly.add("a", first[0]) == FRAME


def test_a_frame_with_a_piece_missing_never_comes() -> None:
    assembly = Assembly()
    for number in range(100):
        assert [assembly.add("a", each) for each in list(cut(FRAME, number, SIZE))[1:]][-1] is None


def test_what_is_half_here_is_bounded_and_the_oldest_is_given_up() -> None:
    assembly, large = Assembly(), bytes(60_000)
    for number in range(1000):
        assembly.add(number, next(cut(large, number, 50_000)))
    assert assembly.given_up == 1000 - MAX_OPEN // (50_000 - HEAD)
    assert assembly.add(0, list(cut(large, 0, 50_000))[1]) is None
    assert assembly.add(999, list(cut(large, 999, 50_000))[1]) == large


def test_pieces_that_make_no_sense_are_given_up() -> None:
    assembly = Assembly()
    head = MARK + bytes(4)
    for nonsense in (
        b"",
        MARK,
        head + b"\x00\x01",
        head + b"\x02\x02x",
        head + b"\x00\x00x",
        head + b"\x00\xffx",
    ):
        assert assembly.add("a", nonsense) is None
    first, *others = cut(FRAME, 7, SIZE)
    assembly.add("a", first)
    assert assembly.add("a", first[: HEAD - 1] + b"\x02" + b"x") is None, "another count for the same frame"
    assert [assembly.add("a", each) for each in others] == [None] * len(others)


@given(st.lists(st.binary(max_size=40).map(lambda rest: MARK + rest), max_size=30))
def test_no_bytes_do_any_harm(datagrams: list[bytes]) -> None:
    assembly = Assembly()
    for each in datagrams:
        frame = assembly.add("a", each)
        assert frame is None or len(frame) < sum(map(len, datagrams))


class Deaf(SharedSocket):
    """Listens to no strangers."""

    def stranger(self, address: Address) -> DatagramConnection | None:
        return None


async def test_pieces_of_a_stranger_who_is_not_listened_to_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[bytes] = []
    monkeypatch.setattr(Assembly, "add", lambda self, sender, piece: taken.append(piece))
    socket = Deaf(lambda connection: connection)  # type: ignore[arg-type, return-value]
    for piece in cut(FRAME, 1, SIZE):
        socket.datagram_received(piece, ("127.0.0.1", 9))
    assert taken == []
