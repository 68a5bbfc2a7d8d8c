"""``gossamer demo`` ends with the proof: an audit of the traces that it just made, and a page about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from gossamer.cli import demo
from gossamer.cli.main import app
from gossamer.core.config import parse

pytestmark = pytest.mark.xdist_group("audits")


@pytest.mark.usefixtures("cluster", "spark")  # the cluster, for those who come next, starts meanwhile
def test_the_demo_audits_its_own_traces_and_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shorter(*given: Any) -> Any:
        return msgspec.structs.replace(parse(*given), duration=4.0)

    monkeypatch.setattr(demo, "parse", shorter)
    done = CliRunner().invoke(app, ["demo", "--events", "1000", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["ok"], told["audit"], told["live"]["lost"]) == (True, "passed", 0)
    assert told["runs"][0] == told["runs"][1] != told["runs"][2]
    page = Path(told["report"]).read_text()
    for run in demo.RUNS:
        assert f"<h2>Run {run}</h2>" in page
    assert page.count("<svg") == 4 * len(demo.RUNS)
