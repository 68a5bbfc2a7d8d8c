"""``gossamer log``: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gossamer import Envelope, connect
from gossamer.cli.main import app
from gossamer.runtime.state import State
from gossamer.storage.log import Log

SOON = 20.0
KEY = "5a" * 32


def command(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, ["log", *map(str, words)], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def output(*words: str | Path, code: int = 0) -> Any:
    done = command(*words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


async def publish(folder: Path, key: str = "") -> None:
    async with connect(name="b1", state=folder, storage_key=key) as node:
        channel = await node.channel("log", template="persistent", settings={"seats": 1})
        for number in range(4):
            receipt = await channel.publish(b"event %d" % number, Envelope({"number": number}))
            channel.flush()
        await channel.acknowledged(receipt, SOON)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "b1"
    asyncio.run(publish(folder))
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "b1")
    return tmp_path / "b1"


def log_of(folder: Path) -> Path:
    return next(folder.glob("logs/log-*"))


def damage(folder: Path, position: int) -> None:
    """Change a byte of one record."""
    (path,) = log_of(folder).glob("*.log")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"event %d" % position, b"evenT %d" % position))


def test_a_whole_folder_is_called_whole_and_nothing_in_it_changes(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = command("verify", folder)
    assert done.exit_code == 0
    assert "4 (0 to 3)" in done.stdout
    assert f"whole: {folder}" in done.stdout
    found = output("verify", folder)
    assert (found["whole"], found["damage"]) == (True, [])
    (log,) = found["logs"]
    assert (log["records"], log["segments"], log["synced"], log["damage"]) == (4, 1, 4, [])
    assert output("verify", log_of(folder))["logs"] == [log], "a single log is verified as well"
    assert output("repair", folder)["repaired"] is False
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_database_is_copied_beside_itself_where_temporary_files_find_no_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, before = shutil.copyfile, sorted(folder.rglob("*"))

    def copyfile(source: Path, target: Path) -> None:
        if not target.is_relative_to(folder):
            raise OSError(errno.ENOSPC, "No space left on device")
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    assert output("verify", folder)["damage"] == []
    assert sorted(folder.rglob("*")) == before
    monkeypatch.setattr(shutil, "copyfile", lambda source, target: copyfile(source, Path("/")))
    failed = command("verify", folder)
    assert failed.exit_code != 0
    assert "No space left on device" in failed.output
    assert sorted(folder.rglob("*")) == before


def test_the_first_damage_is_named_with_its_file_and_position(folder: Path) -> None:
    damage(folder, 2)
    done = command("verify", folder)
    assert done.exit_code == 1
    assert "position 2, 00000000000000000000.log" in done.stdout
    assert f"gossamer log repair {folder}" in done.stdout


def test_a_torn_tail_is_reported_and_is_no_damage(folder: Path) -> None:
    (path,) = log_of(folder).glob("*.log")
    with path.open("ab") as file:
        file.write(b"\xb5gsb\x00\x00")
    found = output("verify", folder)
    assert [each["position"] for each in found["logs"][0]["torn"]] == [4]
    assert "torn, which is no damage" in command("verify", folder).stdout


def test_repair_says_what_is_lost_and_changes_nothing_unless_it_may(folder: Path) -> None:
    damage(folder, 1)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = command("repair", folder)
    assert done.exit_code == 1
    assert "no record is lost" in done.stdout, "the voter's own record has what the log lost"
    assert "--yes repairs it" in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert command("repair", folder, "--yes").exit_code == 0
    assert command("verify", folder).exit_code == 0


def test_records_that_only_a_lost_database_has_are_appended_to_the_log(folder: Path) -> None:
    """A node may be killed between the commit that acknowledges an event and its append to the log."""
    state = State(folder)
    bounds = dict(state.logs)
    state.close()
    log = log_of(folder)
    damage(folder, 2)
    (folder / "identity").unlink()
    assert bounds[log.name] == (0, 4)
    done = output("repair", folder, "--yes")
    assert done["logs"][0]["lost"] == [4, 4]
    shutil.rmtree(folder / "damaged")
    assert output("verify", folder)["whole"]


def test_salvage_writes_every_readable_record_also_behind_damage(folder: Path, tmp_path: Path) -> None:
    damage(folder, 1)
    for path in folder.glob("state.db*"):
        path.unlink()
    out = tmp_path / "saved.jsonl"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = output("salvage", folder, "--out", out)
    assert (done["damaged"], done["records"]) == (True, {log_of(folder).name: 3})
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["position"] for row in rows] == [0, 2, 3]
    (event,) = rows[1]["content"]
    assert event["attributes"] == {"number": 2}
    assert base64.b64decode(event["payload_base64"]) == b"event 2"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert "overwrites nothing" in command("salvage", folder, "--out", out).stderr
    assert command("salvage", folder, "--out", folder / "inside").exit_code == 2
    assert command("salvage", folder, "--out", tmp_path / "several").exit_code == 0
    assert (tmp_path / "several" / f"{log_of(folder).name}.jsonl").read_text() == out.read_text()


def test_dump_shows_records_from_a_position_on(folder: Path) -> None:
    done = command("dump", folder, "--from", "1", "--limit", "2", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["position"], row["source"], row["sequence"], row["events"]) for row in rows] == [
        (1, "b1", 2, 1),
        (2, "b1", 3, 1),
    ]
    assert rows[0]["payload_bytes"] == len(b"event 1")
    assert rows[0]["attribute_bytes"] > 0
    assert "sequence 4  1 events from 4" in command("dump", folder, "--from", "3").stdout


def test_a_log_of_other_records_is_dumped_too(tmp_path: Path) -> None:
    with Log(tmp_path / "plain", segment_bytes=1) as log:
        for number in range(3):
            log.append([b"no parcel %d" % number])
    done = command("dump", tmp_path / "plain", "--from", "1")
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["1", "no", "parcel,", "11", "bytes"],
        ["2", "no", "parcel,", "11", "bytes"],
    ]


@pytest.mark.parametrize(
    "words",
    [("verify",), ("salvage", "--out", "saved.jsonl"), ("repair", "--yes")],
    ids=lambda words: words[0],
)
def test_a_log_takes_no_more_memory_than_a_few_of_its_segments(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its length: a log of a node may be larger than the memory of the machine."""
    monkeypatch.chdir(tmp_path)
    segment, peaks = 32 * 1024, []
    for count in (10, 10, 100):  # the first one to import what the command needs
        with Log(tmp_path / f"log{len(peaks)}", segment_bytes=segment) as log:
            for _ in range(count):
                log.append([bytes(1000)] * 33)
        (last,) = sorted((tmp_path / f"log{len(peaks)}").glob("*.log"))[-1:]
        with last.open("r+b") as file:  # else there is nothing to repair
            file.seek(last.stat().st_size // 2)
            file.write(b"damage")
        Path("saved.jsonl").unlink(missing_ok=True)
        tracemalloc.start()
        done = command(words[0], tmp_path / f"log{len(peaks)}", *words[1:])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.exit_code == (words[0] == "verify"), done.output
    assert peaks[2] < peaks[1] + 10 * segment, "ten times as long, and far more memory"


def test_an_encrypted_folder_needs_its_key(tmp_path: Path) -> None:
    folder, other = tmp_path / "b1", "a5" * 32
    asyncio.run(publish(folder, KEY))
    refused = command("verify", folder)
    assert refused.exit_code == 2
    assert "encrypted" in refused.stderr
    assert command("verify", folder, "--storage-key", other).exit_code == 2
    assert command("verify", folder, "--storage-key", KEY).exit_code == 0
    (tmp_path / "b1.toml").write_text(f'name = "b1"\nstorage_key = "{KEY}"\n')
    rows = command("dump", folder, "--config", tmp_path / "b1.toml", "--json").stdout.splitlines()
    assert [json.loads(row)["kind"] for row in rows] == ["parcel"] * 4
    for path in folder.glob("state.db*"):
        path.unlink()
    assert command("repair", folder, "--yes", "--storage-key", other).exit_code == 2
    assert command("repair", folder, "--yes", "--storage-key", KEY).exit_code == 0
    assert command("verify", folder, "--storage-key", KEY).exit_code == 0


@pytest.mark.parametrize("verb", ["verify", "repair", "dump"])
def test_the_folder_of_a_running_node_is_refused_by_name(folder: Path, verb: str) -> None:
    state = State(folder)
    done = command(verb, folder)
    state.close()
    assert done.exit_code == 2
    assert f"{folder}: a running node uses this folder" in done.stderr


def test_what_is_no_folder_of_a_node_is_refused(tmp_path: Path) -> None:
    assert "neither the state folder of a node nor" in command("verify", tmp_path).stderr
    assert command("verify", tmp_path).exit_code == 2
    assert "no such folder" in command("verify", tmp_path / "absent").stderr
