"""What is public says what it is; what is promised is a word that audits know."""

from __future__ import annotations

import pytest

from gossamer import catalog
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
