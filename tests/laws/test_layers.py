"""Imports point downward only, and protocol logic does no I/O."""

from __future__ import annotations

import pytest

from tests.laws import checks

MODULES = dict(checks.modules())


def test_there_is_something_to_check() -> None:
    parts = {checks.part_of(name) for name in MODULES}
    assert {"core", "overlay", "templates", "traces", "catalog", "testing"} <= parts
    assert sum(1 for _ in checks.imports("gossamer.core.wire", MODULES["gossamer.core.wire"])) > 5


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downward(module: str) -> None:
    assert not checks.upward_imports(module, MODULES[module])


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_the_siblings_that_are_named(module: str) -> None:
    assert not checks.between_rooms(module, MODULES[module])


@pytest.mark.parametrize("module", MODULES)
def test_templates_are_found_and_never_named(module: str) -> None:
    assert not checks.templates_named(module, MODULES[module])


@pytest.mark.parametrize("module", [each for each in MODULES if checks.part_of(each) in checks.NO_IO])
def test_protocol_logic_does_no_input_or_output(module: str) -> None:
    assert not checks.input_output(module, MODULES[module])


@pytest.mark.parametrize("module", MODULES)
def test_nothing_that_must_repeat_depends_on_the_hash_seed(module: str) -> None:
    assert not checks.unstable_hashes(module, MODULES[module])


def test_runtime_and_simulator_are_strangers() -> None:
    assert "simulator" not in checks.MAY_IMPORT["runtime"]
    assert "runtime" not in checks.MAY_IMPORT["simulator"]
