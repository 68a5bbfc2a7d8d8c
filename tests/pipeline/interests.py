"""Interest with communities planted in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def planted(
    listeners: int, threads: int, communities: int, wants: int, noise: float, seed: int = 1
) -> tuple[pa.Table, pa.Table]:
    """Who wants what, and who belongs where.

    Every community has its share of the threads; a listener draws so many, each with probability ``noise``
    from all of them instead of those of its community.
    """
    dice = np.random.default_rng(seed)
    community = dice.integers(communities, size=listeners)
    share = threads // communities
    own = community[:, None] * share + dice.integers(share, size=(listeners, wants))
    anywhere = dice.integers(threads, size=(listeners, wants))
    drawn = np.where(dice.random((listeners, wants)) < noise, anywhere, own)
    everybody = np.arange(listeners)
    thread = np.char.add("t", drawn.ravel().astype(str))
    interest = pa.table({"listener": np.repeat(everybody, wants), "thread": thread})
    distinct = interest.group_by(interest.column_names, use_threads=False).aggregate([])
    return distinct, pa.table({"listener": everybody, "community": community})
