"""Who should have a seat in a council, one change at a time. A pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gossamer.overlay.councilwords import Seat, Seats


def reseat(
    here: Seat,
    seats: Seats,
    best: Sequence[str],
    live: Collection[str],
    lives: Mapping[str, int],
    wanted: int,
) -> Seats | str:
    """The seats after the next change, or the name of a node whose life has to be found out first.

    here
        The seat that leads; it stays.
    best
        The nodes that should have seats, the rendezvous node first.
    lives
        Lives of nodes that have been heard of.
    """
    names = dict(seats)
    for seat in seats:
        if seat != here and (seat[0] not in live or lives.get(*seat) != seat[1]):
            return tuple(each for each in seats if each != seat)
    lacking = [name for name in best if name not in names]
    if lacking and (len(seats) < wanted or best[0] in lacking):
        name = lacking[0]
        return (*seats, (name, lives[name])) if name in lives else name
    if len(seats) > wanted:
        worst = next((s for s in reversed(seats) if s[0] not in best and s != here), seats[-1])
        return tuple(each for each in seats if each != worst) if worst != here else seats
    return seats
