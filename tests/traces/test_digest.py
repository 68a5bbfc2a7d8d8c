"""One hash for a trace: it depends on the rows and their order, and on nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.trace import Row
from gossamer.traces.digest import TraceHash


def row(position: int, detail: str = "") -> Row:
    return (position, 5, "a", 1, "parcel", "sent", "news", "a", 1, 1, 1, 1, "b", 90, detail, 0)


def hash_of(rows: list[Row]) -> str:
    taken = TraceHash()
    for each in rows:
        taken(each)
    return taken.hexdigest()


def test_equal_rows_have_an_equal_hash_whatever_their_number() -> None:
    for size in (0, 1, 4095, 4096, 4097, 9000):
        rows = [row(n) for n in range(size)]
        assert hash_of(rows) == hash_of(list(rows))


@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8))
def test_other_rows_or_another_order_have_another_hash(one: list[int], two: list[int]) -> None:
    same = hash_of([row(n) for n in one]) == hash_of([row(n) for n in two])
    assert same is (one == two)


def test_every_column_counts() -> None:
    plain = row(1)
    hashes = {hash_of([plain])}
    for index, value in enumerate(plain):
        changed = [*plain]
        changed[index] = value + 1 if isinstance(value, int) else f"{value}!"
        hashes.add(hash_of([tuple(changed)]))  # type: ignore[list-item]
    assert len(hashes) == len(plain) + 1


def test_columns_do_not_run_into_each_other() -> None:
    one, two = list(row(1)), list(row(1))
    one[6:8], two[6:8] = ["ab", "c"], ["a", "bc"]
    assert hash_of([tuple(one)]) != hash_of([tuple(two)])  # type: ignore[list-item]


def test_looking_at_the_hash_changes_nothing() -> None:
    watched, left_alone = TraceHash(), TraceHash()
    for n in range(5000):
        watched(row(n))
        left_alone(row(n))
        if n % 1000 == 7:
            assert watched.hexdigest() == watched.hexdigest()
    assert watched.hexdigest() == left_alone.hexdigest()
