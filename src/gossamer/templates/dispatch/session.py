"""A box: what is kept of one subscription at its dispatcher, whether anybody is there to take it or not.

Parcels get places from 1 on and stay until they are done. What was kept elsewhere before comes first;
meanwhile new ones wait. Pure state: ``keeping`` says when anything is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gossamer.core.event import Criteria
from gossamer.core.operations import NOTHING, Position
from gossamer.core.parcel import Parcel
from gossamer.templates.dispatch.session_messages import MAX_MARKS, Claim, Marks

Key = tuple[str, int]
"""Node and incarnation of a source."""
WINDOW = 64
"""Parcels that are on their way to another node and not acknowledged."""


class Taker:
    """Who gets what is in a box: a subscription of this node (no ``hop``), a client, or the next dispatcher.

    node, serial
        The node that asked, and which of its requests it was; here, the number of the subscription.
    hop
        The neighbour on the way there.
    sent, got
        The places up to which parcels were sent, and have arrived.
    flying
        The places of those that were sent and have not arrived.
    count
        Parcels that have been sent.
    known
        Whether it was kept for this subscriber before.
    """

    __slots__ = ("count", "flying", "got", "hop", "known", "node", "sent", "serial")

    def __init__(self, node: str, serial: int, hop: str, after: int = 0, known: bool = False) -> None:
        self.known = known or after > 0
        self.node = node
        self.serial = serial
        self.hop = hop
        self.sent = self.got = after
        self.flying: deque[int] = deque()
        self.count = 0

    @property
    def ready(self) -> bool:
        """Whether it may be sent more."""
        return len(self.flying) < WINDOW

    def fly(self) -> None:
        """The parcel at the place that was reached is on its way."""
        self.count += 1
        if self.hop:
            self.flying.append(self.sent)

    def land(self, upto: int) -> None:
        """Everything up to a place has arrived; nothing beyond what was sent can have."""
        self.got = max(self.got, min(upto, self.sent))
        while self.flying and self.flying[0] <= upto:
            self.flying.popleft()

    def again(self) -> None:
        """What has not arrived is gone, and is to be sent again."""
        self.sent = self.got
        self.flying.clear()


class Heir(Taker):
    """Who takes a box over, with what is in it now; what comes later finds its way there without it.

    since
        When somebody came there to take it.
    upto, marks
        The place before which everything is handed over, and the last parcels of sources at that time.
    """

    __slots__ = ("marks", "since", "upto")

    def __init__(self, claim: Claim, hop: str, box: Box) -> None:
        super().__init__(claim.node, claim.serial, hop, box.first - 1)
        self.since = claim.since
        self.upto = box.next
        self.marks = box.listed


class Box:
    """What is kept under a name."""

    def __init__(self, name: str, criteria: Criteria, now: int) -> None:
        self.name = name
        self.criteria = criteria
        self.parcels: dict[int, Parcel] = {}
        self.next = 1
        self.done = NOTHING
        self.marks: dict[Key, int] = {}
        """Per source the last parcel that came. Those of one source come in order: none up to it is new."""
        self.lost = 0
        """Parcels that were given up before the subscriber had them, at least: there were too many, the
        dispatcher was down when they came, or nothing was left of what was kept."""
        self.owner: Taker | None = None
        self.hop: str | None = None
        """The neighbour on the way to the last owner; empty if it was here, None if no owner is known."""
        self.heir: Heir | None = None
        self.since = now
        """When the owner left."""
        self.claim = 0
        """The number under which it is looked for elsewhere, another each time; 0 when all of it is here."""
        self.tries = 0
        """How often it was looked for in vain."""
        self.claimed = now
        """When the owner came."""
        self.sought = now
        """When the owner came for whom it was last claimed."""
        self.asked = now
        """When it was last looked for, or something of it came."""
        self.said = now
        """When it was last said that it is wanted."""
        self.origin = self.begun = 0
        """The place behind which it began without what was kept before, and when; 0 if nothing is missing."""
        self.anew = 0
        """When the subscriber came for whom it began with nothing, if no gap was told; 0 if something was."""
        self.copy_of: Box | None = None
        """The box that takes over what is found of an older copy."""
        self.copied = False
        """Whether an older copy was found before all of it was here."""
        self.late: list[Parcel] = []
        """What came before all of it was here."""

    def add(self, parcel: Parcel) -> bool:
        """Keep a parcel; False if it was kept before, or has to wait."""
        if self.claim:
            self.late.append(parcel)
            return False
        key, sequence = parcel.stamp.key, parcel.stamp.sequence
        if sequence <= self.marks.get(key, 0):
            return False
        self._mark(key, sequence)
        self.parcels[self.next] = parcel
        self.next += 1
        return True

    def _mark(self, key: Key, sequence: int) -> None:
        self.marks.pop(key, None)
        self.marks[key] = sequence
        if len(self.marks) > MAX_MARKS:
            del self.marks[next(iter(self.marks))]

    def fill(self, following: int, done: Position, lost: int, marks: Marks) -> None:
        """All that was kept elsewhere is here; what came meanwhile and was not among it follows."""
        self.claim = self.tries = 0
        self.next, self.lost = max(self.next, following), self.lost + lost
        known = [each for each in (self.done, done) if each[0] < self.next]
        self.done = NOTHING
        self.finish(max(known, default=NOTHING))
        for node, incarnation, sequence in marks:
            self._mark((node, incarnation), sequence)
        late, self.late = self.late, []
        for parcel in late:
            self.add(parcel)

    def follow(self, after: int) -> None:
        """Number what is here behind a place that the subscriber has from a box that is no more."""
        by = after + 1 - self.first
        if self.next <= after:
            self.parcels = {place + by: parcel for place, parcel in self.parcels.items()}
            self.done = (self.done[0] + by, self.done[1]) if self.done[0] >= 0 else self.done
            self.next, self.origin = self.next + by, max(self.origin, after)
            self.lost += 1

    def merge(self, copy: Box) -> list[Parcel]:
        """Take over what an older copy has and this one never had; what comes too late to be in order.

        What was sent before this box began may be what its subscriber's later events depend on.
        """
        fresh = self.next == self.origin + 1  # nothing has come here yet
        late = []
        for place in sorted(each for each in copy.parcels if each > self.origin):
            parcel = copy.parcels[place]
            if fresh or parcel.header.sent >= self.begun:
                self.add(parcel)  # unless it has come here too
            else:
                late.append(parcel)
        self.lost += len(late)
        return late

    def shrink(self, limit: int) -> Iterator[Parcel]:
        """Give up the oldest parcels, as far as there are more than so many."""
        while self.claim and len(self.late) > limit:  # what is on its way here is counted when it is complete
            yield self.late.pop(0)
            self.lost += 1
        while not self.claim and len(self.parcels) > limit:
            place = next(iter(self.parcels))
            self.lost += self.owner is None or self.owner.sent < place
            yield self.parcels.pop(place)

    def finish(self, done: Position) -> bool:
        """Everything up to a position is done; whether that is news for what is here."""
        if done < self.done:
            return False
        self.done = done
        if self.claim:
            return False  # when all of it is here
        for place in [each for each in self.parcels if each <= done[0]]:
            if place < done[0] or done[1] >= self.parcels[place].stamp.count - 1:
                del self.parcels[place]
        return True

    def behind(self, place: int, end: int) -> int:
        """The first place behind one, and before an end, that has a parcel; 0 if there is none."""
        if place + 1 in self.parcels or place + 1 >= end:
            return place + 1 if place + 1 < end else 0
        return min((each for each in self.parcels if place < each < end), default=0)

    @property
    def first(self) -> int:
        """The first place that is not done."""
        return max(1, self.done[0])

    @property
    def listed(self) -> Marks:
        return tuple((*key, sequence) for key, sequence in self.marks.items())
