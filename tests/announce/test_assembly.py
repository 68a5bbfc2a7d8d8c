"""Any k of n fragments give the announcement back; fewer, or wrong ones, never give wrong bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.announce import erasure
from gossamer.announce.assembly import Announcement, Assembler
from gossamer.announce.header import ERASURE, HEADER_BYTES, WHOLE, Code, Header, encode
from gossamer.announce.reliability import (
    ERASURE_FORMAT,
    MOST_BYTES,
    Erasure,
    Fragment,
    Repetition,
    fragments,
    whole,
)
from gossamer.core.errors import ConfigError, Incomplete, ProtocolError, TooLarge

THREAD = bytes(range(16))


def header(each: Fragment, version: int = 1) -> Header:
    return Header(THREAD, version, each.sequence, each.last, Code.DATA, each.options)


def put_together(assembler: Assembler, cut: list[Fragment]) -> list[Announcement]:
    found = [assembler.put(header(each), each.body) for each in cut]
    return [each for each in found if each is not None]


payloads = st.binary(min_size=1, max_size=600)


@given(payloads, st.integers(1, 9), st.integers(0, 9), st.randoms(use_true_random=False))
def test_any_k_of_n_rebuild_and_fewer_give_an_error(payload: bytes, block: int, parity: int, dice) -> None:  # type: ignore[no-untyped-def]
    shape = erasure.shaped(len(payload), 20, block)
    made = shape.needed + parity
    coded = erasure.encoded(payload, shape, made)
    chosen = {
        number: dict(dice.sample(list(enumerate(pieces)), shape.needed))
        for number, pieces in enumerate(coded)
    }
    assert erasure.decoded(shape, made, chosen) == payload
    poorer = dice.choice(list(chosen.values()))
    poorer.pop(dice.choice(list(poorer)))
    with pytest.raises(Incomplete) as missing:
        erasure.decoded(shape, made, chosen)
    assert (missing.value.has, missing.value.needed) == (shape.needed - 1, shape.needed)


@given(payloads, st.randoms(use_true_random=False))
@example(b"x" * 7, None)
def test_an_announcement_is_whole_with_the_kth_fragment_and_not_before(payload: bytes, dice) -> None:  # type: ignore[no-untyped-def]
    sent = [each for round_ in Erasure(block=4).rounds(payload, 64, 2) for each in round_]
    if dice:
        dice.shuffle(sent)
    assembler, whole_at = Assembler(), None
    for needed, each in enumerate(sent, 1):
        found = assembler.put(header(each), each.body)
        if found is not None:
            assert (found.payload, whole_at) == (payload, None)
            whole_at = needed
    assert whole_at is not None
    different = len({each.sequence for each in sent[:whole_at]})
    assert different >= len(fragments(payload, 64))


@given(payloads, st.data())
def test_a_fragment_with_wrong_bytes_is_never_part_of_what_is_handed_on(
    payload: bytes, data: st.DataObject
) -> None:
    rounds = Erasure(block=4).rounds(payload + bytes(60), 64, 1)
    sent = [each for round_ in rounds for each in round_]
    assembler = Assembler()
    hurt = data.draw(st.sets(st.integers(0, len(sent) - 1), max_size=5))
    for at, each in enumerate(sent):
        body = bytes(byte ^ 0x55 for byte in each.body) if at in hurt else each.body
        found = assembler.put(header(each), body)
        assert found is None or found.payload == payload + bytes(60)


@given(st.data())
def test_hostile_fragments_are_refused_or_come_to_nothing(data: st.DataObject) -> None:
    shape = st.builds(ERASURE_FORMAT.pack, st.integers(0, 300), st.integers(0, 255), st.integers(0, 255))
    wholes = st.sampled_from([whole(b"a" * 50), whole(b"b" * 5), b"", b"\xff" * 12])
    assembler = Assembler(pending=3, pending_bytes=200)
    for _ in range(data.draw(st.integers(1, 12))):
        options = []
        if data.draw(st.booleans()):
            options.append((WHOLE, data.draw(wholes)))
        if data.draw(st.booleans()):
            options.append((ERASURE, data.draw(shape | st.binary(max_size=5))))
        hostile = Header(
            THREAD,
            data.draw(st.integers(1, 4)),
            data.draw(st.integers(0, 20)),
            data.draw(st.booleans()),
            Code.DATA,
            tuple(options),
        )
        try:
            found = assembler.put(hostile, data.draw(st.binary(max_size=60)))
        except ProtocolError:
            continue
        assert found is None or not hostile.options or whole(found.payload) == hostile.option(WHOLE)
    assert len(assembler._partial) <= 3
    assert assembler._bytes <= 200


@pytest.mark.parametrize("size", [0, 1, 38, 39, 200])
@pytest.mark.parametrize("module", [Repetition(), Erasure(), Erasure(block=2)])
def test_no_packet_is_longer_than_the_mtu_and_whoever_hears_all_has_it_once(
    module: Repetition | Erasure, size: int
) -> None:
    payload = bytes(range(size))
    sent = [each for round_ in module.rounds(payload, 64, 0) for each in round_]
    assert all(len(encode(header(each)) + each.body) <= 64 for each in sent)
    assert [each.payload for each in put_together(Assembler(), sent)] == [payload]


def test_an_announcement_of_one_packet_has_no_options_and_is_repeated_eight_times() -> None:
    rounds = Erasure(0.3, 0.9999).rounds(b"rain", 1400, 0)
    assert rounds == [[Fragment(0, True, (), b"rain")]] * 8


def test_rounds_that_cover_a_join_come_on_top() -> None:
    assert len(Repetition().rounds(b"rain", 1400, 4)) == 12
    assert len(Erasure().rounds(bytes(10_000), 1400, 4)) == len(Erasure().rounds(bytes(10_000), 1400, 0)) + 4


def test_parity_is_sent_in_later_rounds_and_blocks_take_turns() -> None:
    payload = bytes(range(200)) * 10
    first, second, *_ = Erasure(block=10).rounds(payload, 100, 0)
    assert {each.sequence for each in first}.isdisjoint(each.sequence for each in second)
    assert [each.sequence for each in first] == list(range(len(first)))
    _, about = first[0].options[1]
    blocks, needed, _ = ERASURE_FORMAT.unpack(about)
    assert (blocks, blocks * (needed + 1)) == (4, len(first))


def test_a_burst_that_takes_a_whole_block_s_worth_of_packets_is_healed() -> None:
    payload = bytes(range(200)) * 10
    rounds = Erasure(loss=0.3, block=10).rounds(payload, 100, 0)
    sent = [each for round_ in rounds for each in round_]
    assert [each.payload for each in put_together(Assembler(), sent[10:])] == [payload]


def test_erasure_sends_far_less_than_repetition() -> None:
    payload = bytes(30_000)
    repeated = sum(map(len, Repetition().rounds(payload, 1400, 0)))
    coded = sum(map(len, Erasure().rounds(payload, 1400, 0)))
    assert coded < 0.4 * repeated


def test_an_announcement_is_handed_on_once_unless_it_is_asked_for_again() -> None:
    assembler = Assembler()
    (one,) = fragments(b"rain", 1400)
    assert assembler.put(header(one), one.body) is not None
    assert assembler.put(header(one), one.body) is None
    assembler.again(THREAD)
    assert assembler.put(header(one), one.body) is not None


def test_what_never_gets_whole_makes_room_and_is_counted() -> None:
    assembler = Assembler(pending=2)
    cut = fragments(bytes(200), 64)
    for version in (1, 2, 3):
        assembler.put(header(cut[0], version), cut[0].body)
    assert assembler.drops["no room for fragments"] == 1
    for each in cut[1:]:
        assert assembler.put(header(each, 1), each.body) is None


def test_more_than_an_announcement_may_be_is_refused_on_both_sides() -> None:
    with pytest.raises(TooLarge):
        Repetition().rounds(bytes(MOST_BYTES + 1), 1400, 0)
    with pytest.raises(TooLarge):
        Erasure().rounds(bytes(MOST_BYTES + 1), 1400, 0)
    about = ((WHOLE, (MOST_BYTES + 1).to_bytes(4, "big") + bytes(8)),)
    with pytest.raises(ProtocolError, match="length of announcement"):
        Assembler().put(Header(THREAD, 1, 0, False, Code.DATA, about), b"x")


def test_the_largest_announcement_goes_through() -> None:
    payload = bytes(MOST_BYTES)
    first, *_ = Erasure().rounds(payload, 1400, 0)
    assert [each.payload for each in put_together(Assembler(), first)] == [payload]
    assert max(len(encode(header(each)) + each.body) for each in first) <= 1400
    assert HEADER_BYTES == 26


def test_without_the_library_repetition_is_named_as_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "zfec", None)
    with pytest.raises(ConfigError, match="Repetition"):
        Erasure().rounds(bytes(10_000), 1400, 0)
