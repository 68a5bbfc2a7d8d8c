"""Names say something, modules can be read, and an ``__init__`` does nothing."""

from __future__ import annotations

import pytest

from tests.laws import checks

MODULES = dict(checks.modules())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named_after_its_subject(module: str) -> None:
    assert not checks.bad_names(module)
    assert not checks.manager_classes(module, MODULES[module])


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_read_in_ten_minutes(module: str) -> None:
    assert not checks.too_long(module, MODULES[module])


@pytest.mark.parametrize("module", [each for each in MODULES if each.endswith("__init__")])
def test_a_package_file_has_no_logic(module: str) -> None:
    assert not checks.logic_in_init(module, MODULES[module])
