"""A live run leaves the trace that the core describes, and its rows add up."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gossamer import catalog, connect
from gossamer.core import trace
from gossamer.core.names import channel_id
from gossamer.core.trace import COLUMNS
from gossamer.simulator.world import World
from gossamer.traces.writer import read
from tests.runtime.parties import ANY_PORT, SOON, host_of, take

COUNT = 300


async def conversation(folder: Path) -> None:
    """A publisher, a server and two subscribers, one of which drops; and one answer."""
    common = {"trace": folder, "run": "test"}
    async with connect(name="server", listen=ANY_PORT, **common) as server:  # type: ignore[arg-type]
        at = server.addresses[0]
        async with (
            connect(at, name="writer", **common) as writer,  # type: ignore[arg-type]
            connect(at, name="reader", **common) as reader,  # type: ignore[arg-type]
        ):
            channel, heard = (
                await writer.channel("news", "multicast"),
                await reader.channel("news", "multicast"),
            )
            dropping = heard.subscribe(max_pending=1, on_full="drop_newest")
            async with heard.subscribe() as events, dropping, channel.answers() as answers:
                await channel.wait_for_subscribers(SOON)
                for number in range(COUNT):
                    await channel.publish(b"%d" % number)
                    if number % 7 == 0:
                        channel.flush()
                assert len(await take(events, COUNT - 1)) == COUNT - 1
                await (await events.next(timeout=SOON)).feedback(b"done")
                await take(answers, 1)


async def test_rows_of_a_live_run_add_up(tmp_path: Path) -> None:
    await conversation(tmp_path)
    table = read(tmp_path)
    assert [(field.name, str(field.type)) for field in table.schema] == [
        (name, "string" if kind == "text" else "int64") for name, kind in COLUMNS
    ]
    rows = table.to_pylist()
    events: dict[tuple[str, str], int] = defaultdict(int)
    parcels: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row["kind"] == trace.PARCEL and row["channel"] == "news":
            events[row["node"], row["action"]] += row["count"]
            parcels[row["node"], row["action"]] += 1
    assert events["writer", trace.PUBLISHED] == COUNT
    assert events["writer", trace.SENT] == events["server", trace.RECEIVED] == COUNT
    assert events["server", trace.SENT] == events["reader", trace.RECEIVED] == COUNT
    assert parcels["writer", trace.PUBLISHED] == parcels["reader", trace.RECEIVED] > COUNT // 7
    assert events["reader", trace.DELIVERED] == 2 * COUNT
    assert events["reader", trace.DROPPED] == COUNT - 1
    assert parcels["writer", trace.DROPPED] == parcels["server", trace.DROPPED] == 0


async def test_positions_have_no_gaps_and_times_never_run_backwards(tmp_path: Path) -> None:
    await conversation(tmp_path)
    rows = read(tmp_path).to_pylist()
    assert {row["node"] for row in rows} == {"server", "writer", "reader"}
    for node in ("server", "writer", "reader"):
        mine = [row for row in rows if row["node"] == node]
        assert [row["position"] for row in mine] == list(range(1, len(mine) + 1))
        assert [row["at"] for row in mine] == sorted(row["at"] for row in mine)
        assert len({row["incarnation"] for row in mine}) == 1


async def test_an_answer_is_traced_from_its_beginning_to_its_source(tmp_path: Path) -> None:
    await conversation(tmp_path)
    feedback = [row for row in read(tmp_path).to_pylist() if row["kind"] == trace.FEEDBACK]
    feedback.sort(key=lambda row: row["at"])
    assert [(row["node"], row["action"]) for row in feedback] == [
        ("reader", trace.PUBLISHED),
        ("reader", trace.SENT),
        ("server", trace.RECEIVED),
        ("server", trace.SENT),
        ("writer", trace.RECEIVED),
        ("writer", trace.DELIVERED),
    ]


async def test_both_hosts_run_the_very_same_template() -> None:
    world = World(seed=1)
    world.add_node("a")
    world.open("news", "multicast")
    async with connect(name="a") as node:
        await node.channel("news", "multicast")
        live, simulated = host_of(node).engine, world.engine("a")
        assert simulated is not None
        kinds = {type(each._instances[channel_id("news")].template) for each in (live, simulated)}
    assert kinds == {catalog.templates()["multicast"]}
