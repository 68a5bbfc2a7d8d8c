"""Loop: events for subscribers on the same node."""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, Settings, Template


class Loop(Template[Settings]):
    """One node only: every subscriber here gets every event, nothing touches a network.

    Promises: at most once, in the order of publishing, within one node.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: nothing on the network.
    Needs: nothing.
    """

    name = "loop"
    promises = frozenset({AT_MOST_ONCE})
    local = True

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.deliver(parcel)
