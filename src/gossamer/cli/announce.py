"""``gossamer announce``, ``listen`` and ``index``: announcements from and to a terminal."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated

import typer

from gossamer.announce.announcer import AnnouncerSettings
from gossamer.announce.index_plan import planned
from gossamer.announce.listener import ListenerSettings
from gossamer.announce.reliability import Erasure, Reliability, Repetition
from gossamer.announce.sender import Pace
from gossamer.cli.node import Json
from gossamer.cli.pubsub import given
from gossamer.cli.session import until_stopped
from gossamer.cli.spark import Master, pipeline, spark_for
from gossamer.core.errors import ConfigError
from gossamer.runtime.api.announcer import Announcer
from gossamer.runtime.api.indexer import Indexer
from gossamer.runtime.api.listener import HeardAnnouncement, Listener

DEFAULT_MEETING = "multicast://239.255.72.0:7472?interface=127.0.0.1"
PACE = Pace()
REFRESH = AnnouncerSettings().refresh
MODULES: dict[str, type[Erasure] | type[Repetition]] = {"erasure": Erasure, "repetition": Repetition}

Meeting = Annotated[
    str,
    typer.Option(
        "--meeting",
        envvar="GOSSAMER_MEETING",
        help="Group at which announcers and listeners meet.",
        metavar="ADDRESS",
    ),
]
Interval = Annotated[float, typer.Option(help="Seconds from one repetition to the next.")]
JoinTime = Annotated[float, typer.Option("--join", help="Seconds that joining a group takes.")]
Refresh = Annotated[float, typer.Option(help="Seconds after which indexes are announced again.")]


def announce(
    name: Annotated[str, typer.Argument(help="Name of the thread, such as weather/oslo.")],
    payload: Annotated[
        list[str] | None,
        typer.Argument(help="One announcement each; without any, each line of standard input."),
    ] = None,
    meeting: Meeting = DEFAULT_MEETING,
    reliability: Annotated[str, typer.Option(help=f"What heals losses: {', '.join(MODULES)}.")] = "erasure",
    loss: Annotated[float, typer.Option(help="Share of packets that may get lost.")] = 0.3,
    target: Annotated[float, typer.Option(help="Share of announcements that is to arrive.")] = 0.9999,
    interval: Interval = PACE.interval,
    join: JoinTime = PACE.join,
    rate: Annotated[float, typer.Option(help="Bytes per second and group.")] = PACE.rate,
    refresh: Refresh = REFRESH,
    state: Annotated[str, typer.Option(help="Folder that remembers who this announcer is.")] = "",
    as_json: Json = False,
) -> None:
    """Announce to whoever listens; ends when everything has been repeated as often as was asked for."""
    if reliability not in MODULES:
        raise ConfigError(f"{reliability!r}: one of {', '.join(MODULES)}", key="--reliability")
    module: Reliability = MODULES[reliability](loss, target)
    pace = Pace(interval=interval, join=join, rate=rate)

    async def tell() -> None:
        announcer = Announcer(
            meeting, pace=pace, reliability=module, settings=AnnouncerSettings(refresh=refresh), state=state
        )
        async with announcer:
            thread = announcer.thread(name)
            async for each in given([text.encode() for text in payload] if payload else None):
                version = thread.announce(each)
                if as_json:
                    print(
                        json.dumps({"name": name, "thread": thread.id.hex(), "version": version}), flush=True
                    )

    until_stopped(tell)


def listen(
    names: Annotated[list[str], typer.Argument(help="Names of threads.", metavar="NAME...")],
    meeting: Meeting = DEFAULT_MEETING,
    depth: Annotated[
        int, typer.Option(min=0, max=8, help="Levels of indexes in between; 0 joins groups for good.")
    ] = 1,
    patience: Annotated[float, typer.Option(help="Seconds to wait for what an index tells of.")] = 5.0,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="Give up after so many seconds.")] = None,
    as_json: Json = False,
) -> None:
    """Show announcements, one line each."""

    async def show() -> None:
        settings = ListenerSettings(depth=depth, patience=patience)
        async with Listener(meeting, *names, settings=settings) as listener:
            print(f"listening for {', '.join(names)}; Ctrl-C ends", file=sys.stderr, flush=True)
            left = count
            while left is None or left:
                _show(await listener.next(timeout), as_json)
                left = None if left is None else left - 1
            if listener.missed:
                print(f"{listener.missed} announcements were missed", file=sys.stderr)

    until_stopped(show)


def _show(heard: HeardAnnouncement, as_json: bool) -> None:
    if as_json:
        text = heard.payload.decode(errors="replace")
        told = {"name": heard.name, "thread": heard.thread.hex(), "version": heard.version, "payload": text}
        print(json.dumps(told), flush=True)
    else:
        sys.stdout.buffer.write(heard.payload + b"\n")
        sys.stdout.flush()


def index(
    meeting: Meeting = DEFAULT_MEETING,
    indexes: Annotated[int, typer.Option(min=1, help="Indexes to build, at most.")] = 16,
    channels: Annotated[int, typer.Option(min=1, max=14, help="Groups for indexes.")] = 8,
    rebuild: Annotated[
        float | None, typer.Option(min=1, help="Seconds after which indexes are built anew, on Spark.")
    ] = None,
    period: Annotated[float, typer.Option(help="Seconds between a listener's throws of the dice.")] = 600.0,
    probability: Annotated[float, typer.Option(help="Chance that a throw makes a report.")] = 0.1,
    interval: Interval = PACE.interval,
    join: JoinTime = PACE.join,
    refresh: Refresh = REFRESH,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """List the threads of all who announce, in indexes built from what listeners report to want."""

    async def serve() -> None:
        indexer = Indexer(
            meeting,
            channels=channels,
            period=period,
            probability=probability,
            pace=Pace(interval=interval, join=join),
            settings=AnnouncerSettings(refresh=refresh),
        )
        async with indexer:
            if as_json:
                print(json.dumps({"meeting": meeting, "indexes": indexer.index_channels}), flush=True)
            else:
                print(f"indexing what is announced at {meeting}; Ctrl-C ends", file=sys.stderr, flush=True)
            while True:
                await asyncio.sleep(rebuild or 3600.0)
                if rebuild is not None and len(indexer.interest):
                    await _rebuild(indexer, indexes, master, as_json)

    until_stopped(serve)


async def _rebuild(indexer: Indexer, indexes: int, master: str | None, as_json: bool) -> None:
    """Cluster what listeners want in a thread, since Spark takes its time, and move to the new indexes."""
    rows = list(indexer.interest.rows())
    levels = await asyncio.to_thread(_levels, rows, indexes, master)
    indexer.regroup(planned(levels, indexer.survey.threads))
    told = {"listeners": len(indexer.interest), "indexes": len(set(levels[0].values()))}
    print(json.dumps(told) if as_json else f"rebuilt: {told}", flush=True)


def _levels(rows: list[tuple[str, str]], indexes: int, master: str | None) -> list[dict[str, str]]:
    with pipeline():
        from gossamer.pipeline.clusters import hierarchy, interest_of
    with spark_for(master, len(rows)) as spark:
        levels = hierarchy(interest_of(spark, rows), indexes, max(2, indexes))
        return [level.members for level in levels]
