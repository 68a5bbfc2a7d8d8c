"""Announcers, listeners and indexers on real groups of the loopback interface, and on channels of a node."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

import gossamer
from gossamer import Announcer, AnnouncerSettings, Indexer, Listener, ListenerSettings, Pace, Repetition
from gossamer.announce.index_plan import Plan
from gossamer.core.errors import BadAddress, Closed, ConfigError, Cyclic, DiskFull, NoAnswer
from gossamer.runtime.net.ip_multicast import beside, path_mtu
from gossamer.storage.database import Database
from tests.runtime.parties import until

PATIENCE = 30.0
PACE = Pace(interval=0.02, join=0.1)
SETTINGS = AnnouncerSettings(refresh=0.2)
LISTENS = ListenerSettings(patience=PATIENCE)


@pytest.fixture
def meeting() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return f"multicast://239.255.74.0:{sock.getsockname()[1]}?interface=127.0.0.1"


def announcer(meeting: str, **more: object) -> Announcer:
    return Announcer(meeting, pace=PACE, settings=SETTINGS, **more)  # type: ignore[arg-type]


async def test_what_is_announced_on_a_real_group_is_heard_and_the_group_is_left(meeting: str) -> None:
    async with announcer(meeting) as speaker, Listener(meeting, "weather/oslo", settings=LISTENS) as listener:
        thread = speaker.thread("weather/oslo")
        await until(lambda: listener.settled)
        for version, payload in enumerate((b"rain", bytes(20_000), b"")):
            assert thread.announce(payload) == version + 1
            heard = await listener.next(PATIENCE)
            assert (heard.name, heard.version, heard.payload) == ("weather/oslo", version + 1, payload)
        await until(lambda: listener.joined == set(speaker.index_channels))
        assert (listener.missed, +listener.drops, +speaker.drops) == (0, {}, {})


async def test_a_late_listener_finds_its_thread_by_configuration(meeting: str) -> None:
    async with announcer(meeting) as speaker:
        thread = speaker.thread("a")
        await speaker.drain()
        async with Listener(meeting, "a", settings=LISTENS) as listener:
            await until(lambda: listener.settled)
            thread.announce(b"x")
            assert (await listener.next(PATIENCE)).payload == b"x"


async def test_one_who_leaves_tells_so_and_the_next_of_that_name_is_heard_at_once(meeting: str) -> None:
    async with Listener(meeting, "a", settings=LISTENS) as listener:
        for payload in (b"first", b"second"):
            async with announcer(meeting) as speaker:
                thread = speaker.thread("a")
                await until(lambda: listener.settled)
                thread.announce(payload)
                assert (await listener.next(PATIENCE)).payload == payload
            await until(lambda: not listener.settled)


async def test_with_a_state_folder_identifiers_and_versions_go_on(meeting: str, tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with announcer(meeting, state=tmp_path) as speaker:
            thread = speaker.thread("a")
            seen.append((thread.id, thread.announce(b"x")))
    assert seen[0][0] == seen[1][0]
    assert [version for _, version in seen] == [1, 2]


async def test_nothing_is_sent_before_its_version_is_on_disk_and_a_full_disk_is_named(
    meeting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = Database.commit, True

    def commit(*args: Any) -> None:
        if full:
            raise DiskFull(str(tmp_path), "no space left on device")
        write(*args)

    monkeypatch.setattr(Database, "commit", commit)
    async with announcer(meeting, state=tmp_path) as speaker:
        sent: list[str] = []
        monkeypatch.setattr(speaker._running, "send", lambda channel, data: sent.append(channel))
        thread = speaker.thread("a")
        with pytest.raises(DiskFull, match="no space left"):
            await speaker.drain()
        with pytest.raises(DiskFull, match="no space left"):
            thread.announce(b"x")
        assert sent == []
        full = False
        await until(lambda: speaker._failure is None)
        assert thread.announce(b"x") == 1
        await speaker.drain()
        assert thread.channel in sent


async def test_announcements_travel_on_channels_of_a_node_as_well() -> None:
    async with (
        gossamer.connect() as node,
        announcer("news", node=node) as speaker,
        Listener("news", "a", settings=LISTENS, node=node) as listener,
    ):
        thread = speaker.thread("a")
        await until(lambda: listener.settled)
        thread.announce(b"x" * 5000)
        assert (await listener.next(PATIENCE)).payload == b"x" * 5000
        await until(lambda: listener.joined == {"news/2"})


async def test_indexes_are_rebuilt_and_nothing_is_missed(meeting: str) -> None:
    wide = beside(meeting, 4, 2)
    async with announcer(meeting, indexes=wide) as speaker:
        threads = {name: speaker.thread(name) for name in "abcd"}
        async with Listener(meeting, "a", "b", settings=LISTENS) as listener:
            await until(lambda: listener.settled)
            before = listener.follower.followed
            threads["a"].announce(b"0")
            plan = Plan(
                {"x": (threads["a"].id, threads["b"].id), "y": (threads["c"].id, threads["d"].id)}, {}
            )
            speaker.regroup(plan)
            for number in range(1, 20):
                threads["ab"[number % 2]].announce(b"%d" % number)
                await asyncio.sleep(0)
            heard = [int((await listener.next(PATIENCE)).payload) for _ in range(20)]
            assert sorted(heard) == list(range(20))
            await until(lambda: listener.follower.followed.isdisjoint(before))
            assert listener.missed == 0


async def test_an_indexer_lists_threads_of_applications_that_do_not_know_each_other(meeting: str) -> None:
    indexer = Indexer(meeting, period=0.05, probability=1.0, pace=PACE, settings=SETTINGS)
    async with indexer, announcer(meeting) as weather, announcer(meeting) as stocks:
        oslo, acme = weather.thread("oslo", listed=False), stocks.thread("acme", listed=False)
        async with Listener(meeting, "oslo", "acme", settings=LISTENS) as listener:
            await until(lambda: listener.settled and len(indexer.interest) == 1)
            assert listener.joined == {indexer.index_channels[0]}
            oslo.announce(b"rain")
            acme.announce(b"12")
            assert {(await listener.next(PATIENCE)).payload for _ in range(2)} == {b"rain", b"12"}
            assert {thread for _, thread in indexer.interest.rows()} == {oslo.id.hex(), acme.id.hex()}


async def test_an_indexer_that_comes_last_is_heard_of_and_followed_in_place_of_two_indexes(
    meeting: str,
) -> None:
    async with announcer(meeting) as weather, announcer(meeting) as stocks:
        oslo, acme = weather.thread("oslo"), stocks.thread("acme")
        async with Listener(meeting, "oslo", "acme", settings=LISTENS) as listener:
            await until(lambda: listener.settled and len(listener.follower.followed) == 2)
            async with Indexer(
                meeting, period=0.05, probability=1.0, pace=PACE, settings=SETTINGS
            ) as indexer:
                await until(lambda: len(indexer.interest) == 1 and len(listener.follower.followed) == 1)
                assert {thread for _, thread in indexer.interest.rows()} == {oslo.id.hex(), acme.id.hex()}
                acme.announce(b"12")
                assert (await listener.next(PATIENCE)).payload == b"12"


async def test_what_is_not_read_in_time_is_dropped_oldest_first_and_counted(meeting: str) -> None:
    async with announcer(meeting) as speaker:
        thread = speaker.thread("a")
        async with Listener(meeting, "a", settings=LISTENS, max_pending=2) as listener:
            await until(lambda: listener.settled)
            for number in range(5):
                thread.announce(b"%d" % number)
            await until(lambda: listener.drops["not read in time"] == 3)
            assert {(await listener.next(1)).payload for _ in range(2)} <= {b"0", b"1", b"2", b"3", b"4"}


async def test_nobody_announces_and_the_listener_says_so(meeting: str) -> None:
    async with Listener(meeting, "a") as listener:
        with pytest.raises(NoAnswer):
            await listener.next(0.01)
    with pytest.raises(Closed):
        await listener.next()
    assert [each async for each in listener] == []


async def test_addresses_that_nothing_carries_are_refused(meeting: str) -> None:
    for wrong in ("tcp://127.0.0.1:1", "news", "multicast://10.0.0.1:5"):
        with pytest.raises(BadAddress):
            async with Listener(wrong, "a"):
                pass
        with pytest.raises(BadAddress):
            async with Announcer(wrong):
                pass
    with pytest.raises(BadAddress, match="is none"):
        Announcer("multicast://239.255.255.250:5?interface=127.0.0.1")
    speaker = announcer(meeting)
    async with speaker:
        first = speaker.index([])
        with pytest.raises(Cyclic):
            speaker.station.enlist(0, first, [first])
    with pytest.raises(Closed):
        speaker.thread("a")


def test_groups_beside_a_meeting_place_follow_it() -> None:
    assert beside("multicast://239.1.2.255:7000?ttl=3", 2, 1) == [
        "multicast://239.1.3.0:7000?ttl=3",
        "multicast://239.1.3.1:7000?ttl=3",
    ]
    assert beside("news", 2, 16) == ["news/16", "news/17"]


async def test_packets_are_cut_to_what_the_path_takes(meeting: str) -> None:
    assert 1000 <= path_mtu(meeting) <= 1400
    async with Announcer(meeting, pace=Pace(mtu=500), reliability=Repetition()) as speaker:
        assert speaker.station.sender.pace.mtu == 500
    with pytest.raises(ConfigError):
        async with Announcer(meeting, pace=Pace(mtu=5)):
            pass
