"""What an event costs a dispatcher with many subscriptions: the forwarding index against trying each.

Subscriptions of four shapes, a quarter each: an equal text and a range; a name with parameters and stars; a
beginning and a bound; two ranges. Texts and ranges are drawn so that few subscriptions meet an event, however
many there are: what is measured is finding them. Run it with ``python benchmarks/matching.py [MOST]``; it
takes some minutes and 3 GB for a million.
"""

from __future__ import annotations

import random
import sys
import time

from gossamer.core.event import Attributes, Criteria, Value
from gossamer.filters.index import Index
from gossamer.filters.language import event, named

EVENTS = 2000
TRIED = 2_000_000
"""Filters tried one by one for the figure of comparison, at most."""


def subscription(dice: random.Random, number: int) -> Criteria:
    match number % 4:
        case 0:
            low = dice.uniform(0, 99)
            return Criteria(
                ("symbol", "=", word(dice)), ("price", ">=", low), ("price", "<", low + dice.uniform(0, 10))
            )
        case 1:
            return named(f"*({word(dice)}, *, {dice.choice(('Win', 'Mac', 'Lin'))}*)")
        case 2:
            return Criteria(("symbol", "prefix", word(dice)[:5]), ("size", ">", dice.randrange(1000)))
        case _:
            low, small = dice.uniform(0, 100), dice.uniform(0, 1000)
            return Criteria(
                ("price", ">", low),
                ("price", "<", low + 0.02),
                ("size", ">", small),
                ("size", "<", small + 1),
            )


def happening(dice: random.Random, number: int) -> Attributes:
    if number % 2:
        return event(f"Released({word(dice)}, 1.{number}, {dice.choice(('WinNT', 'MacOS', 'Linux'))})")
    known: dict[str, Value] = {"symbol": word(dice)}
    return known | {"price": dice.uniform(0, 100), "size": dice.uniform(0, 1000)}


def word(dice: random.Random) -> str:
    """One of 30 000."""
    return f"{dice.randrange(30_000):06x}"[::-1]


def measure(count: int) -> float:
    """Print one line and return the microseconds per event."""
    dice = random.Random(count)
    filters = [subscription(dice, number) for number in range(count)]
    events = [happening(dice, number) for number in range(EVENTS)]
    index: Index[int] = Index()
    begun = time.process_time()
    for number, criteria in enumerate(filters):
        index.add(criteria, number)
    built = time.process_time()
    index.matching(events[0])  # ranges are sorted when they are first asked for
    sorted_by = time.process_time()
    found = sum(len(index.matching(each)) for each in events)
    ended = time.process_time()
    few = events[: max(2, TRIED // count)]
    tried = time.process_time()
    for each in few:
        expected = {number for number, criteria in enumerate(filters) if criteria.matches(each)}
        assert index.matching(each) == expected
    trying = (time.process_time() - tried) / len(few)
    per_event = (ended - sorted_by) / EVENTS
    print(
        f"{count:>9,} subscriptions: {per_event * 1e6:8.1f} µs per event, {found / EVENTS:6.2f} met; "
        f"trying each {trying * 1e6:11.1f} µs; {(sorted_by - begun) / count * 1e6:5.1f} µs to add one",
        flush=True,
    )
    removing = time.process_time()
    for number in range(0, count, max(1, count // 1000)):
        index.remove(filters[number], number)
    assert built <= sorted_by <= removing
    return per_event * 1e6


if __name__ == "__main__":
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for size in (1000, 10_000, 100_000, 1_000_000):
        if size <= most:
            measure(size)
