"""``gossamer analyse``, as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.core.errors import ConfigError

TREE = """
[[dispatcher]]
name = "D"
above = "B"
rate = 5.0

[[dispatcher]]
name = "A"

[[dispatcher]]
name = "B"
above = "A"
spread = 0.0

[[dispatcher]]
name = "C"
above = "A"
"""


def run(line: str) -> str:
    done = CliRunner().invoke(app, ["analyse", *line.split()])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def rows(line: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(f"{line} --json"))
    return found


@pytest.mark.parametrize("spread", ["0", "0.5", "1"])
def test_the_example_of_the_seed(spread: str) -> None:
    found = rows(f"dispatch --arity 4 --levels 3 --rate 1.0 --window 390 --spread {spread}")
    assert [row["level"] for row in found] == [0] + [1] * 4 + [2] * 16
    assert found[0]["subscription"] == 8190
    assert found[0]["advertisement"] == pytest.approx({"0": 390, "0.5": 2469.796875, "1": 8190}[spread])


def test_a_tree_from_a_file_has_its_own_names_and_rates(tmp_path: Path) -> None:
    (tmp_path / "tree.toml").write_text(TREE)
    found = rows(f"dispatch --tree {tmp_path / 'tree.toml'} --window 10 --spread 0.5")
    assert [(row["name"], row["level"]) for row in found] == [("A", 0), ("B", 1), ("C", 1), ("D", 2)]
    assert found[0]["subscription"] == pytest.approx(10 * (1 + 1 + 1 + 5))
    assert found[1]["subscription"] > 60


@pytest.mark.parametrize(
    ("change", "key", "line"),
    [
        (('above = "B"', 'above = "E"'), "dispatcher.above", 4),
        (('name = "C"', 'name = "B"'), "dispatcher.name", 11),
        (('above = "B"', ""), "dispatcher.above", 7),
        (('name = "A"', 'name = "A"\nabove = "D"'), "", 0),
        (("rate = 5.0", 'rate = "x"'), "dispatcher.rate", 5),
        (("rate = 5.0", "speed = 5.0"), "dispatcher.speed", 5),
    ],
)
def test_a_file_that_is_no_tree_is_refused_where_it_is_wrong(
    tmp_path: Path, change: tuple[str, str], key: str, line: int
) -> None:
    (tmp_path / "tree.toml").write_text(TREE.replace(*change, 1))
    with pytest.raises(ConfigError) as caught:
        run(f"dispatch --tree {tmp_path / 'tree.toml'}")
    assert (caught.value.key, caught.value.line) == (key, line)


def test_a_circle_beside_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree.toml").write_text(TREE + '[[dispatcher]]\nname = "X"\nabove = "X"\n')
    with pytest.raises(ConfigError, match="circle"):
        run(f"dispatch --tree {tmp_path / 'tree.toml'}")


def test_listeners_are_a_number_or_probabilities() -> None:
    one, three = rows("dispatch --listeners 1"), rows("dispatch --listeners 3")
    mixed = rows("dispatch --listeners 0.5,0,0.5")
    assert one[0]["advertisement"] < mixed[0]["advertisement"] < three[0]["advertisement"]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("dispatch --spread 2", "spread"),
        ("dispatch --arity 0", "arity"),
        ("dispatch --levels 0", "levels"),
        ("dispatch --levels 30", "levels"),
        ("dispatch --listeners many", "listeners"),
        ("dispatch --tree no-such-file", ""),
        ("paths --nodes 1", "nodes"),
        ("reach --failed 1.5", "failed"),
        ("reach --rings 20 --trials 1000", "trials"),
    ],
)
def test_bad_input_is_refused_by_name(line: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(line)
    assert caught.value.key == key


def test_paths_and_reach_for_programs() -> None:
    assert [row["topology"] for row in rows("paths --nodes 64")] == ["ring", "tree", "multi-ring"]
    (row,) = rows("reach --failed 0.3 --trials 200 --seed 5")
    assert 0.8 < row["reached"] < 0.95
    assert rows("reach --seed 5") == rows("reach --seed 5")


@pytest.mark.parametrize("line", ["dispatch", "paths", "reach --trials 10"])
def test_people_get_tables(line: str) -> None:
    assert "┃" in run(line)
