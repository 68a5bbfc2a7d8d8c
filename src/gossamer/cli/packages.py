"""``gossamer templates``: what is installed; and sign, publish and list template packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from gossamer.cli import show
from gossamer.cli.node import At, Json
from gossamer.cli.screen import screen
from gossamer.cli.session import DEFAULT_LISTEN, until_stopped
from gossamer.core.errors import BadPackage, ConfigError, GossamerError, TooLarge
from gossamer.runtime.api.node import connect
from gossamer.runtime.template_loader import rehearse
from gossamer.security.keys import PrivateKey
from gossamer.security.package import (
    MAX_BODY,
    MAX_FILE,
    MAX_FILES,
    MAX_LABEL,
    ROOT,
    Label,
    pack,
    read_package,
)


class Named(TyperGroup):
    """Takes the name of a template where a command is expected: `gossamer templates reliable`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


app = typer.Typer(
    add_completion=False,
    cls=Named,
    help="List the templates that are installed, or show one; sign, publish and list packages of templates.",
    invoke_without_command=True,
)
SUFFIX = ".package"

Source = Annotated[Path, typer.Argument(help=f"A Python file, or a folder with an {ROOT}.", metavar="SOURCE")]


@app.callback()
def templates(
    context: typer.Context,
    as_json: Json = False,
    qos: Annotated[bool, typer.Option("--qos", help="Which template supports which option.")] = False,
) -> None:
    """List the templates: name, promise, cost and needs."""
    if context.invoked_subcommand is None:
        show.qos(as_json) if qos else show.templates(as_json)


@app.command("show")
def show_template(
    name: Annotated[str, typer.Argument(help="Name of a template.", metavar="NAME")], as_json: Json = False
) -> None:
    """Show what a template promises, what an acknowledgement means, what it costs and needs."""
    show.template(name, as_json)


@app.command("key")
def key(
    file: Annotated[Path, typer.Argument(help="Where the private key goes.", metavar="FILE")],
    name: Annotated[str, typer.Option(help="What people call the key; the file's name if not given.")] = "",
    as_json: Json = False,
) -> None:
    """Make a key pair: FILE signs, FILE.pub goes into the settings of nodes that trust it."""
    made = PrivateKey.new(name or file.name)
    public = made.write(file)
    if as_json:
        print(json.dumps({"private": str(file), "public": str(public), "key": made.public.line}))
        return
    print(f"{file} is the private key: keep it to yourself")
    print(f"{public} is the public key; nodes that trust it have in their settings")
    print(f'\n[trust]\nkeys = ["{made.public.line}"]')


@app.command("sign")
def sign(
    source: Source,
    key: Annotated[Path, typer.Option(help="File with the private key.", metavar="FILE")],
    version: Annotated[str, typer.Option(help="Version of the package.")],
    name: Annotated[str, typer.Option(help="Name of the package; that of SOURCE if not given.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where the package goes.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Pack and sign templates. Their code is loaded once, as nodes will load it."""
    private = PrivateKey.read(key)
    files = _sources(source)
    name = name or source.resolve().name.removesuffix(".py")
    found = rehearse(name, files)
    package = pack(name, version, found, files, private)
    target = out or Path(f"{name}-{version}{SUFFIX}")
    try:
        target.write_bytes(package)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(target)) from None
    if as_json:
        row = _row(read_package(str(target), package).label)
        print(json.dumps({"package": str(target), **row}))
        return
    print(f"{target} has {', '.join(found)} ({len(files)} files, {len(package)} bytes), signed with {key}")
    print(f"`gossamer templates publish {target}` puts it into the registry")


@app.command("publish")
def publish(
    package: Annotated[Path, typer.Argument(help="A signed package.", metavar="PACKAGE")],
    at: At = DEFAULT_LISTEN,
    as_json: Json = False,
) -> None:
    """Put a signed package into the registry; nodes that trust its key load it when they need it."""
    data = _read(package, MAX_LABEL + MAX_BODY)
    read_package(str(package), data)

    async def put() -> Label:
        async with connect(at) as node:
            return await node.packages.publish(data)

    label = until_stopped(put)
    if label is None:
        raise typer.Exit(130)
    if as_json:
        print(json.dumps(_row(label)))
    else:
        print(f"published {', '.join(label.manifest.templates)}, signed by {label.key.id}")


@app.command("published")
def published(at: At = DEFAULT_LISTEN, as_json: Json = False) -> None:
    """List the template packages in the registry, and who signed them."""

    async def look() -> dict[str, Label | GossamerError]:
        async with connect(at) as node:
            return await node.packages.list()

    found = until_stopped(look)
    if found is None:
        raise typer.Exit(130)
    rows = [
        {"template": template, **(_row(each) if isinstance(each, Label) else {"error": str(each)})}
        for template, each in sorted(found.items())
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("template", "package", "version", "bytes", "signed by")
    for row in rows:
        table.add_row(
            row["template"],
            row.get("name", ""),
            row.get("version", ""),
            str(row.get("bytes", "")),
            row.get("key", row.get("error")),
        )
    screen().print(table)


def _row(label: Label) -> dict[str, Any]:
    """A label for programs to read."""
    manifest = label.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "templates": manifest.templates,
        "bytes": manifest.size,
        "digest": label.digest,
        "key": label.key.id,
    }


def _sources(source: Path) -> dict[str, bytes]:
    """The modules of a file or a folder, by their paths in the package."""
    if source.is_file():
        return {ROOT: _read(source, MAX_FILE)}
    if not (source / ROOT).is_file():
        raise BadPackage(str(source), f"it is neither a Python file nor a folder with an {ROOT}")
    files: dict[str, bytes] = {}
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_dir() or "__pycache__" in inside.parts:
            continue
        if path.suffix != ".py":
            print(f"left out: {inside}; a package has Python files alone", file=sys.stderr)
            continue
        if len(files) >= MAX_FILES:
            raise TooLarge("number of files", len(files) + 1, MAX_FILES)
        files[inside.as_posix()] = _read(path, MAX_FILE)
    return files


def _read(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise TooLarge(f"bytes of {path}", path.stat().st_size, limit)
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
