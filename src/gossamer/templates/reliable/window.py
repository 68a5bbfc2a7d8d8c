"""One source's parcels at one node: a fixed window, what is missing from it, and who has what behind us.

Pure state without messages: the ``reliable`` template says when anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gossamer.core.names import VIRTUAL
from gossamer.core.parcel import Parcel

UNLIMITED = 2**63 - 1
TAIL, TAIL_BYTES = 64, 256 * 1024
"""Parcels of a source that every member has, and their bytes, which are kept for members that move here."""
LIMIT = 2**20
"""Numbers that a window may span, unless its template says less."""
MAX_KEPT = 64
"""Old parcels of a source that are kept because somebody asked for them."""


class Stream:
    """The window of one source.

    entry, node
        Where its address begins, on the backbone, and ends.
    next
        The sequence number that is delivered next; 0 while the beginning is not known.
    base
        The oldest number that the source still keeps, as far as is known here: whoever has nothing yet
        begins there. It is never greater than what a member lacks that the source knows of.
    begun
        Whether anything has been delivered here.
    torn
        Whether there is a gap between what was delivered here and what comes next, if anything does.
    high
        The greatest number known to exist.
    held, bytes
        Parcels kept for delivery here or repair further on, and what they weigh.
    behind
        Per neighbour away from the source: the number up to which all behind it have everything; None if
        that neighbour has not said so since the tree changed.
    """

    __slots__ = (
        "_asked",
        "_lags",
        "_tail_bytes",
        "_told",
        "acked",
        "address",
        "base",
        "begun",
        "behind",
        "bytes",
        "confirmed",
        "dead",
        "entry",
        "expelled",
        "floor",
        "fresh",
        "held",
        "high",
        "kept",
        "life",
        "limit",
        "low",
        "moved",
        "moves",
        "next",
        "node",
        "over",
        "path",
        "placed",
        "reached",
        "settled",
        "tail",
        "torn",
        "unsaid",
        "untold",
        "vouched",
        "wanted",
    )

    def __init__(self, address: str, first: int = 0, life: int = 0) -> None:
        self._locate(address)
        self.moves = 0
        """How often the source has changed its server, as far as is known here."""
        self.life = life
        self.limit = LIMIT
        """How far beyond what is next a number may be."""
        self.next = first
        self.high = max(0, first - 1)
        self.low = self.base = first
        self.begun = self.torn = False
        self.held: dict[int, Parcel] = {}
        self.bytes = 0
        self.unsaid = 0
        """Bytes that have come since something was last said towards the source."""
        self.behind: dict[str, int | None] = {}
        self.moved: dict[str, int] = {}
        """When each neighbour last moved forward, or came, or said that it itself has everything."""
        self.reached: dict[str, int] = {}
        """What each neighbour itself has, whoever lags behind it."""
        self.untold: set[str] = set()
        """New neighbours that hear where the stream begins once the source has said what it keeps."""
        self.expelled: set[str] = set()
        """Neighbours that nobody waits for any more."""
        self.acked: tuple[int, str] = (-1, "")
        """What was last said towards the source, and to whom."""
        self.confirmed = 0
        """The number up to which the source's parcels are known to be acknowledged."""
        self.vouched = (-1, -1)
        """What this node last told a source below it: what it has itself, and what is confirmed."""
        self.floor = 0
        """The oldest number that the neighbour towards the source can still get; 0 if it has not said so."""
        self.tail: dict[int, Parcel] = {}
        """The last parcels that were released here, without a gap."""
        self._tail_bytes = 0
        self.wanted: dict[int, set[str]] = {}
        """Numbers that neighbours asked for and that are no longer, or not yet, here."""
        self.settled = UNLIMITED
        """Nothing beyond is released, nor acknowledged for all."""
        self.fresh = True
        """Whether anything has happened since somebody last looked."""
        self.over = 0
        """1 if the source has gone, and another stands in for it; 2 if nobody has what is not here."""
        self.dead = False
        """Whether the source lives anew, so that nothing more will come."""
        self.kept: dict[int, Parcel] = {}
        """Parcels from before ``next`` that others asked for, the latest of them."""
        self.placed: tuple[str | None, list[str]] = ("", [])
        """Whom it came from and who was near when those behind us were last looked up."""
        self._asked: dict[int, int] = {}
        self._told: dict[str, int] = {}
        self._lags: dict[str, int] = {}
        """Since when each neighbour has lacked something that is here."""

    # where it comes from

    def _locate(self, address: str) -> None:
        self.address = address
        names = address.split("/")
        self.entry, self.node = names[0], names[-1]
        self.path = [name for name in names if name[:1] != VIRTUAL]  # an order has no node of its own

    def move(self, address: str, moves: int) -> None:
        """The source has another server: what neighbours said on the old path no longer counts."""
        self._locate(address)
        self.moves = moves
        self.over = 1 if self.dead else 0
        self.fresh = True
        self.acked, self.vouched, self.placed = (-1, ""), (-1, -1), ("", [])
        self.unsure()

    # what arrives

    def fits(self, number: int) -> bool:
        """Whether a number is near enough to what is known here to belong to the window."""
        if self.next:
            return number < self.next + self.limit
        return not self.held or abs(number - next(iter(self.held))) < self.limit

    def begin(self, base: int, floor: int | None = None, resumes: bool = False) -> None:
        """The source keeps nothing before this number, which may leave a gap in what was delivered.

        A node that has nothing of the source begins there, or with what has come just before. A node that
        goes on from before, or ``resumes`` without having had anything of this source, can get what it lacks
        from ``floor`` on. What neighbours asked for before that cannot be had: they ask again, and hear so.
        """
        floor = base if floor is None else min(base, floor)
        self.floor = floor
        self.base = max(self.base, base)
        for number in [each for each in self.wanted if each < floor]:
            del self.wanted[number]
        if self.next and self.reach >= floor - 1:
            return
        base = floor if resumes and not self.next else base
        base = self.beginning(base)
        self.torn = self.begun and base > 1
        self.next = self.low = base
        self.settled = max(self.settled, base - 1)
        self.held = {each: parcel for each, parcel in self.held.items() if base <= each < base + self.limit}
        self.high = max(self.held, default=base - 1)
        self._weigh()

    def beginning(self, base: int) -> int:
        """Where the stream begins if its source keeps nothing before this number: what has come just before
        it belongs to a stream of which nothing was delivered yet.
        """
        while not self.next and base - 1 in self.held:
            base -= 1
        return base

    def add(self, parcel: Parcel, asked: bool = False) -> bool:
        """Take a parcel; False if it is a copy and nobody asked for it.

        An old one that was asked for is kept a while: what is passed on may be lost, and over many lossy hops
        of which none keeps it, it would hardly ever arrive.
        """
        self.fresh = True
        number = parcel.stamp.sequence
        if number > self.high:
            self.over = 0
        self._asked.pop(number, None)
        if number in self.held:
            return False
        if self.next and number < self.next:
            if asked:
                self.kept[number] = parcel
                if len(self.kept) > MAX_KEPT:
                    del self.kept[next(iter(self.kept))]
            return asked
        self.held[number] = parcel
        self.bytes += parcel.size
        self.unsaid += parcel.size
        self.high = max(self.high, number)
        return True

    def _weigh(self) -> None:
        self.bytes = sum(parcel.size for parcel in self.held.values())

    def find(self, number: int) -> Parcel | None:
        """A parcel that a neighbour lacks, if it is here."""
        return self.held.get(number) or self.tail.get(number) or self.kept.get(number)

    @property
    def oldest(self) -> int:
        """The oldest number that a neighbour which goes on from before can get, here or further on."""
        here = next(iter(self.tail)) if self.low - 1 in self.tail else self.low
        return min(here, self.base, self.floor or self.base)

    def _retire(self, parcel: Parcel) -> None:
        """Keep a parcel that every member has, for members that move here; the oldest go."""
        number = parcel.stamp.sequence
        if number - 1 not in self.tail:
            self.tail.clear()
            self._tail_bytes = 0
        self.tail[number] = parcel
        self._tail_bytes += parcel.size
        while len(self.tail) > TAIL or (self._tail_bytes > TAIL_BYTES and len(self.tail) > 1):
            self._tail_bytes -= self.tail.pop(next(iter(self.tail))).size

    def ready(self, may: Callable[[Parcel], bool] = lambda parcel: True) -> Iterator[Parcel]:
        """Parcels that are next in order and may be delivered, each once."""
        while self.next and self.next in self.held and may(self.held[self.next]):
            self.next += 1
            self.begun = True
            yield self.held[self.next - 1]

    @property
    def waits(self) -> bool:
        """Whether the next parcel is here, and may not be delivered yet."""
        return self.next in self.held

    def gap(self) -> bool:
        """Whether there is a gap to tell; once, and if the source is dead only before what follows."""
        gap = self.torn and (self.waits or not self.dead)
        self.torn &= not gap
        return gap

    @property
    def reach(self) -> int:
        """The number up to which everything has come, delivered or not."""
        number = max(0, self.next - 1)
        while number + 1 in self.held and self.next:
            number += 1
        return number

    def missing(self, now: int, patience: int, limit: int) -> list[int]:
        """Numbers to ask for: holes and what others asked for, each again only after a while."""
        if not self.next or (self.next > self.high and not self.wanted):
            return []
        held, asked, recent = self.held, self._asked, now - patience
        last = min(self.high, self.next + self.limit)
        numbers = [number for number in range(self.next, last + 1) if number not in held]
        if self.wanted:
            numbers += [each for each in sorted(self.wanted) if each < self.next and not self.find(each)]
        due = [number for number in numbers if asked.get(number, recent) <= recent][:limit]
        asked.update(dict.fromkeys(due, now))
        return due

    def expect(self, number: int, window: int) -> None:
        """Somebody asks for a number: it exists, if it is not too far from what is known to exist."""
        if number <= self.high + window and number < self.next + self.limit:
            self.high = max(self.high, number)

    def skip(self, number: int) -> list[Parcel]:
        """What comes before a number will never be delivered; what of it was here."""
        past = [self.held.pop(each) for each in sorted(self.held) if self.next <= each < number]
        self._weigh()
        self.next, self.high = number, max(self.high, number - 1)
        return past

    def miss(self, number: int) -> None:
        """A number has not come for too long. If the source lives anew, nobody has the others either."""
        self.skip(number + 1)
        self.over = 2 if self.dead else self.over

    def lost(self, number: int) -> bool:
        """Whether a number is not here and never will be: nobody has it, and its source lives anew."""
        return self.dead and self.over == 2 and number not in self.held

    def stop(self) -> list[Parcel]:
        """Nobody has what is missing: the stream ends where it is complete; what lies beyond."""
        self.high, self.over = self.reach, 2
        beyond = [self.held.pop(number) for number in sorted(self.held) if number > self.high]
        self._weigh()
        return beyond

    @property
    def idle(self) -> bool:
        """Whether everything has come and gone, here and behind us."""
        return self.next > self.high and not (self.held or self.wanted or self.expelled)

    # what is known of those behind

    def neighbours(self, names: Iterable[str], now: int) -> list[str]:
        """These are behind us now; those that are new."""
        names = tuple(names)
        self.expelled.intersection_update(names)
        here = [name for name in names if name not in self.expelled]
        new = [name for name in here if name not in self.behind]
        if new or len(here) != len(self.behind):
            self.behind = {name: self.behind.get(name) for name in here}
            self.moved = {name: self.moved.get(name, now) for name in here}
            self.reached = {name: self.reached.get(name, 0) for name in here}
            self._told = {name: self._told.get(name, now) for name in here}
        return new

    def unsure(self, name: str | None = None) -> None:
        """The tree has changed, or one neighbour may have forgotten everything: what was said of those
        behind no longer counts.
        """
        self.behind.update(dict.fromkeys(each for each in self.behind if name in (None, each)))

    def hear(self, name: str, number: int, own: int, now: int) -> bool:
        """All behind a neighbour have everything up to a number, and it itself up to another; whether that is
        more than before.
        """
        more = False
        if name in self.behind:
            before = self.behind[name]
            if before is None or number > before:
                more = number > (before or 0)
                self.behind[name] = number
                self.moved[name] = now
            if number >= self.high:
                self._lags.pop(name, None)
            more |= self.hear_own(name, own, now)
        return more

    def hear_own(self, name: str, own: int, now: int) -> bool:
        """A neighbour itself has everything up to a number; whether that is more than before."""
        before = self.reached.get(name, 0)
        if name not in self.behind or (own < self.high and own <= before):
            return False
        self.reached[name] = own
        self.moved[name] = now
        return own > before

    @property
    def complete(self) -> int | None:
        """The number up to which we and all behind us have everything; None if somebody has not said."""
        return self._all(self.next - 1)

    @property
    def arrived(self) -> int | None:
        """The same, also counting what has come here and waits to be delivered."""
        return self._all(self.reach)

    def _all(self, lowest: int) -> int | None:
        if not self.next:
            return None
        if self.settled < lowest:
            lowest = self.settled
        for number in self.behind.values():
            if number is None:
                return None
            if number < lowest:
                lowest = number
        return lowest

    @property
    def due(self) -> bool:
        """Whether there is something to release."""
        if self.low >= self.next:
            return False
        complete = self.complete
        return complete is not None and complete >= self.low

    def release(self) -> Parcel | None:
        """Forget parcels that we and all behind us have; the last of them."""
        complete, gone = self.complete, None
        if complete is not None and complete >= self.low:
            for number in self._held_between(self.low, complete):
                if number not in self.wanted:
                    gone = self.held.pop(number)
                    self.bytes -= gone.size
                    self._retire(gone)
            self.low = complete + 1
        return gone

    def _held_between(self, first: int, upto: int) -> list[int]:
        """Numbers that are held, in their order: as much work as there are parcels, whatever the numbers."""
        if upto - first < len(self.held):
            return [number for number in range(first, upto + 1) if number in self.held]
        return sorted(number for number in self.held if first <= number <= upto)

    @property
    def waiting(self) -> bool:
        """Whether somebody behind us lacks something, as far as we know."""
        return any(number is None or number < self.high for number in self.behind.values())

    def quiet(self, begins: bool) -> bool:
        """Whether there is nothing to do: all have everything, and have said so unless it begins here."""
        high = self.high
        return (
            0 < high < self.low
            and high < self.next
            and (begins or self.acked[0] == high)
            and not self.wanted
            and not self.expelled
            and not self.waiting
        )

    def overdue(self, now: int, reminder: int, patience: int) -> tuple[list[str], list[str]]:
        """Whom to remind, and whom to wait for no longer.

        Reminded are neighbours that lack something and have neither moved nor been reminded for a while, and
        those that were expelled, until they answer. Who has had something to catch up on and has not moved
        for too long is a laggard; not who lacks what is not here either.
        """
        high, lags, moved, told = self.high, self._lags, self.moved, self._told
        lacking = {name: number for name, number in self.behind.items() if number is None or number < high}
        self._lags = lags = {
            name: lags.get(name, now)
            for name, number in lacking.items()
            if number is None or self.find(number + 1) is not None
        }
        if not lacking and not self.expelled:
            return [], []
        recent, long = now - reminder, now - patience
        silent = [
            name
            for name in (*lacking, *sorted(self.expelled))
            if moved.get(name, 0) <= recent and told.get(name, 0) <= recent
        ]
        told.update(dict.fromkeys(silent, now))
        return silent, [name for name, since in lags.items() if since < long and moved[name] < long]

    def expel(self, name: str) -> None:
        """Wait no longer for a neighbour; should it come back, it comes as a new one."""
        self.expelled.add(name)
        for known in (self.behind, self.moved, self.reached, self._told, self._lags):
            known.pop(name, None)

    def readmit(self, name: str) -> None:
        """Wait for a neighbour again that has caught up."""
        if name in self.expelled:
            self.expelled.remove(name)
            self.placed = ("", [])


def ranges(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Sorted numbers as (first, how many)."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][0] + found[-1][1] == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return tuple(found)
