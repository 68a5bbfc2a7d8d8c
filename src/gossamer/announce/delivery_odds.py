"""How likely an announcement arrives, and how much must be sent for it: closed forms, nothing is drawn.

Packets are lost independently of each other, each with probability ``loss``.
"""

from __future__ import annotations

from math import comb

from gossamer.core.errors import ConfigError

MOST_SENT = 4096


def arrives(needed: int, sent: int, loss: float) -> float:
    """The probability that at least ``needed`` of ``sent`` different packets arrive."""
    return 1.0 - misses(needed, sent, loss)


def misses(needed: int, sent: int, loss: float) -> float:
    """The probability that fewer than ``needed`` of them arrive: P(Binomial(sent, 1 − loss) < needed)."""
    kept = 1.0 - loss
    return sum(comb(sent, i) * kept**i * loss ** (sent - i) for i in range(min(needed, sent + 1)))


def enough(needed: int, loss: float, target: float) -> int:
    """The fewest different packets of which ``needed`` arrive with probability ``target``."""
    if not 0 <= loss < 1:
        raise ConfigError(f"{loss:g}: a probability, at least 0 and below 1", key="loss")
    if not 0 < target < 1:
        raise ConfigError(f"{target:g}: a probability between 0 and 1", key="target")
    for sent in range(needed, MOST_SENT + 1):
        if misses(needed, sent, loss) <= 1.0 - target:
            return sent
    reason = f"{target:g} at a loss of {loss:g} needs more than {MOST_SENT} packets: ask for less"
    raise ConfigError(reason, key="target")


def managed_misses(index_rounds: int, data_rounds: int, join_rounds: int, loss: float) -> float:
    """The probability that a listener who follows an index misses a one-packet announcement.

    Index and data are sent once in each round, beginning together; who first hears the index in round i hears
    the data from round i + ``join_rounds`` on.
    """
    unheard = loss**index_rounds
    for first in range(index_rounds):
        left = max(0, data_rounds - first - join_rounds)
        unheard += loss**first * (1 - loss) * loss**left
    return unheard
