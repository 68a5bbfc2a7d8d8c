"""Settings of a multiring channel."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.template import Settings
from gossamer.templates.multiring.messages import MAX_Q


class MultiringSettings(Settings, frozen=True):
    """Settings of a multiring channel.

    q
        How many times fewer peers each inner ring has than the one around it. Paths are about q · log_q(n)
        hops at most; a peer of r rings has 2 · r links.
    fresh, of_last
        A link is primary if at least ``fresh`` of the ``of_last`` parcels that came by it last were new.
    grace
        Seconds that an announced parcel may still come by a primary link before it is requested, at least;
        peers learn to wait longer where parcels lag behind word of them, up to twice ``retry``.
    retry
        Seconds until what was not answered is said again.
    beat
        Seconds between signs of life to neighbours that nothing else was said to.
    silence
        Seconds without a sign of life after which a neighbour counts as crashed; two and a half beats
        are the least.
    survey
        Seconds between looks around: bandwidths, distances, whether to join or leave inner rings, balance.
        0 never looks: one ring.
    sounding
        Seconds that a newcomer waits for answers to its pings; the nearest peers are those that answered
        first.
    probe
        Seconds between looks for peers that were lost, or that found each other elsewhere.
    recall
        Seconds of the past that a new link is told of.
    window
        Parcels per source that are remembered to recognise a second copy.
    store, store_bytes
        Parcels that are kept for whoever asks for them, and their bytes. Publishing waits where they would be
        forgotten within four times ``grace``.
    """

    q: Annotated[int, Meta(ge=2, le=MAX_Q)] = 4
    fresh: Annotated[int, Meta(ge=1, le=60)] = 4
    of_last: Annotated[int, Meta(ge=1, le=60)] = 6
    grace: Annotated[float, Meta(ge=0, le=60)] = 0.15
    retry: Annotated[float, Meta(gt=0, le=60)] = 0.5
    beat: Annotated[float, Meta(gt=0, le=3600)] = 0.4
    silence: Annotated[float, Meta(gt=0, le=36000)] = 1.1
    survey: Annotated[float, Meta(ge=0, le=3600)] = 5.0
    sounding: Annotated[float, Meta(gt=0, le=60)] = 0.4
    probe: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    recall: Annotated[float, Meta(ge=0, le=600)] = 5.0
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096
    store: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096
    store_bytes: Annotated[int, Meta(ge=1, le=2**30)] = 128 * 1024 * 1024
