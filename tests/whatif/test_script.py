"""What-if files: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gossamer.core.errors import ConfigError
from gossamer.whatif.model import simulate
from gossamer.whatif.script import Question, load, read

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios" / "whatif").glob("*.toml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_loads_and_runs_for_a_second(path: Path) -> None:
    question = load(path)
    assert question.name == path.stem
    assert question.sweep
    short = simulate(msgspec.structs.replace(question, window=1.0), 1)
    assert sum(short.loads) > 0


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("window = 0.0", "window", "> 0"),
        ("[traffic]\nspread = 1.5", "traffic.spread", "<= 1"),
        ("[traffic]\nlisteners = [0.5, 0.6]", "traffic.listeners", "must sum to 1"),
        ("[traffic]\nlisteners = 0", "traffic.listeners", "from 1 to 1000"),
        ("[traffic]\nproactive = 3", "traffic.reactive", "nobody answers"),
        ("[traffic]\nsources = 0", "traffic.sources", "nobody publishes"),
        (
            "[traffic]\nsources = 10000\nsinks = 10000\n[topology]\ndispatchers = 100",
            "traffic",
            "at most 1000000",
        ),
        ("[topology]\ndispatchers = 0", "topology.dispatchers", ">= 1"),
        ('[topology]\nkind = "star"', "topology.kind", "star"),
        ('[topology]\nkind = "ringtree"\nring = 50', "topology.ring", "50 entry points of 21"),
        ('engine = "template"\n[topology]\nkind = "ring"', "engine", "no template makes a ring yet"),
        ("[interest]\ndispatchers = 5", "interest.dispatchers", "5 sites, but the topology has 21"),
        ('[sweep]\n"traffic.spread" = []', "sweep.traffic.spread", "no values"),
        ('[sweep]\n"traffic.spreat" = [0.5]', "traffic.spreat", "unknown field"),
        ('[sweep]\n"traffic.spread" = [0.5, 2.0]', "traffic.spread", "2.0 does not fit"),
        ("[sweep]\nruns = [1, 2]", "sweep.runs", "nothing to vary"),
        ("[limits]\nlink = 60", "limits.link", "<= 1"),
        ("colour = 3", "colour", "unknown field"),
    ],
)
def test_what_is_wrong_is_named(text: str, key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.key == key
    assert said in caught.value.reason


def test_too_many_combinations_are_refused() -> None:
    values = ", ".join(f"{n / 1000}" for n in range(400))
    with pytest.raises(ConfigError, match="160000 combinations: at most 100000"):
        read(f'[sweep]\n"traffic.spread" = [{values}]\n"traffic.similarity" = [{values}]')


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_an_empty_file_asks_about_the_example() -> None:
    assert read("") == Question()
