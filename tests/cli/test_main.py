"""The whole program: its help, its version, and the one name of each option."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gossamer
from gossamer.cli.lazy import COMMANDS, Lazy
from gossamer.cli.main import app


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_and_has_help(name: str) -> None:
    assert f"gossamer {name}" in run(name, "--help")
    assert Lazy(name, *COMMANDS[name]).real() is not None


def test_help_loads_no_module_of_a_command() -> None:
    code = (
        "import sys; sys.argv = ['gossamer', '--help']\n"
        "from gossamer.cli.main import main\n"
        "try: main()\n"
        "finally: print('LOADED', *sorted(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    loaded = set(printed.rpartition("LOADED")[2].split())
    assert "gossamer.cli.lazy" in loaded
    assert not loaded & {"numpy", "pyarrow", "cryptography", "websockets", "asyncio", "msgspec", "sqlite3"}


def test_the_version_is_said_by_the_command_and_by_the_module() -> None:
    command = [sys.executable, "-m", "gossamer", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == run("--version") == f"gossamer {gossamer.__version__}\n"


def test_a_command_with_a_typing_error_is_suggested() -> None:
    result = CliRunner().invoke(app, ["pubb"])
    assert result.exit_code == 2
    assert "Did you mean 'pub'?" in result.output


@pytest.mark.parametrize("command", ["pub", "sub", "request", "channels", "up"])
def test_the_address_of_a_node_is_given_by_connect_everywhere(command: str) -> None:
    shown = run(command, "--help")
    assert "--connect" in shown
    assert not re.search(r"--at\b", shown)


@pytest.mark.parametrize("option", ["--connect", "--at"])
def test_the_former_name_of_connect_still_works(option: str) -> None:
    result = CliRunner().invoke(app, ["channels", option, "tpc://nowhere"])
    assert "tpc://nowhere" in str(result.exception)


def test_brackets_in_help_are_shown() -> None:
    assert "[[dispatcher]]" in run("analyse", "dispatch", "--help")
