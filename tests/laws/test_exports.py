"""What is public says what it is; what is promised is a word that audits know."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import gossamer
from gossamer import catalog, public
from tests.laws import checks

MODULES = dict(checks.modules())
CORE = [each for each in MODULES if checks.part_of(each) == "core"]
PROMISES = {
    name: value
    for name, value in checks.constants(MODULES["gossamer.core.template"]).items()
    if not name.startswith("_")
}


@pytest.mark.parametrize("module", CORE)
def test_everything_public_in_the_core_has_a_docstring(module: str) -> None:
    assert not checks.undocumented(module, MODULES[module])


def test_every_promise_word_says_what_it_means() -> None:
    assert PROMISES
    assert [name for name, (_, said) in PROMISES.items() if not said] == []


@pytest.mark.parametrize("name", list(catalog.templates()))
def test_a_template_promises_only_words_that_have_a_meaning(name: str) -> None:
    template = catalog.templates()[name]
    assert template.promises <= {word for word, _ in PROMISES.values()}


@pytest.mark.parametrize("name", list(catalog.templates()))
def test_a_template_says_what_it_promises_acknowledges_costs_and_needs(name: str) -> None:
    template = catalog.templates()[name]
    described = template.described()
    assert template.name == name
    assert all(described[word] for word in ("summary", "promises", "acknowledged", "costs", "needs"))
    assert "Acknowledged: " in (template.__doc__ or "")
    assert described["acknowledged"].startswith("Never;") != template.acknowledges


def test_type_checkers_and_programs_see_the_same_public_names() -> None:
    stub = ast.parse((checks.SOURCE / "gossamer" / "__init__.pyi").read_text())
    told = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == public.HOMES | dict.fromkeys(public.SUBMODULES, "gossamer")
    assert sorted(told) == sorted(gossamer.__all__)
    assert all(getattr(gossamer, name) is not None for name in gossamer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nodes'"):
        _ = gossamer.Nodes  # type: ignore[attr-defined]


def test_importing_gossamer_loads_nothing_else() -> None:
    code = "import sys, gossamer; print(sorted(each for each in sys.modules if each.startswith('gossamer')))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(printed) == ["gossamer", "gossamer.public"]
