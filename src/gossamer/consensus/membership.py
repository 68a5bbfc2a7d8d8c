"""Who should have a seat in a Raft group, one change at a time. A pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gossamer.consensus.messages import Voter, Voters


def next_voters(
    here: Voter,
    seats: Voters,
    best: Sequence[str],
    live: Collection[str],
    lives: Mapping[str, int],
    wanted: int,
) -> Voters:
    """The seats after the next change: whoever is gone loses its seat, who certainly is before who seems to
    be; an empty one goes to the best that has answered, and the rendezvous node gets one in any case.

    here
        The seat that leads; it stays.
    best
        Nodes in the order in which they should have seats, the rendezvous node first.
    lives
        Lives of nodes that have answered.
    """
    others = [seat for seat in seats if seat != here]
    gone = [seat for seat in others if lives.get(*seat) > seat[1]]
    gone += [seat for seat in others if seat[0] not in live]
    if gone:
        return tuple(each for each in seats if each != gone[0])
    lacking = [name for name in best if name in lives and name not in dict(seats)]
    if lacking and (len(seats) < wanted or lacking[0] == best[0]):
        return (*seats, (lacking[0], lives[lacking[0]]))
    if len(seats) > wanted:
        worst = max(others, key=lambda seat: _rank(best, seat[0]))
        return tuple(each for each in seats if each != worst)
    return seats


def _rank(best: Sequence[str], name: str) -> int:
    return best.index(name) if name in best else len(best)
