"""The trace and what audits say about it, as Arrow and Spark schemas. Made from the one in core."""

from __future__ import annotations

import pyarrow as pa

from gossamer.core.trace import COLUMNS

ARROW = pa.schema([(name, pa.string() if kind == "text" else pa.int64()) for name, kind in COLUMNS])
"""Rows of a segment."""

ROWS = (
    ", ".join(f"{name} {'string' if kind == 'text' else 'bigint'}" for name, kind in COLUMNS) + ", run string"
)
"""Rows of many runs, as Spark reads them."""

TEXTS = tuple(name for name, kind in COLUMNS if kind == "text")

VIOLATION = pa.schema(
    [
        ("run", pa.string()),
        ("promise", pa.string()),
        ("channel", pa.string()),
        ("node", pa.string()),
        ("incarnation", pa.int64()),
        ("subscription", pa.string()),  # empty where no subscription is meant
        ("source", pa.string()),
        ("source_incarnation", pa.int64()),
        ("number", pa.int64()),  # of the event, or of the parcel where a promise is about parcels
        ("at", pa.int64()),
        ("expected", pa.string()),
    ]
)
"""A promise that was broken: which, where, by what, when, and what should have been."""

Found = tuple[str, str, int, str, str, int, int, int, str]
"""The same without run and promise."""

VIOLATIONS = ", ".join(
    f"{field.name} {'string' if field.type == pa.string() else 'bigint'}" for field in VIOLATION
)
