"""A template from outside, made of nothing but what gossamer offers to everybody."""

from typing import Annotated

from msgspec import Meta

from gossamer.template import AT_MOST_ONCE, Context, Parcel, Seen, Settings, Template


class EchoSettings(Settings, frozen=True):
    """window: parcels per source that are remembered to recognise a second copy."""

    window: Annotated[int, Meta(ge=1, le=10_000)] = 256


class Echo(Template[EchoSettings]):
    """Everybody gets everything: each node passes a parcel on to all its neighbours, wanted or not.

    Promises: at most once.
    Costs: one copy per edge of the tree, whoever listens.
    Needs: a tree.
    """

    name = "echo"
    settings_type = EchoSettings
    promises = frozenset({AT_MOST_ONCE})

    def __init__(self, settings: EchoSettings) -> None:
        super().__init__(settings)
        self.seen = Seen(settings.window)

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send(ctx.neighbours, parcel)
        ctx.deliver(parcel)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self.seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
            return
        ctx.send((each for each in ctx.neighbours if each != sender), parcel)
        ctx.deliver(parcel, sender)
