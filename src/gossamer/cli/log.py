"""``gossamer log``: verify, repair, salvage and dump what a node that does not run keeps on disk.

Exit codes: 0, everything is whole; 1, damage was found; 2, the command could not do its work.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import msgspec
import typer
from rich.progress import Progress
from rich.table import Table

from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.core.errors import ConfigError, GossamerError, ProtocolError
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode
from gossamer.runtime import offline
from gossamer.runtime.config import load
from gossamer.runtime.offline import Found, Look, Place, Plan
from gossamer.storage.cipher import Cipher, key_from
from gossamer.storage.repair import Survey, readable

app = typer.Typer(
    add_completion=False,
    help="Verify, repair, salvage and dump the logs and the database of a node that does not run.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path, typer.Argument(help="State folder of a node, or the folder of one log.", metavar="FOLDER")
]
StorageKey = Annotated[
    str,
    typer.Option(
        "--storage-key",
        envvar="GOSSAMER_STORAGE_KEY",
        help="64 hexadecimal digits, if the folder is encrypted.",
        metavar="KEY",
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="The node's TOML file, for its storage_key.", metavar="FILE")
]
DAMAGE = 1


# the commands


@app.command("verify")
def verify(
    folder: Folder, storage_key: StorageKey = "", config: Config = None, as_json: Json = False
) -> None:
    """Read every byte; exit code 1 if anything that was synced is damaged or missing."""
    with _opened(folder, storage_key, config) as (place, cipher, _):
        look = _examined(place, cipher).look
    if as_json:
        print(json.dumps(_described(look)))
    else:
        _show(look)
    raise typer.Exit(0 if look.whole else DAMAGE)


@app.command("repair")
def repair(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Repair without a question.")] = False,
    storage_key: StorageKey = "",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """End each log before its first damage, and make a folder that the node opens again.

    Everything behind the damage goes to damaged/, no byte is deleted.
    """
    with _opened(folder, storage_key, config) as (place, cipher, lock):
        found = _examined(place, cipher)
        planned = offline.plan(found)
        said = screen(stderr=as_json)
        for line in _explained(found.look, planned):
            said.print(line, soft_wrap=True)
        if not planned.needed:
            if as_json:
                print(json.dumps({"folder": found.look.folder, "repaired": False, "logs": [], "aside": []}))
            return
        if not yes and not _agreed():
            screen(stderr=True).print("nothing was changed; --yes repairs it")
            raise typer.Exit(DAMAGE)
        aside = offline.carry_out(found, planned, lock)
        again = _examined(offline.place_of(Path(found.look.folder)), cipher).look
    if as_json:
        rows = [
            {
                "log": Path(each.folder).name,
                "end": each.end + len(each.rescued),
                "lost": list(each.lost),
                "other_voters_have_it": each.refill,
            }
            for each in planned.logs
        ]
        print(json.dumps({"folder": again.folder, "repaired": True, "logs": rows, "aside": aside}))
    else:
        for path in aside:
            said.print(f"set aside: {path}", soft_wrap=True)
        said.print(
            marked("repaired" if again.whole else "not whole yet", f": {again.folder}"), soft_wrap=True
        )
    raise typer.Exit(0 if again.whole else DAMAGE)


@app.command("salvage")
def salvage(
    folder: Folder,
    out: Annotated[
        Path,
        typer.Option(
            help="A new file of JSON lines for all logs, or a folder for a file per log.", metavar="FILE|DIR"
        ),
    ],
    storage_key: StorageKey = "",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write every record that can be read, also behind damage, to a new place; nothing in FOLDER changes."""
    with _opened(folder, storage_key, config) as (place, cipher, _):
        found = _examined(place, cipher)
        counts = _salvaged(found, out)
    damaged = not found.look.whole
    if as_json:
        print(
            json.dumps({"folder": found.look.folder, "out": str(out), "damaged": damaged, "records": counts})
        )
    else:
        for name, count in counts.items():
            screen().print(f"{name}: {count} records", soft_wrap=True)


@app.command("dump")
def dump(
    folder: Folder,
    first: Annotated[int, typer.Option("--from", min=0, help="Position of the first record.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Show so many records of each log.")] = None,
    storage_key: StorageKey = "",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the records of each log: position, source, number, events and sizes."""
    with _opened(folder, storage_key, config) as (place, cipher, _), _progress(sys.stdout.isatty()) as told:
        for log in place.logs:
            if not as_json and len(place.logs) > 1:
                print(f"log {log.name}")
            for number, (position, record) in enumerate(readable(log, told, cipher, first)):
                if limit is not None and number >= limit:
                    break
                row = _record(position, record)
                print(json.dumps({"log": log.name, **row}) if as_json else _line(row))


# what they have in common


@contextmanager
def _opened(folder: Path, key: str, config: Path | None) -> Iterator[tuple[Place, Cipher | None, int]]:
    """A folder that no node runs in, its key and its lock; errors end the command with exit code 2."""
    try:
        if config is not None and not key:
            key = load(config).storage_key
        cipher = key_from(key)
        place = offline.place_of(folder)
        with offline.locked(place) as lock:
            yield place, cipher, lock
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(0) from None
    except GossamerError as error:
        screen(stderr=True).print(marked("error:", f" {error}", "bold red"), soft_wrap=True)
        raise typer.Exit(2) from None


@contextmanager
def _progress(hidden: bool = False) -> Iterator[offline.Progress]:
    """A bar on standard error, for people at a terminal."""
    console = screen(stderr=True)
    with Progress(console=console, transient=True, disable=hidden or not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None)

        def tell(name: str, done: int, total: int) -> None:
            progress.update(task, description=f"reading {name}", completed=done, total=max(total, 1))

        yield tell


def _examined(place: Place, cipher: Cipher | None) -> Found:
    with _progress() as told:
        return offline.examine(place, cipher, told)


def _agreed() -> bool:
    return sys.stdin.isatty() and typer.confirm("Repair it?", err=True)


# verify


def _described(look: Look) -> dict[str, Any]:
    """What was found, for programs to read."""
    return {
        "folder": look.folder,
        "whole": look.whole,
        "commits": look.commits,
        "values": look.values,
        "damage": [msgspec.to_builtins(each) for each in look.findings],
        "logs": [
            {
                "log": Path(each.folder).name,
                "first": each.begin,
                "end": each.end,
                "records": each.end - each.begin,
                "segments": each.segments,
                "bytes": each.bytes,
                "synced": each.known,
                "torn": [msgspec.to_builtins(finding) for finding in each.findings if finding.torn],
                "damage": [msgspec.to_builtins(finding) for finding in each.damage],
            }
            for each in look.logs
        ],
    }


def _show(look: Look) -> None:
    console = screen()
    table = Table("log", "records", "segments", "bytes", "synced end", "first damage")
    for each in look.logs:
        table.add_row(
            Path(each.folder).name,
            f"{each.end - each.begin} ({each.begin} to {each.end - 1})" if each.end > each.begin else "0",
            f"{each.segments}",
            f"{each.bytes}",
            f"{each.known}",
            _first_damage(each),
        )
    console.print(table)
    for finding in look.findings:
        console.print(marked(finding.file, f": {finding.reason}", "bold red"), soft_wrap=True)
    for each in look.logs:
        for finding in each.findings:
            what = "torn, which is no damage" if finding.torn else "damaged"
            text = f", position {finding.position}: {what}: {finding.reason}"
            console.print(f"{each.folder}/{finding.file}{text}", soft_wrap=True)
    if look.whole:
        console.print(marked("whole", f": {look.folder}"), soft_wrap=True)
    else:
        said = f": stop the node and run: gossamer log repair {look.folder}"
        console.print(marked("damaged", said, "bold red"), soft_wrap=True)


def _first_damage(found: Survey) -> str:
    damage = min(found.damage, key=lambda each: each.position, default=None)
    return f"position {damage.position}, {damage.file}" if damage is not None else "none"


# repair


def _explained(look: Look, planned: Plan) -> Iterator[str]:
    """What a repair does and what is lost, a sentence each."""
    if not planned.needed:
        yield f"{look.folder} is whole: there is nothing to repair"
        return
    for finding in look.findings:
        yield f"{finding.file}: {finding.reason}"
    if look.lost_database:
        yield (
            f"state.db is set aside and made anew: {planned.taken} values that can be read are taken over, "
            f"{planned.dropped} are not"
        )
        yield "this node gives up its votes: on channels with other voters it takes the order from them"
    elif "identity" in planned.files:
        yield "identity is written anew"
    for each in planned.logs:
        name, (first, end) = Path(each.folder).name, each.lost
        if each.rescued:
            yield f"{name}: {len(each.rescued)} records that can be read are appended again"
        if first == end:
            yield f"{name}: no record is lost"
        elif each.refill:
            yield f"{name}: positions {first} to {end - 1} are set aside; the other voters have them"
        else:
            yield f"{name}: positions {first} to {end - 1} are lost here; damaged/ has what was left of them"
    for folder in planned.uncertain:
        yield f"{Path(folder).name}: the database may have had acknowledged events that its log has not"


# salvage and dump


def _salvaged(found: Found, out: Path) -> dict[str, int]:
    """Write records to a new place; how many of each log."""
    source, target = Path(found.look.folder).resolve(), out.resolve()
    if target == source or source in target.parents:
        raise ConfigError("it lies inside the folder that is salvaged", key="--out", file=str(out))
    folder = out.is_dir() or not out.suffix
    if (out.exists() and not out.is_dir()) or (out.is_dir() and any(out.iterdir())):
        raise ConfigError("it is there already, and salvage overwrites nothing", key="--out", file=str(out))
    counts: dict[str, int] = {}
    try:
        (out if folder else out.parent).mkdir(parents=True, exist_ok=True)
        for each in found.look.logs:
            name = Path(each.folder).name
            path = out / f"{name}.jsonl" if folder else out
            with path.open("a", encoding="utf-8") as file:
                counts[name] = _write(found, each, name, file)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", key="--out", file=str(out)) from None
    return counts


def _write(found: Found, log: Survey, name: str, file: TextIO) -> int:
    count = 0
    with _progress() as told:
        for position, record in readable(Path(log.folder), told, found.cipher):
            count += _write_record(file, name, position, record)
    for position, frame in offline.unlogged(found, log):
        count += _write_record(file, name, position, frame)
    return count


def _write_record(file: TextIO, log: str, position: int, record: bytes) -> int:
    row: dict[str, Any] = {"log": log, **_record(position, record)}
    parcel = _parcel(record)
    if parcel is None:
        row["record_base64"] = base64.b64encode(record).decode()
    else:
        picks = parcel.picks or range(parcel.stamp.count)
        every = parcel.attributes or [{}] * len(picks)
        row["content"] = [
            {"number": parcel.stamp.first + pick, "attributes": attributes or {}, "payload_base64": payload}
            for pick, attributes, payload in zip(picks, every, parcel.payloads, strict=True)
        ]
    file.write(msgspec.json.encode(row).decode() + "\n")
    return 1


def _parcel(record: bytes) -> Parcel | None:
    """The parcel that a record holds; None if it holds something else."""
    try:
        item = decode(record)
        if isinstance(item, Parcel):
            item.payloads  # noqa: B018  (a body that makes no sense is found here)
            return item
    except ProtocolError:
        pass
    return None


def _record(position: int, record: bytes) -> dict[str, Any]:
    """A record for programs to read, without its content."""
    parcel = _parcel(record)
    if parcel is None:
        return {"position": position, "kind": "other", "bytes": len(record)}
    stamp = parcel.stamp
    attributes = sum(len(msgspec.msgpack.encode(each)) for each in parcel.attributes or () if each)
    return {
        "position": position,
        "kind": "parcel",
        "bytes": len(record),
        "source": stamp.source,
        "incarnation": stamp.incarnation,
        "sequence": stamp.sequence,
        "first": stamp.first,
        "events": stamp.count,
        "sent_ns": parcel.header.sent,
        "attribute_bytes": attributes,
        "payload_bytes": sum(map(len, parcel.payloads)),
    }


def _line(row: dict[str, Any]) -> str:
    if row["kind"] == "other":
        return f"{row['position']:>10}  no parcel, {row['bytes']} bytes"
    return (
        f"{row['position']:>10}  {row['source']}  sequence {row['sequence']}  {row['events']} events from "
        f"{row['first']}  attributes {row['attribute_bytes']} bytes, payloads {row['payload_bytes']} bytes"
    )
