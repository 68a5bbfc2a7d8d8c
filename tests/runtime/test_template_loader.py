"""Loading a checked package: a namespace of its own, once, whole or not at all."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

import pytest

from gossamer.core.errors import BadPackage
from gossamer.core.template import Template
from gossamer.runtime.template_loader import NAMESPACE, Templates, load, rehearse
from gossamer.security.keys import PrivateKey
from gossamer.security.package import Package, pack, read_package
from tests.security.sources import echo, echo_files, forget

KEY = PrivateKey.new()
TEMPLATE = '''
from gossamer.template import Settings, Template

class {kind}(Template[Settings]):
    """One.

    Promises: one.
    Costs: one.
    Needs: one.
    """

    name = "{name}"
'''


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


def one(kind: str = "One", name: str = "one") -> str:
    return TEMPLATE.format(kind=kind, name=name)


def package(source: str, templates: tuple[str, ...] = ("one",), **more: str) -> Package:
    files = {"__init__.py": source.encode()} | {f"{name}.py": text.encode() for name, text in more.items()}
    return read_package("p", pack("p", "1", templates, files, KEY))


def leftovers() -> list[str]:
    modules = [each for each in sys.modules if each.startswith(NAMESPACE)]
    return modules + [repr(each) for each in sys.meta_path if "loading" in type(each).__module__]


def test_a_package_gives_the_templates_that_it_names() -> None:
    found = load(read_package("echo", echo(KEY)))
    assert set(found) == {"echo"}
    assert issubclass(found["echo"], Template)
    assert found["echo"].parse({"window": 3}).window == 3  # type: ignore[attr-defined]


def test_the_same_package_twice_is_imported_once() -> None:
    first, second = (load(read_package("echo", echo(KEY))) for _ in range(2))
    assert first["echo"] is second["echo"]
    other = load(read_package("echo", echo(KEY, "1.1")))
    assert other["echo"] is not first["echo"]


def test_modules_of_a_package_find_each_other_and_shadow_nothing() -> None:
    import json

    words = "import json\nfrom . import wire as ours\nfrom gossamer.core import wire\nKIND = json.__name__"
    source = "from .words import KIND, ours, wire\n" + one()
    found = load(package(source, words=words, json="raise SystemExit", wire="MINE = 1"))
    module = sys.modules[found["one"].__module__]
    assert (module.KIND, module.ours.MINE) == ("json", 1)
    assert module.wire is sys.modules["gossamer.core.wire"]
    assert sys.modules["json"] is json
    assert all(each.startswith(NAMESPACE) for each in leftovers() if ".words" in each)
    assert not module.__name__.isidentifier()


def test_a_module_may_be_imported_late() -> None:
    source = (
        one() + "\n    @staticmethod\n    def late():\n        from .words import KIND\n        return KIND\n"
    )
    found = load(package(source, words="KIND = 7"))
    assert found["one"].late() == 7  # type: ignore[attr-defined]


def test_tracebacks_show_the_source() -> None:
    source = one() + "\n    @staticmethod\n    def fail():\n        raise ValueError('planted')\n"
    kind = load(package(source))["one"]
    with pytest.raises(ValueError) as raised:
        kind.fail()  # type: ignore[attr-defined]
    shown = "".join(traceback.format_exception(raised.value))
    assert f"{NAMESPACE}p-1/__init__.py" in shown
    assert "raise ValueError('planted')" in shown


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('planted')", "ValueError: planted"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("x = '\\x00'", "no template called 'one'"),
        ("import something_that_is_not_there", "with a dot in front"),
        ("from .absent import x", "with a dot in front"),
        (one(name="two"), "no template called 'one'"),
        ("from gossamer.templates.loop import Loop as One\n", "no template called 'one'"),
        (one().replace("Promises: one.", ""), "the docstring of One does not say its promises"),
        (one() + '\n    settings_type = "none"', "settings_type of One"),
        (one() + one("Two"), "two of its classes are called 'one'"),
    ],
)
def test_what_cannot_be_used_says_why_and_leaves_nothing_behind(source: str, words: str) -> None:
    with pytest.raises(BadPackage) as refused:
        load(package("from . import fine\n" + source, fine="X = 1"))
    assert words in str(refused.value)
    assert leftovers() == []


def test_bytes_that_are_no_source_are_refused() -> None:
    data = pack("p", "1", ["one"], {"__init__.py": b"\xff\xfe\x00"}, KEY)
    with pytest.raises(BadPackage, match="cannot be imported"):
        load(read_package("p", data))
    assert leftovers() == []


def test_a_class_for_another_role_shares_the_name_without_being_another_template() -> None:
    source = one() + "\n\nclass Edge(One):\n    pass\n\n\nAgain = One\n"
    assert load(package(source))["one"].__name__ == "One"


def test_a_rehearsal_says_what_a_package_would_give_and_leaves_nothing() -> None:
    assert rehearse("echo", echo_files())["echo"]["promises"] == "at most once."
    with pytest.raises(BadPackage, match="no template"):
        rehearse("p", {"__init__.py": b"x = 1"})
    with pytest.raises(BadPackage, match=r"no __init__\.py"):
        rehearse("p", {})
    assert leftovers() == []


def test_templates_that_are_here_are_not_replaced() -> None:
    found = load(package(one() + one("Two", "two"), ("one", "two")))
    templates = Templates({"one": Template})
    assert templates.add(found) == ["two"]
    assert templates.add(found) == []
    assert (list(templates), len(templates)) == (["one", "two"], 2)
    assert templates["one"] is Template
    assert templates["two"] is found["two"]
    assert "three" not in templates
    assert templates.get("three") is None
