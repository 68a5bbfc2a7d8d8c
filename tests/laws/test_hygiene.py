"""Nothing in the project knows the machine it was written on."""

from __future__ import annotations

import subprocess

from tests.laws import checks


def texts() -> dict[str, str]:
    """Every tracked text file."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checks.ROOT,
        capture_output=True,
        check=False,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    if listed.returncode or not names:  # unpacked without its history
        names = [
            str(path.relative_to(checks.ROOT))
            for folder in ("src", "tests", "docs", "benchmarks", "scenarios", "apps")
            for path in (checks.ROOT / folder).rglob("*.*")
            if "__pycache__" not in path.parts
        ]
    found = {}
    for name in names:
        path = checks.ROOT / name
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" not in data:
            found[name] = data.decode(errors="replace")
    return found


def test_no_file_names_a_path_of_some_machine_or_a_package_registry() -> None:
    files = texts()
    assert "pyproject.toml" in files or "src/gossamer/catalog.py" in files
    broken = [each for name, text in sorted(files.items()) for each in checks.machine_paths(name, text)]
    assert broken == []


def test_every_file_ends_with_a_line_end() -> None:
    assert [name for name, text in texts().items() if text and not text.endswith("\n")] == []


def test_commands_take_no_brackets_in_names_for_styles() -> None:
    commands = {
        name: text
        for name, text in texts().items()
        if name.startswith("src/gossamer/cli/") and name.endswith(".py") and not name.endswith("/screen.py")
    }
    assert commands
    assert [each for name, text in commands.items() for each in checks.styled(name, text)] == []
