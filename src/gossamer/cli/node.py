"""``gossamer up`` and ``gossamer channels``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.screen import marked, screen
from gossamer.cli.session import DEFAULT_LISTEN, until_stopped
from gossamer.core.names import Role
from gossamer.runtime.api.node import Node, connect
from gossamer.runtime.config import NodeConfig, TrustConfig, load

At = Annotated[
    str,
    typer.Option(
        "--connect", envvar="GOSSAMER_NODE", help="Address of the node to talk to.", metavar="ADDRESS"
    ),
]
Trusted = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        help="Public key ('ed25519:… name') whose template packages are loaded; may be repeated.",
        metavar="KEY",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def up(
    config: Annotated[Path | None, typer.Argument(help="TOML file that describes the node.")] = None,
    name: Annotated[str, typer.Option(help="Name of the node; made up if not given.")] = "",
    role: Annotated[Role | None, typer.Option(help="Where the node stands.")] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(help=f"Address to listen at; may be repeated. Default {DEFAULT_LISTEN}."),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(help="Address that others are told instead of where it listens; may be repeated."),
    ] = None,
    connect_to: Annotated[
        list[str] | None, typer.Option("--connect", help="Address of another node; may be repeated.")
    ] = None,
    state: Annotated[str, typer.Option(help="Folder for what survives a restart.")] = "",
    trace: Annotated[str, typer.Option(help="Folder for traces.")] = "",
    trust: Trusted = None,
    as_json: Json = False,
) -> None:
    """Start a node and keep it running until Ctrl-C."""
    settings = load(config) if config else NodeConfig(listen=(DEFAULT_LISTEN,))
    given = {
        "name": name,
        "role": role,
        "listen": tuple(listen) if listen else None,
        "advertise": tuple(advertise) if advertise else None,
        "connect": tuple(connect_to) if connect_to else None,
        "state": state,
        "trace": trace,
        "trust": TrustConfig(tuple(trust)) if trust else None,
    }
    settings = msgspec.structs.replace(settings, **{key: value for key, value in given.items() if value})
    until_stopped(lambda: _serve(settings, as_json))


async def _serve(settings: NodeConfig, as_json: bool) -> None:
    console = screen()
    async with Node(settings, patient=True) as node:
        if as_json:
            print(
                json.dumps({"node": node.name, "role": settings.role, "listen": node.addresses}), flush=True
            )
        else:
            _greet(console, node, settings)
        try:
            await asyncio.Event().wait()
        finally:
            await node.close()
            dropped = {reason: count for reason, count in node.drops.items() if count}
            if as_json:
                print(json.dumps({"node": node.name, "stopped": True, "dropped": dropped}), flush=True)
            else:
                console.print(
                    f"node {node.name} stopped; {f'dropped: {dropped}' if dropped else 'nothing was dropped'}"
                )


def _greet(console: Console, node: Node, settings: NodeConfig) -> None:
    console.print("node", marked(node.name, f" ({settings.role}) is up"))
    for address in node.addresses:
        console.print(f"  listens at {address}")
    for channel in settings.channel:
        console.print(f"  channel {channel.name} ({channel.template})")
    if settings.trace:
        console.print(f"  traces go to {settings.trace}")
    console.print("Ctrl-C drains and stops it.")


def channels(at: At = DEFAULT_LISTEN, as_json: Json = False) -> None:
    """List the channels that a node knows."""
    until_stopped(lambda: _channels(at, as_json))


async def _channels(at: str, as_json: bool) -> None:
    async with connect(at) as node:
        entries = await node.directory.list()
    if as_json:
        print(json.dumps([{"name": e.name, "template": e.template, "settings": e.settings} for e in entries]))
        return
    if not entries:
        print("no channels yet; `gossamer sub NAME` or `gossamer pub NAME` makes one")
        return
    table = Table("channel", "template", "settings", "made by")
    for entry in entries:
        settings = ", ".join(f"{key}={value}" for key, value in entry.settings.items())
        table.add_row(entry.name, entry.template, settings, entry.creator)
    screen().print(table)
