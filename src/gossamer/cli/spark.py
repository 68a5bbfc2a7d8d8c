"""Spark for commands that need it: started when they do, stopped when they end, also by Ctrl-C."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.core.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str | None, typer.Option(help="Spark master (local[2], spark://…, yarn, k8s://…) or sc://… for Connect.")
]

SMALL = 2_000_000
"""Rows up to which starting fast is worth more than running fast."""


@contextmanager
def spark_for(master: str | None, rows: int) -> Iterator[SparkSession]:
    """A session for so many rows; who started it stops it."""
    with pipeline():
        from pyspark.sql import SparkSession

        from gossamer.pipeline.session import hush, session
    for handler in logging.getLogger().handlers:
        handler.addFilter(_not_py4j)
    running = SparkSession.getActiveSession()
    spark = session(master, quick=rows <= SMALL)
    if running is not None:
        yield spark
        return
    if current_thread() is main_thread():
        # Spark's own handler asks Java to cancel, in the middle of what Java says to this thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield spark
    except KeyboardInterrupt:
        leaving = Thread(target=hush, args=(spark,))  # another thread has a line of its own to Java
        leaving.start()
        leaving.join()
        raise
    finally:
        spark.stop()


def _not_py4j(record: logging.LogRecord) -> bool:
    """It tells of every error that it raises."""
    return "py4j" not in record.pathname


@contextmanager
def pipeline() -> Iterator[None]:
    """Around imports of what only the extra installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SparkUnavailable(f"{error.name} is not installed", "pip install 'gossamer[pipeline]'") from None
