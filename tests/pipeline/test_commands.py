"""The commands: exit codes, what they print for people and for programs, and errors of one line."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import cast

import msgspec
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gossamer.cli.audit import show
from gossamer.cli.main import app, main
from gossamer.cli.screen import screen
from gossamer.core.errors import ConfigError
from gossamer.pipeline.audit.auditing import Outcome
from tests.pipeline.stories import STORIES, Story
from tests.pipeline.test_auditing import written
from tests.pipeline.test_tables import line

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.xdist_group("audits")]


def gossamer(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def shown(told: dict[str, object]) -> str:
    """What people see of an outcome that programs are told."""
    console = screen(file=io.StringIO(), width=200)
    show(msgspec.convert({key: told[key] for key in told if key != "result"}, Outcome), console)
    return cast(io.StringIO, console.file).getvalue()


def kept() -> Story:
    return Story("fine", "gap-free").opened("a", "b").published("a", 1).delivered("b", "a", 1)


def test_audit_exits_with_0_1_or_2_and_says_so_as_json(tmp_path: Path) -> None:
    written(tmp_path, kept())
    code, said = gossamer("audit", tmp_path, "--json")
    told = json.loads(said)
    assert (code, told["result"], told["complete"], told["violations"]) == (0, "passed", True, [])
    assert told["checked"] == {"rows": 4, "events": 1}
    assert shown(json.loads(said.replace("fine", "[/b]"))).count("[/b]") == 4, "brackets are part of a name"
    written(tmp_path, STORIES["gap"])
    code, said = gossamer("audit", tmp_path, "--json")
    told = json.loads(said)
    assert (code, told["result"], told["complete"], told["total"]) == (1, "violated", True, 3)
    first = told["violations"][0]
    assert {"run", "promise", "node", "source", "number", "at", "expected"} <= first.keys()
    said = shown(told)
    for words in ("gap-free broken at b by number 3 of a", "expected: number 2 next", "violated: 17 rows"):
        assert words in said
    (tmp_path / "run=fine" / "world.json").unlink()
    code, said = gossamer("audit", tmp_path, "--run", "fine")
    assert (code, "incomplete: 4 rows" in said) == (2, True)


def test_when_spark_cannot_start_audit_says_why_in_one_sentence_and_that_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, kept())
    monkeypatch.setattr("sys.argv", ["gossamer", "audit", str(tmp_path), "--master", "spark://127.0.0.1:1"])
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: Spark cannot start: nobody answers at spark://127.0.0.1:1")
    assert ended.value.code == 2


def test_a_damaged_segment_is_counted_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    written(tmp_path, STORIES["excused"], segment=4)
    (tmp_path / "run=excused" / "world-000002.parquet").write_bytes(b"no Parquet")
    code, said = gossamer("audit", tmp_path, "--json")
    told = json.loads(said)
    assert (code, told["complete"], told["violations"]) == (2, False, [])
    assert "1 damaged files left out" in shown(told)
    assert [fault["quarantined"] for fault in told["faults"]].count(True) == 1
    assert 0 < told["checked"]["rows"] < len(STORIES["excused"].rows)


def test_report_writes_one_page_with_everything_in_it_that_fetches_nothing(tmp_path: Path) -> None:
    written(tmp_path, line("<lossy>", True).delivered("c", "a", 2, 2))
    code, said = gossamer("report", tmp_path, "--out", tmp_path / "page.html")
    assert code == 0
    assert "1 run, " in said
    assert "left out" not in said
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == page.count("</svg>") == 4
    for word in ("Topology", "Latency", "Load of nodes", "Use of links", "delivery ratio"):
        assert word in page
    assert page.count("delivered once to this subscription") == 1
    assert "&lt;lossy&gt;" in page
    assert "<lossy>" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "<script" not in page


def test_a_report_leaves_out_what_is_damaged_and_says_so_even_if_nothing_is_left(tmp_path: Path) -> None:
    written(tmp_path, kept())
    file = tmp_path / "run=fine" / "world-000001.parquet"
    column = pq.read_metadata(file).row_group(0).column(13)
    damaged = bytearray(file.read_bytes())
    assert column.path_in_schema == "bytes", "no audit reads it"
    damaged[column.data_page_offset + column.total_compressed_size - 2] ^= 255
    file.write_bytes(damaged)
    code, said = gossamer("report", tmp_path, "--out", tmp_path / "page.html")
    assert (code, "0 rows, 1 damaged files left out" in said) == (0, True)
    assert str(file) in (tmp_path / "page.html").read_text()


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no traces"):
        gossamer("audit", tmp_path)
