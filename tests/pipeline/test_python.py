"""Spark's processes import what is installed, not what Spark has in zips."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from gossamer.pipeline import python
from gossamer.pipeline.session import _workers_run

PROGRAM = "import json, sys; print(json.dumps([sys.executable, sys.path, sys.argv]))"


def test_the_zips_are_left_out_and_all_else_stays_in_its_place(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    zips = home / "python" / "lib"
    own = [tmp_path / "a *", tmp_path / "own.zip"]
    places = [zips / "pyspark.zip", own[0], zips / "py4j-1.zip", home / "jars" / "spark-core.jar", own[1]]
    command = [python.wrapped(tmp_path), "-c", PROGRAM, "one two", "*"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    executable, path, arguments = json.loads(said)
    assert executable == sys.executable
    assert path[1:3] == list(map(str, own))
    assert not [place for place in path if place.startswith(str(home))]
    assert arguments[1:] == ["one two", "*"]


@pytest.mark.parametrize(
    ("given", "here", "taken"),
    [
        (None, True, "quick"),
        (None, False, "plain"),
        ("quick", False, "plain"),
        ("plain", True, "quick"),
        ("another", True, "another"),
    ],
)
def test_workers_elsewhere_and_who_chose_a_python_get_no_other(
    given: str | None, here: bool, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", given or "")
    if given is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    _workers_run("plain", "quick", here)
    assert os.environ["PYSPARK_PYTHON"] == taken
