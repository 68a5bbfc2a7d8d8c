"""``gossamer registry``: look into the registry of a network, change it, and see it change."""

from __future__ import annotations

import base64
import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from gossamer.cli.node import At, Json
from gossamer.cli.screen import screen
from gossamer.cli.session import DEFAULT_LISTEN, until_stopped
from gossamer.overlay.registry.items import Item
from gossamer.runtime.api.node import connect

app = typer.Typer(
    add_completion=False, help="Look into the registry, change it, and see it change.", no_args_is_help=True
)

Key = Annotated[str, typer.Argument(help="Key of the item.", metavar="KEY")]
Prefix = Annotated[str, typer.Argument(help="How keys begin; all keys if not given.", metavar="PREFIX")]


def described(item: Item) -> dict[str, Any]:
    """An item for programs to read."""
    row: dict[str, Any] = {"key": item.key, "version": item.counter, "writer": item.writer}
    try:
        row["value"] = None if item.value is None else item.value.decode()
    except UnicodeDecodeError:
        row["value_base64"] = base64.b64encode(item.value or b"").decode()
    return row


@app.command("get")
def get(key: Key, at: At = DEFAULT_LISTEN, as_json: Json = False) -> None:
    """Print the value of a key; exit code 1 if there is none."""

    async def look() -> bool:
        async with connect(at) as node:
            value = await node.registry.get(key)
        if as_json:
            row = described(Item(key, 0, "", value))
            print(json.dumps({name: row[name] for name in row if name.startswith(("key", "value"))}))
        else:
            sys.stdout.buffer.write(value + b"\n")
            sys.stdout.flush()
        return True

    _done(until_stopped(look))


@app.command("set")
def set_value(
    key: Key,
    value: Annotated[
        str | None, typer.Argument(help="Its value; without one, all of standard input.", metavar="VALUE")
    ] = None,
    at: At = DEFAULT_LISTEN,
    as_json: Json = False,
) -> None:
    """Give a key a value; returns when a server keeps it."""
    content = sys.stdin.buffer.read() if value is None else value.encode()

    async def change() -> bool:
        async with connect(at) as node:
            await node.registry.set(key, content)
        return True

    _done(until_stopped(change))
    if as_json:
        print(json.dumps({"key": key, "bytes": len(content)}))


@app.command("delete")
def delete(key: Key, at: At = DEFAULT_LISTEN, as_json: Json = False) -> None:
    """Delete a key."""

    async def change() -> bool:
        async with connect(at) as node:
            await node.registry.delete(key)
        return True

    _done(until_stopped(change))
    if as_json:
        print(json.dumps({"key": key, "deleted": True}))


@app.command("list")
def list_items(prefix: Prefix = "", at: At = DEFAULT_LISTEN, as_json: Json = False) -> None:
    """List items by key, as the node knows them."""

    async def look() -> list[Item]:
        async with connect(at) as node:
            return await node.registry.list(prefix)

    items = until_stopped(look)
    _done(items)
    rows = [described(item) for item in items or ()]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("key", "value", "written by")
    for row in rows:
        table.add_row(row["key"], ascii(row.get("value", "(binary)"))[1:-1][:60], row["writer"])
    screen().print(table)


@app.command("watch")
def watch(
    prefix: Prefix = "",
    at: At = DEFAULT_LISTEN,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many items.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Give up after so many seconds without one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the items that are there, then each change, one line each."""

    async def look() -> bool:
        async with connect(at) as node, node.registry.watch(prefix) as changes:
            if not as_json:
                print(f"watching {prefix or 'everything'}; Ctrl-C ends", file=sys.stderr)
            left = count
            while left is None or left:
                _show(await changes.next(timeout=timeout), as_json)
                left = None if left is None else left - 1
        return True

    until_stopped(look)


def _show(item: Item, as_json: bool) -> None:
    row = described(item)
    if as_json:
        print(json.dumps(row), flush=True)
    elif item.value is None:
        print(f"{item.key} was deleted", flush=True)
    else:
        print(f"{item.key} {row.get('value', '(binary)')}", flush=True)


def _done(result: object) -> None:
    if result is None:
        raise typer.Exit(130)
