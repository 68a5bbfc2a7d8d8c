"""Scenarios with some settings changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossamer.core.errors import ConfigError
from gossamer.simulator.scenario.run import Scenario, load
from gossamer.simulator.scenario.variation import varied

FILE = """
duration = 5.0

[network]
kind = "tree"
nodes = 5

[[channel]]
name = "a"
template = "multicast"

[[channel]]
name = "b"
template = "multicast"

[[publish]]
channel = "a"
rate = 1.0

[[publish]]
channel = "b"
rate = 1.0

"""


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return load(path)


def test_nothing_changed_is_the_same_scenario(scenario: Scenario) -> None:
    assert varied(scenario, {}) == scenario
    assert varied(scenario, {"duration": 5.0}) == scenario


def test_every_scenario_that_is_shipped_survives_being_taken_apart() -> None:
    for path in sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml")):
        scenario = load(path)
        assert varied(scenario, {"duration": scenario.duration}) == scenario


def test_a_setting_is_named_by_its_path(scenario: Scenario) -> None:
    changed = varied(scenario, {"link.loss": 0.5, "network.nodes": 7, "duration": 1})
    assert (changed.link.loss, changed.network.nodes, changed.duration) == (0.5, 7, 1.0)
    assert changed.file == scenario.file


def test_a_number_chooses_a_table_and_no_number_means_all(scenario: Scenario) -> None:
    assert [each.rate for each in varied(scenario, {"publish.1.rate": 9.0}).publish] == [1.0, 9.0]
    assert [each.rate for each in varied(scenario, {"publish.rate": 9.0}).publish] == [9.0, 9.0]


def test_settings_of_a_template_may_be_new(scenario: Scenario) -> None:
    changed = varied(scenario, {"channel.0.settings.window": 64})
    assert [each.settings for each in changed.channel] == [{"window": 64}, {}]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("link.loss", 2.0, "2.0 does not fit"),
        ("link.los", 0.1, "unknown field `los`"),
        ("lnk.loss", 0.1, "there is no 'lnk'"),
        ("duration.seconds", 1.0, "nothing is below it"),
        ("publish.2.rate", 1.0, "there are only 2"),
        ("subscribe.join", 1.0, "the scenario has none"),
        ("network", 1, "1 does not fit"),
    ],
)
def test_a_setting_that_cannot_be_is_named(scenario: Scenario, key: str, value: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        varied(scenario, {key: value})
    assert caught.value.key == key
    assert caught.value.file == scenario.file
