"""Spark's processes import what is installed, not what Spark has in zips."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pyspark
import pytest

from gossamer.pipeline import python
from gossamer.pipeline.session import _workers_run

PROGRAM = "import json, sys; print(json.dumps([sys.executable, sys.path, sys.argv]))"


def ran(program: Path, *arguments: str, places: list[Path]) -> tuple[str, list[str], list[str]]:
    """Who runs, where it looks for modules, and what it was given."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [program, "-c", PROGRAM, *arguments]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    executable, path, given = json.loads(said)
    return executable, path, given


def test_the_zips_are_left_out_and_all_else_stays_in_its_place(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    zips = home / "python" / "lib"
    own = [tmp_path / "a *", tmp_path / "own.zip"]
    places = [zips / "pyspark.zip", own[0], zips / "py4j-1.zip", home / "jars" / "spark-core.jar", own[1]]
    executable, path, arguments = ran(python.wrapped(tmp_path), "one two", "*", places=places)
    assert executable == sys.executable
    assert path[1:3] == list(map(str, own))
    assert not [place for place in path if place.startswith(str(home))]
    assert arguments[1:] == ["one two", "*"]


def test_they_are_left_out_also_by_the_name_that_spark_has_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    linked = ModuleSpec("pyspark", None, origin=str(link / "__init__.py"))
    monkeypatch.setattr(python, "find_spec", lambda name: linked)
    places = [home / "python" / "lib" / "pyspark.zip" for home in (real, link)]
    _, path, _ = ran(python.wrapped(tmp_path), places=places)
    assert not {*map(str, places)} & {*path}


@pytest.mark.parametrize("forbidden", ["", "1"])
def test_what_is_compiled_goes_to_the_cache_where_it_may_not_be_beside_its_source(
    tmp_path: Path, forbidden: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "other.py").touch()
    program = python.wrapped(tmp_path / "cache")
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": forbidden}
    subprocess.run([program, "-c", "import other"], env={**environ, "PYTHONPATH": str(source)}, check=True)
    beside, cached = (list(place.rglob("other.*.pyc")) for place in (source, tmp_path / "cache"))
    assert (len(beside), len(cached)) == ((0, 1) if forbidden else (1, 0))


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
