"""``gossamer whatif`` on Spark: the same rows as without it, and a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.core.errors import ConfigError
from tests.whatif.conftest import TEXT


def gossamer(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.usefixtures("spark")
def test_workers_of_spark_bring_the_rows_that_one_process_brings(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(TEXT)
    code, said = gossamer("whatif", path, "--out", tmp_path / "out", "--json")
    assert code == 0
    told = json.loads(said)
    assert told["verdicts"][0]["design"] == {"propagation": "advertisement"}
    table = pq.read_table(tmp_path / "out" / "sweep.parquet").to_pylist()
    assert list(map(without_nulls, table)) == list(map(without_nulls, rows))
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")

    code, said = gossamer("whatif", path, "--out", tmp_path / "out")
    assert code == 0, "begun again, nothing is left to do"
    assert "agreed with the lean model in 6 of 6 runs" in said
    assert "advertisement" in said


def test_a_bad_setting_fails_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(TEXT)
    with pytest.raises(ConfigError, match=r"traffic\.reactive.*nobody answers"):
        gossamer("whatif", path, "--out", tmp_path / "out", "--set", "traffic.reactive=0")
    assert not (tmp_path / "out").exists()
