"""Primary and secondary: who is sent parcels at once, and who is told of them first (seed 004, 5.3.3).

A link is two one-way links, each with a mode. It begins as primary, unless the receiver gets parcels by
another one already; the receiver decides, from how many of the last few that came by it were new.
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
    asked
        When it was last told so.
    congested
        Since when it does not take what is sent fast enough; None if it does.
    told
        The neighbours that it was last told of, by ring.
    compared
        The neighbours that it last spoke of, and those of this peer then, by ring: all that follows is done.
    """

    __slots__ = (
        "_count",
        "_recent",
        "asked",
        "compared",
        "congested",
        "eager",
        "heard",
        "proven",
        "said",
        "told",
        "wanted",
    )

    def __init__(self, heard: int, wanted: bool = True) -> None:
        self.heard = heard
        self.said = self.asked = 0
        self.proven = False
        self.eager, self.wanted = True, wanted
        self.congested: int | None = None
        self.told: dict[int, object] = {}
        self.compared: dict[int, object] = {}
        self._recent = self._count = 0

    def came(self, new: bool, x: int, y: int) -> bool:
        """Something came by the link, new or not; whether that changes the mode that is right.

        Primary is right if at least x of the last y were new. A link that has not carried y yet is judged as
        soon as the others can no longer change it.
        """
        self._recent = (self._recent << 1 | new) & ((1 << y) - 1)
        self._count = min(self._count + 1, y)
        fresh = self._recent.bit_count()
        if fresh < x and self._count - fresh <= y - x:
            return False
        primary = fresh >= x
        changed = primary != self.wanted
        self.wanted = primary
        return changed

    @property
    def supplies(self) -> bool:
        """Whether parcels come by this link at once, and new ones lately."""
        return self.wanted and self._recent > 0
