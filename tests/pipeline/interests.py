"""Interest with communities planted in it."""

from __future__ import annotations

import numpy as np
import pandas as pd


def planted(
    listeners: int, threads: int, communities: int, wants: int, noise: float, seed: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame]:
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
    interest = pd.DataFrame(
        {
            "listener": np.repeat(np.arange(listeners), wants),
            "thread": np.char.add("t", drawn.ravel().astype(str)),
        }
    ).drop_duplicates()
    return interest, pd.DataFrame({"listener": np.arange(listeners), "community": community})
