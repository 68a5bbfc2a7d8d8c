"""All audits, by the promise that they check."""

from __future__ import annotations

from gossamer.pipeline.audit import (
    accounting,
    at_most_once,
    causal,
    deadline,
    durable,
    exactly_once,
    feedback,
    gap_free,
    progress,
    total_order,
)

AUDITS = {
    module.AUDIT.promise: module.AUDIT
    for module in (
        at_most_once,
        exactly_once,
        gap_free,
        causal,
        total_order,
        durable,
        progress,
        deadline,
        feedback,
        accounting,
    )
}

LOCAL = [name for name, each in AUDITS.items() if each.local]
"""Promises that need no rows of other nodes."""
