"""Feedback is one to one: an answer reaches the source of the event that it answers, once, and nobody else.

Checked on every channel. An answer that never arrives is a loss, not a violation.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import of, violations

PROMISE = "feedback"
_ANSWER = ["run", "channel", "source", "source_incarnation", "first"]


def query(rows: DataFrame) -> DataFrame:
    """Each answer handed over was given, for just this event of this node, and is handed over once."""
    given = of(rows, trace.FEEDBACK, trace.PUBLISHED).select(
        *_ANSWER, sf.col("peer").alias("target"), sf.col("value").alias("question")
    )
    handed = of(rows, trace.FEEDBACK, trace.DELIVERED)
    copies = Window.partitionBy(*_ANSWER).orderBy("at", "node", "incarnation", "position")
    again = handed.withColumn("copy", sf.row_number().over(copies)).where(sf.col("copy") > 1)
    made_up = handed.join(given, _ANSWER, "left_anti")
    astray = handed.join(given, _ANSWER).where(
        (sf.col("node") != sf.col("target")) | (sf.col("value") != sf.col("question"))
    )
    there = sf.format_string("handed to %s as an answer to its number %d", "target", "question")
    return (
        violations(again, PROMISE, "first", sf.lit("handed over once"))
        .unionByName(violations(made_up, PROMISE, "first", sf.lit("an answer that was given")))
        .unionByName(violations(astray, PROMISE, "first", there))
    )


AUDIT = Audit(PROMISE, query, always=True)
