"""A package that somebody else wrote adds a template; a broken one is named and disturbs no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.programs import address_of, gossamer, listening

PROJECT = Path(__file__).parents[1] / "third_party" / "gossamer_echo"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in it, as pip puts it there."""
    folder = tmp_path_factory.mktemp("third-party")
    source, target = folder / "source", folder / "installed"
    shutil.copytree(PROJECT, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def broken(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but the package needs something that is not there."""
    target = tmp_path_factory.mktemp("broken") / "installed"
    shutil.copytree(installed, target)
    (target / "gossamer_echo" / "__init__.py").write_text("import something_that_is_not_there\n")
    return target


def test_its_template_is_listed_beside_ours(installed: Path) -> None:
    with gossamer("templates", "--json", PYTHONPATH=str(installed)) as templates:
        listed = {each["name"]: each for each in templates.json()}
        assert (templates.end(), templates.errors()) == (0, "")
    assert {"echo", "loop", "multicast"} <= set(listed)
    assert listed["echo"]["promises"] == "at most once."
    assert listed["echo"]["settings"] == {"window": 256}


def test_its_channels_carry_events_and_answers(installed: Path) -> None:
    path = str(installed)
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json", PYTHONPATH=path) as node:
        at = ("--at", address_of(node))
        with listening(gossamer("sub", "hills", *at, "--template", "echo", PYTHONPATH=path)) as reader:
            for word in ("hello", "anybody?"):
                with gossamer("pub", "hills", word, *at, "--wait", "0", PYTHONPATH=path) as writer:
                    assert writer.end() == 0
                assert reader.line() == word
            with gossamer("channels", *at, "--json", PYTHONPATH=path) as channels:
                assert channels.json() == [{"name": "hills", "template": "echo", "settings": {}}]
                assert channels.end() == 0
            assert reader.stop() == 0
        assert node.stop() == 0


def test_without_the_package_its_channels_are_refused_in_words(installed: Path) -> None:
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json", PYTHONPATH=str(installed)) as node:
        at = ("--at", address_of(node))
        reader = gossamer("sub", "hills", *at, "--template", "echo", PYTHONPATH=str(installed))
        with listening(reader), gossamer("pub", "hills", "x", *at) as writer:
            assert writer.end() == 1
            assert writer.errors().startswith("error: there is no template 'echo'; known: ")


def test_a_broken_package_is_named_and_the_other_templates_are_listed(broken: Path) -> None:
    with gossamer("templates", "--json", PYTHONPATH=str(broken)) as templates:
        listed = [each["name"] for each in templates.json()]
        assert templates.end() == 0
        errors = templates.errors()
    assert {"loop", "multicast"} <= set(listed)
    assert "echo" not in listed
    assert len(errors.splitlines()) == 1
    assert "gossamer.templates.echo" in errors
    assert "No module named 'something_that_is_not_there'" in errors


def test_a_broken_package_disturbs_no_other_template(broken: Path) -> None:
    path = str(broken)
    with gossamer("up", "--listen", "tcp://127.0.0.1:0", "--json", PYTHONPATH=path) as node:
        at = ("--at", address_of(node))
        with gossamer("pub", "hills", "x", *at, "--template", "echo", PYTHONPATH=path) as writer:
            assert writer.end() == 2
            errors = writer.errors()
            assert len(errors.splitlines()) == 1
            assert "gossamer_echo:Echo cannot be imported" in errors
        with listening(gossamer("sub", "news", *at, "--count", "1", PYTHONPATH=path)) as reader:
            with gossamer("pub", "news", "fine", *at, PYTHONPATH=path) as writer:
                assert writer.end() == 0
            assert reader.line() == "fine"
            assert reader.end() == 0
        assert node.stop() == 0
