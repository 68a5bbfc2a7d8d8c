"""Primary and secondary: who is sent parcels at once, and who is told of them first (seed 004, 5.3.3).

A link is two one-way links, each with a mode. It begins as primary; the receiver decides, from how many of
the last few parcels that came by it were new.
"""

from __future__ import annotations


class PeerLink:
    """What a peer holds about one that it has a link to.

    heard, said
        When it was last heard from, and when something was last sent to it.
    proven
        Whether it has spoken since it became a neighbour.
    eager
        Whether parcels are sent to it at once: the mode of the link from here.
    wanted
        Whether it was asked to send at once: the mode of the link to here, as this peer has set it.
    congested
        Whether it does not take what is sent fast enough.
    told
        The neighbours that it was last told of, by ring.
    compared
        The neighbours that it last spoke of, and those of this peer then, by ring: all that follows is done.
    """

    __slots__ = (
        "_count",
        "_recent",
        "compared",
        "congested",
        "eager",
        "heard",
        "proven",
        "said",
        "told",
        "wanted",
    )

    def __init__(self, heard: int) -> None:
        self.heard = heard
        self.said = 0
        self.proven = False
        self.eager = self.wanted = True
        self.congested = False
        self.told: dict[int, object] = {}
        self.compared: dict[int, object] = {}
        self._recent = self._count = 0

    def came(self, new: bool, x: int, y: int, unasked: bool = False) -> bool:
        """Something came by the link, new or not; whether the other side has to be told its mode.

        Primary is right if at least x of the last y were new. ``unasked`` is a parcel that a secondary link
        would have announced first: if that goes on, the word that it is one was lost.
        """
        self._recent = (self._recent << 1 | new) & ((1 << y) - 1)
        self._count += 1
        if self._count < y:
            return False
        primary = self._recent.bit_count() >= x
        if primary == self.wanted:
            return unasked and not primary and self._count % y == 0
        self.wanted = primary
        return True
