"""The documents are true: their code runs, their settings load, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer import catalog
from gossamer.core.config import parse
from gossamer.runtime.config import NodeConfig, check_bindings
from gossamer.simulator.scenario.run import Scenario, load
from gossamer.whatif import script

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[object]:
    found = []
    for page in PAGES:
        for number, code in enumerate(
            re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL), 1
        ):
            marks = [pytest.mark.xdist_group("spark")] if "pipeline.session" in code else []
            found.append(pytest.param(code, id=f"{page.name}-{number}", marks=marks))
    return found


@pytest.mark.parametrize("code", blocks("python"))
def test_every_python_block_runs_as_it_stands(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "pipeline.session" in code:  # here, in the session that all tests share
        request.getfixturevalue("spark")
        monkeypatch.setattr("pyspark.sql.SparkSession.stop", lambda session: None)
        monkeypatch.chdir(tmp_path)
        exec(code, {"__name__": "__main__"})
        return
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_toml_block_is_valid(text: str) -> None:
    if "entry-points" in text:
        assert 'project.entry-points."gossamer.t' in text
    elif "[traffic]" in text:
        assert script.read(text).sweep
    elif "duration" in text:
        assert parse(text, Scenario).duration > 0
    else:
        settings = parse(text, NodeConfig)
        assert settings.name
        check_bindings(settings, catalog.transports())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_command_in_the_documents_exists() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "gossamer.cli.main", "--help"], capture_output=True, text=True, timeout=60
    ).stdout
    for page in PAGES:
        for verb in re.findall(r"(?:^|`|\[bold\])gossamer ([a-z]+)", page.read_text(), re.MULTILINE):
            assert f" {verb} " in help_text, f"{page.name}: gossamer {verb}"


def test_the_commands_for_a_damaged_disk_do_what_the_guide_says(tmp_path: Path) -> None:
    program = (
        "import gossamer\n"
        "async def main():\n"
        "    async with gossamer.connect(name='b1', state='state') as node:\n"
        "        log = await node.channel('log', template='persistent', settings={'seats': 1})\n"
        "        for number in range(6):\n"
        "            await log.acknowledged(await log.publish(b'event %d' % number), 20)\n"
        "gossamer.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
    (segment,) = tmp_path.glob("state/logs/log-*/*.log")
    segment.write_bytes(segment.read_bytes().replace(b"event 4", b"Event 4"))
    (block,) = (
        text for text in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "log" in text
    )
    codes = {}
    for line in block.splitlines():
        verb, *words = line.removeprefix("gossamer log ").split()
        command = [sys.executable, "-m", "gossamer.cli.main", "log", verb, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        codes[verb] = done.returncode
    assert codes == {"verify": 1, "salvage": 0, "repair": 0, "dump": 0}
    assert len((tmp_path / "saved.jsonl").read_text().splitlines()) >= 5
    assert len(done.stdout.splitlines()) == 2, "positions 2 and 3, for 4 was damaged"


def test_the_readme_lists_every_template_and_no_other() -> None:
    table = (ROOT / "README.md").read_text()
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(catalog.templates())


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").rglob("*.toml")), ids=lambda path: path.stem)
def test_every_scenario_loads(path: Path) -> None:
    if path.parent.name == "whatif":
        assert script.load(path).sweep
    else:
        assert load(path).channel
