"""The catalog: what is installed is found by entry points, imported late and checked."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from gossamer import catalog
from gossamer.core.errors import ConfigError
from gossamer.core.template import Template


def with_points(monkeypatch: pytest.MonkeyPatch, **points: str) -> Any:
    """A catalog of templates with these entry points."""

    def found(*, group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr(catalog, "entry_points", found)
    return catalog.templates()


def test_installed_templates_are_found_by_name() -> None:
    templates = catalog.templates()
    assert {"loop", "multicast"} <= set(templates)
    assert all(templates[name].name == name for name in templates)
    assert all(issubclass(templates[name], Template) for name in templates)


def test_installed_transports_are_found_by_scheme() -> None:
    transports = catalog.transports()
    assert {"local", "tcp"} <= set(transports)
    assert [transports[name].scheme for name in ("local", "tcp")] == ["local", "tcp"]


def test_names_come_in_order_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = with_points(monkeypatch, zebra="x:Y", ant="x:Y")
    assert list(templates) == ["ant", "zebra"]
    assert len(templates) == 2


def test_a_name_that_is_not_installed_is_missing_as_in_any_mapping() -> None:
    templates = catalog.templates()
    assert "nothing" not in templates
    assert templates.get("nothing") is None
    with pytest.raises(KeyError):
        templates["nothing"]


def test_nothing_is_imported_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = with_points(monkeypatch, broken="no.such.module:Thing", loop="gossamer.templates.loop:Loop")
    assert "broken" in templates
    assert list(templates) == ["broken", "loop"]
    assert templates["loop"] is templates["loop"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no.such.module:Thing", "cannot be imported.*ModuleNotFoundError"),
        ("gossamer.templates.loop:Lop", "cannot be imported.*AttributeError"),
        ("gossamer.core.wire:Framer", "is not a Template"),
        ("gossamer.core.wire:encode", "is not a Template"),
    ],
)
def test_a_plug_in_that_does_not_work_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    templates = with_points(monkeypatch, broken=value)
    with pytest.raises(ConfigError, match=words) as caught:
        templates["broken"]
    assert caught.value.key == "gossamer.templates.broken"
    assert value in str(caught.value)
