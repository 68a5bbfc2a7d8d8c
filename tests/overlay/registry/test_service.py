"""The registry: items spread, are found and watched, through losses, moves, conflicts and limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.context import BELOW, SERVER, TREE
from gossamer.core.control import Control
from gossamer.core.effect import Drop, Send, Store
from gossamer.core.errors import BadName, Full, NoAnswer, Refused, TooLarge, UnknownKey
from gossamer.core.names import NANOSECONDS, Role, channel_id
from gossamer.core.tree import Tree
from gossamer.core.wire import MAX_CONTROL, decode, decode_message, encode
from gossamer.overlay.registry import lookup as asking
from gossamer.overlay.registry import watches as watching
from gossamer.overlay.registry.api import LARGEST, Follow, Get, List, RegistrySettings, Set, Unfollow
from gossamer.overlay.registry.items import ITEMS_AT_ONCE, LATEST, MAX_VALUE, Item, encode_item
from gossamer.overlay.registry.lookup import Answer, Browse, Put, Query
from gossamer.overlay.registry.replication import Feed
from gossamer.overlay.registry.service import Registry
from gossamer.overlay.registry.watches import EXPIRY, REFRESH, Heard, Told, Unwatch, Watch
from gossamer.testing.fake import FakeContext
from tests.overlay.pump import Frame, Pump

SERVERS = ("b1", "b2", "b3", "s")
DAY = 86_400 * NANOSECONDS


def line(**options: Any) -> Pump:
    """Three servers in a line, a secondary below the last, a client below that and one below the first."""
    pump = Pump(settings=RegistrySettings(**options))
    pump.add("b1", "b2", "b3")
    pump.add("s", role=Role.SECONDARY)
    pump.add("c", "d", role=Role.CLIENT)
    pump.backbone(("b1", "b2"), ("b2", "b3"))
    pump.hang("s", "b3")
    pump.hang("c", "s")
    pump.hang("d", "b1")
    pump.settle()
    pump.carried.clear()
    return pump


def message(frame: Frame) -> Any:
    item = decode(frame[2])
    assert isinstance(item, Control)
    return decode_message(item, Registry.decoder()) if item.channel == channel_id(Registry.name) else None


def carried(pump: Pump, kind: type) -> list[tuple[str, str]]:
    return [frame[:2] for frame in pump.carried if isinstance(message(frame), kind)]


def unfed(frame: Frame) -> bool:
    return isinstance(message(frame), Feed)


def ask(pump: Pump, node: str, request: Any, seconds: float = 0) -> Any:
    """The answer to a request; an error is raised."""
    call = len(pump.replies) + 1000
    pump.call(node, call, request, Registry.name)
    pump.passes(seconds) if seconds else pump.settle()
    reply = pump.replies.get((node, call))
    if reply is None:
        return None
    if reply.error is not None:
        raise reply.error
    return reply.value


def known(pump: Pump, node: str, key: str = "k") -> bytes | None:
    item = pump.registries[node].shelf.get(key)
    return item.value if item else None


# items spread


def test_an_item_reaches_every_server_with_one_message_per_edge_and_no_client() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"v"))
    assert carried(pump, Feed) == [("b1", "b2"), ("b2", "b3"), ("b3", "s")]
    assert [known(pump, node) for node in SERVERS] == [b"v"] * 4
    assert [known(pump, node) for node in "cd"] == [None, None]


def test_a_client_sets_through_its_servers_and_is_told_when_it_is_kept() -> None:
    pump = line()
    item = ask(pump, "c", Set("k", b"v"))
    assert (item.value, item.writer) == (b"v", "c")
    assert carried(pump, Put) == [("c", "s"), ("s", "b3")]
    assert [known(pump, node) for node in SERVERS] == [b"v"] * 4


def test_what_was_lost_comes_again_in_the_next_round() -> None:
    pump = line(period=10.0)
    pump.loses = unfed
    ask(pump, "b1", Set("k", b"v"))
    assert known(pump, "b3") is None
    pump.loses = lambda frame: False
    pump.passes(10.5)
    assert [known(pump, node) for node in SERVERS] == [b"v"] * 4


def test_a_neighbour_that_tells_something_old_is_told_the_new_at_once() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"old"))
    old = pump.registries["b1"].shelf.get("k")
    assert old is not None
    ask(pump, "b1", Set("k", b"new"))
    pump.carried.clear()
    stale = Control(channel_id(Registry.name), Feed((old,)))
    pump.do("b1", pump.engines["b1"].receive(pump.now, "b2", stale))
    pump.settle()
    assert carried(pump, Feed) == [("b1", "b2")]
    assert known(pump, "b1") == b"new"


def test_a_server_that_joins_later_learns_all_of_it() -> None:
    pump = line()
    for number in range(2 * ITEMS_AT_ONCE + 1):
        ask(pump, "b1", Set(f"k{number:03}", b"v"))
    pump.add("b4")
    pump.backbone(("b1", "b2"), ("b2", "b3"), ("b3", "b4"))
    pump.settle()
    assert list(pump.registries["b4"].shelf) == list(pump.registries["b1"].shelf)


def test_new_items_overtake_the_round() -> None:
    ctx = FakeContext("a", neighbours="b", channel=Registry.name)
    registry = Registry(settings=RegistrySettings(budget=1, burst=LARGEST, period=1.0))
    registry.on_open(ctx)
    for number in range(3):
        registry.shelf.keep(Item(f"old{number}", 1, "a", b"x" * 30_000), 0)
    registry._linked.add("b")
    registry._group(ctx)
    first = [each.items[0].key for _, each in ctx.sent() if isinstance(each, Feed)]
    ctx.now = 5_000_000_000
    registry.on_call(ctx, 1, Set("new", b"v"))
    ctx.now += 10**15
    registry.on_timer(ctx, "feed")
    assert first == ["old0", "old1"]
    keys = [item.key for _, each in ctx.sent() if isinstance(each, Feed) for item in each.items]
    assert keys[2:4] == ["old2", "new"], "what the neighbour may not know, oldest first; then the round"


@pytest.mark.parametrize("neighbours", [1, 5])
def test_the_budget_is_kept_over_every_stretch_of_time(neighbours: int) -> None:
    budget, burst = 10_000, 80_000
    near = [f"n{number}" for number in range(neighbours)]
    ctx = FakeContext("a", neighbours=near, channel=Registry.name)
    registry = Registry(settings=RegistrySettings(budget=budget, burst=burst, period=1.0))
    registry.on_open(ctx)
    registry._linked.update(near)
    registry._group(ctx)
    dice = random.Random(7)
    sent: list[tuple[float, int]] = []
    for step in range(200):
        ctx.now = step * 500_000_000
        if step < 60:
            registry.on_call(ctx, step, Set(f"k{step % 20}", dice.randbytes(dice.randrange(9_000))))
        registry.on_timer(ctx, "feed")
        sent += [
            (ctx.now / 1e9, len(encode(effect.item)) * len(effect.to))
            for effect in ctx.effects
            if isinstance(effect, Send)
        ]
        ctx.clear()
    for start, _ in sent:
        for end in (start, start + 1, start + 10, start + 60):
            within = sum(size for at, size in sent if start <= at <= end)
            assert within <= burst + budget * (end - start)
    assert sum(size for _, size in sent) > budget * 50, "and it is used"


def test_a_registry_without_items_sends_nothing_and_never_wakes() -> None:
    pump = line()
    pump.passes(1000)
    assert pump.carried == []
    assert pump.wakes == {}


def test_a_server_that_has_lost_its_disk_gets_its_items_back_from_below() -> None:
    pump = line(period=10.0)
    ask(pump, "b3", Set("k", b"v"))
    for node in ("b1", "b2"):
        pump.unlink(*sorted((node, "b2" if node == "b1" else "b3")))
    pump.unlink("s", "b3")
    pump.stored["b3"].clear()
    pump.add("b3", incarnation=2)
    pump.hang("s", "b3")
    pump.passes(11)
    assert known(pump, "b3") == b"v"


# lookups


def test_a_lookup_travels_to_who_knows_and_feeds_every_cache_on_its_way_back() -> None:
    pump = line()
    pump.loses = unfed
    ask(pump, "b1", Set("k", b"v"))
    pump.carried.clear()
    assert ask(pump, "c", Get("k")).value == b"v"
    assert carried(pump, Query) == [("c", "s"), ("s", "b3"), ("b3", "b2"), ("b2", "b1")]
    assert carried(pump, Answer) == [("b1", "b2"), ("b2", "b3"), ("b3", "s"), ("s", "c")]
    assert [known(pump, node) for node in ("b2", "b3", "s", "c")] == [b"v"] * 4


def test_the_second_lookup_is_shorter_also_from_elsewhere() -> None:
    pump = line()
    pump.loses = unfed
    ask(pump, "d", Set("k", b"v"))
    lengths = []
    for node in ("c", "c", "b2"):
        pump.carried.clear()
        assert ask(pump, node, Get("k")).value == b"v"
        lengths.append(len(carried(pump, Query)))
    assert lengths == [4, 0, 0]


def test_a_client_asks_again_when_its_cache_has_become_old() -> None:
    pump = line(cache_age=5.0)
    ask(pump, "b3", Set("k", b"one"))
    ask(pump, "c", Get("k"))
    ask(pump, "b3", Set("k", b"two"))
    assert ask(pump, "c", Get("k")).value == b"one"
    pump.passes(6)
    pump.carried.clear()
    assert ask(pump, "c", Get("k")).value == b"two"
    assert carried(pump, Query) == [("c", "s")]


def test_nobody_knows_once_every_branch_has_said_so() -> None:
    pump = Pump()
    pump.add("a", "b", "c", "d", "e")
    pump.backbone(("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"))
    pump.settle()
    pump.carried.clear()
    with pytest.raises(UnknownKey):
        ask(pump, "a", Get("k"))
    assert sorted(carried(pump, Query)) == [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
    assert sorted(carried(pump, Answer)) == [("b", "a"), ("c", "b"), ("d", "b"), ("e", "d")]
    assert all(registry.questions.open == {} for registry in pump.registries.values())


@pytest.mark.parametrize("kind", [Query, Answer, Put])
@pytest.mark.parametrize("times", [1, 3])
def test_lost_questions_and_answers_are_repeated(kind: type, times: int) -> None:
    pump = line()
    left = [times]

    def loses(frame: Frame) -> bool:
        if isinstance(message(frame), kind) and left[0]:
            left[0] -= 1
            return True
        return unfed(frame)

    pump.loses = loses
    assert ask(pump, "d", Set("k", b"v"), 10).value == b"v"
    assert ask(pump, "c", Get("k"), 10).value == b"v"
    with pytest.raises(UnknownKey):
        ask(pump, "c", Get("other"), 10)
    assert left == [0]


def test_a_repeated_question_is_not_asked_twice_and_its_lost_answer_is_given_again() -> None:
    ctx = FakeContext("b", neighbours=("a", "c"), channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry._linked.update("ac")
    registry._group(ctx)
    for _ in range(3):
        registry.query(ctx, Query("x", 7, "k"), "a")
    assert ctx.sent() == [("c", Query("x", 7, "k"))]
    registry.answer(ctx, Answer("x", 7, None), "c")
    registry.query(ctx, Query("x", 7, "k"), "a")
    assert ctx.sent()[1:] == [("a", Answer("x", 7, None))] * 2


def test_a_question_that_comes_back_by_another_way_is_answered_with_nothing() -> None:
    ctx = FakeContext("b", neighbours=("a", "c"), channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry._linked.update("ac")
    registry._group(ctx)
    registry.query(ctx, Query("x", 7, "k"), "a")
    ctx.clear()
    registry.query(ctx, Query("x", 7, "k"), "c")
    assert ctx.sent() == [("c", Answer("x", 7, None))]


def test_a_branch_whose_link_breaks_is_not_waited_for() -> None:
    pump = line()
    pump.loses = lambda frame: frame[:2] == ("b2", "b3")
    assert ask(pump, "b1", Get("k")) is None
    call = max(call for _, call in [("b1", 1000 + len(pump.replies))])
    pump.unlink("b2", "b3")
    pump.settle()
    assert isinstance(pump.replies["b1", call].error, UnknownKey)


def test_a_branch_that_joins_while_a_question_is_open_is_asked_too() -> None:
    pump = line()
    pump.add("b0")
    ask(pump, "b0", Set("k", b"v"))
    pump.loses = lambda frame: frame[1] == "b3" or unfed(frame)
    call = 1000 + len(pump.replies)
    assert ask(pump, "b1", Get("k")) is None
    pump.backbone(("b0", "b1"), ("b1", "b2"), ("b2", "b3"))
    pump.settle()
    assert pump.replies["b1", call].value.value == b"v"


def test_patience_ends_and_then_nothing_is_left() -> None:
    pump = line(patience=3.0)
    pump.loses = lambda frame: frame[1] == "b1"
    with pytest.raises(NoAnswer, match="3 s"):
        ask(pump, "c", Get("k"), 5)
    assert all(registry.questions.open == {} for registry in pump.registries.values())
    assert pump.wakes == {}


def test_an_answer_that_nobody_awaits_changes_nothing() -> None:
    ctx = FakeContext("c", server="b", role=Role.CLIENT, channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry.answer(ctx, Answer("c", 5, Item("k", 1, "x", b"v")), "b")
    registry.on_call(ctx, 1, Get("k"))
    name = next(iter(registry.questions.open))
    registry.answer(ctx, Answer(*name, Item("another", 1, "x", b"v")), "b")
    assert len(registry.shelf) == 0


def test_a_client_whose_server_is_away_waits_and_asks_the_next_one() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"v"))
    pump.unlink("c", "s")
    pump.do("c", pump.engines["c"].set(pump.now, SERVER, None))
    call = 1000 + len(pump.replies)
    assert ask(pump, "c", Get("k"), 2) is None
    pump.hang("c", "b1")
    pump.settle()
    assert pump.replies["c", call].value.value == b"v"


# versions


def test_a_later_set_wins_also_on_a_node_whose_clock_lags() -> None:
    pump = line()
    pump.now = 10_000
    ask(pump, "b1", Set("k", b"one"))
    pump.now = 500
    ask(pump, "b3", Set("k", b"two"))
    assert [known(pump, node) for node in SERVERS] == [b"two"] * 4


def test_a_client_that_has_never_seen_the_key_and_whose_clock_lags_still_replaces_it() -> None:
    pump = line()
    pump.now = 10_000
    ask(pump, "b1", Set("k", b"one"))
    pump.now = 500
    assert ask(pump, "c", Set("k", b"two")).counter > 10_000
    assert [known(pump, node) for node in SERVERS] == [b"two"] * 4


def test_a_set_that_is_repeated_after_a_newer_one_was_made_does_not_bring_back_its_version() -> None:
    pump = line()
    item = ask(pump, "d", Set("k", b"first"))
    pump.now += 5
    ask(pump, "b3", Set("k", b"second"))
    late = Control(channel_id(Registry.name), Put("d", 99, item))
    pump.do("b1", pump.engines["b1"].receive(pump.now, "d", late))
    pump.settle()
    assert [known(pump, node) for node in SERVERS] == [b"second"] * 4


def test_the_late_answer_to_an_earlier_version_of_a_set_confirms_nothing() -> None:
    ctx = FakeContext("c", server="b", role=Role.CLIENT, channel=Registry.name, now=5)
    registry = Registry()
    registry.on_open(ctx)
    registry.on_call(ctx, 1, Set("k", b"mine"))
    name = next(iter(registry.questions.open))
    other = Item("k", 100, "x", b"theirs")
    registry.answer(ctx, Answer(*name, other), "b")
    again = ctx.sent()[-1][1]
    assert again == Put(*name, Item("k", 101, "c", b"mine"))
    ctx.clear()
    registry.answer(ctx, Answer(*name, other), "b")
    assert ctx.effects == []
    registry.answer(ctx, Answer(*name, again.item), "b")  # type: ignore[union-attr]
    assert [reply.value for reply in ctx.replies()] == [Item("k", 101, "c", b"mine")]


def test_nobody_can_use_up_the_versions_of_a_key() -> None:
    pump = line()
    last = Control(channel_id(Registry.name), Feed((Item("k", LATEST, "x", b"v"),)))
    pump.do("b1", pump.engines["b1"].receive(pump.now, "b2", last))
    assert [each.reason for each in pump.refused if isinstance(each, Drop)] == ["item.counter makes no sense"]
    assert known(pump, "b1") is None
    assert ask(pump, "b1", Set("k", b"w")).value == b"w"


def test_a_put_with_a_version_that_no_clock_shows_is_refused_in_words_and_kept_nowhere() -> None:
    pump = line()
    for number, counter in enumerate((LATEST, pump.now + 2 * DAY), 1):
        put = Put("d", number, Item("k", counter, "d", b"for ever"))
        pump.queue.append(("d", "b1", encode(Control(channel_id(Registry.name), put))))
        pump.settle()
        answer = [message(frame) for frame in pump.carried if frame[:2] == ("b1", "d")][-1]
        assert isinstance(answer, Answer)
        assert answer.item is None
        assert "instant" in answer.refusal
    assert all(known(pump, node) is None for node in SERVERS)
    assert not any(name.endswith("/k") for stored in pump.stored.values() for name in stored)
    ask(pump, "d", Set("k", b"honest"), 1)
    pump.passes(5)
    assert all(known(pump, node) == b"honest" for node in SERVERS)


def test_stored_items_with_versions_that_no_clock_shows_are_not_taken_in() -> None:
    now = 1_700_000_000 * NANOSECONDS
    items = [
        Item("past", now - 1, "x", b"1"),
        Item("soon", now + DAY, "x", b"2"),
        Item("later", now + 2 * DAY, "x", b"3"),
        Item("never", LATEST, "x", b"4"),
    ]
    stored = {f"{Registry.name}/global/{item.key}": encode_item(item) for item in items}
    registry = Registry(stored, now=now)
    assert [item.key for item in registry.shelf] == ["past", "soon"]
    assert registry.unreadable == 2
    assert [item.key for item in Registry(stored).shelf] == ["later", "past", "soon"], "without a clock"


def test_a_deleted_item_is_gone_everywhere_and_stays_gone() -> None:
    pump = line()
    old = ask(pump, "b1", Set("k", b"v"))
    pump.now += 1
    ask(pump, "c", Set("k", None))
    with pytest.raises(UnknownKey):
        ask(pump, "b2", Get("k"))
    stale = Control(channel_id(Registry.name), Feed((old,)))
    pump.do("b2", pump.engines["b2"].receive(pump.now, "b1", stale))
    pump.settle()
    assert [known(pump, node) for node in SERVERS] == [None] * 4
    assert all(pump.registries[node].shelf.get("k") is not None for node in SERVERS), "a tombstone is kept"
    pump.now += 1
    ask(pump, "b3", Set("k", b"again"))
    assert [known(pump, node) for node in SERVERS] == [b"again"] * 4


Action = tuple[str, int, int]
actions = st.lists(
    st.tuples(
        st.sampled_from(["set", "delete", "deliver", "lose", "copy", "swap", "tick"]),
        st.integers(0, 3),
        st.integers(0, 99),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(actions)
def test_whatever_is_set_lost_copied_and_reordered_all_servers_end_with_the_newest(
    doings: list[Action],
) -> None:
    pump = line(period=5.0)
    greatest: dict[str, Item] = {}
    seen: dict[tuple[str, str], Item] = {}

    def look() -> None:
        for node, registry in pump.registries.items():
            for item in registry.shelf:
                before = seen.get((node, item.key))
                assert before is None or not before.beats(item), "never an older after a newer"
                seen[node, item.key] = item
                if item.beats(greatest.get(item.key)):
                    greatest[item.key] = item

    for number, (what, who, which) in enumerate(doings):
        node = SERVERS[who]
        if what in ("set", "delete"):
            value = f"{number}".encode() if what == "set" else None
            request = Set(f"k{which % 3}", value)
            pump.do(node, pump.engines[node].call(pump.now + which, Registry.name, number, request))
        elif what == "tick":
            pump.now += which * 100_000_000
            for key in [key for key, at in pump.wakes.items() if at <= pump.now]:
                del pump.wakes[key]
                pump.do(key[0], pump.engines[key[0]].wake(pump.now, key[1], key[2]))
        elif pump.queue:
            frame = pump.queue[which % len(pump.queue)]
            if what == "copy":
                pump.queue.append(frame)
                continue
            del pump.queue[which % len(pump.queue)]
            if what == "swap":
                pump.queue.append(frame)
            elif what == "deliver":
                sender, to, data = frame
                pump.do(to, pump.engines[to].receive(pump.now, sender, decode(data)))
        look()
    for _ in range(12):
        pump.passes(5.1)
        look()
    for node in SERVERS:
        assert {item.key: item for item in pump.registries[node].shelf} == greatest


# scope


def test_a_local_item_never_leaves_its_node_and_hides_the_global_one() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"global"))
    pump.carried.clear()
    for node in ("b2", "c"):
        ask(pump, node, Set("k", b"local", "local"))
        assert ask(pump, node, Get("k")).value == b"local"
    pump.passes(0.1)
    assert pump.carried == []
    assert ask(pump, "b3", Get("k")).value == b"global"
    ask(pump, "c", Set("k", None, "local"))
    assert ask(pump, "c", Get("k")).value == b"global"


def test_the_directory_s_keys_are_not_for_applications() -> None:
    pump = line()
    for value in (b"v", None):
        with pytest.raises(BadName, match="directory"):
            ask(pump, "c", Set("channel/news", value))


# what is stored


def test_servers_store_global_items_and_every_node_its_own_and_clients_no_others() -> None:
    pump = line()
    ask(pump, "c", Set("k", b"v"))
    ask(pump, "c", Set("mine", b"v", "local"))
    assert {node: sorted(pump.stored[node]) for node in ("b1", "s", "c", "d")} == {
        "b1": ["gossamer.registry/global/k"],
        "s": ["gossamer.registry/global/k"],
        "c": ["gossamer.registry/local/mine"],
        "d": [],
    }


def test_what_was_stored_is_there_in_the_next_life() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"v"))
    ask(pump, "b1", Set("gone", None))
    ask(pump, "b1", Set("mine", b"m", "local"))
    pump.stored["b1"]["gossamer.registry/global/broken"] = b"\xc1"
    pump.stored["b1"]["another service/global/k"] = b"x"
    pump.add("b1", incarnation=2)
    assert ask(pump, "b1", Get("k")).value == b"v"
    assert ask(pump, "b1", Get("mine")).value == b"m"
    assert pump.registries["b1"].shelf.get("gone") == Item("gone", 1000, "b1", None)
    assert pump.registries["b1"].unreadable == 1


def test_a_value_is_stored_before_anybody_is_told_that_it_is_kept() -> None:
    ctx = FakeContext("b", below=("c",), channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry.put(ctx, Put("c", 1, Item("k", 1, "c", b"v")), "c")
    registry.on_call(ctx, 1, Set("other", b"v"))
    kinds = [type(effect).__name__ for effect in ctx.effects if type(effect).__name__ != "Wake"]
    assert kinds == ["Store", "Send", "Store", "Reply"]


# watches


def told(pump: Pump, node: str, call: int) -> list[tuple[str, bytes | None]]:
    return [(item.key, item.value) for items in pump.told.get((node, call), ()) for item in items]


def follow(pump: Pump, node: str, prefix: str, call: int = 7) -> None:
    pump.call(node, call, Follow(prefix), Registry.name)
    pump.settle()


@pytest.mark.parametrize("node", ["b1", "s", "c"])
def test_a_watch_is_told_what_is_there_and_then_what_changes(node: str) -> None:
    pump = line()
    ask(pump, "b3", Set("a/1", b"x"))
    ask(pump, "b3", Set("b/1", b"x"))
    ask(pump, "b3", Set("a/0", None))
    follow(pump, node, "a/")
    pump.now += 1
    ask(pump, "b1", Set("a/2", b"y"))
    pump.now += 1
    ask(pump, "b2", Set("a/1", None))
    assert told(pump, node, 7) == [("a/1", b"x"), ("a/2", b"y"), ("a/1", None)]


@pytest.mark.parametrize("node", ["b1", "c"])
def test_a_watch_of_nothing_is_told_so_and_one_that_ends_is_told_no_more(node: str) -> None:
    pump = line()
    follow(pump, node, "a/")
    assert pump.told[node, 7] == [()]
    ask(pump, node, Unfollow(7))
    ask(pump, "b1", Set("a/1", b"x"))
    assert pump.told[node, 7] == [()]
    assert (node, 7) in pump.replies, "the last reply"
    assert len(pump.registries["s"]._watchers) == 0


@pytest.mark.parametrize("kind", [Watch, Told, Heard])
@pytest.mark.parametrize("times", [1, 4])
def test_lost_words_about_a_watch_are_said_again(kind: type, times: int) -> None:
    pump = line()
    left = [times]

    def loses(frame: Frame) -> bool:
        if isinstance(message(frame), kind) and left[0]:
            left[0] -= 1
            return True
        return False

    pump.loses = loses
    follow(pump, "c", "a/")
    pump.passes(3)
    for value in (b"1", b"2", b"3"):
        ask(pump, "b1", Set("a/k", value), 1)
    pump.passes(3)
    heard = told(pump, "c", 7)
    assert heard[-1] == ("a/k", b"3")
    assert heard == sorted(set(heard)), "nothing twice and nothing older after newer"
    assert left == [0]


def test_a_watch_goes_on_after_its_client_has_moved_and_nothing_is_told_twice() -> None:
    pump = line()
    ask(pump, "b1", Set("a/1", b"x"))
    ask(pump, "b1", Set("a/2", b"x"))
    follow(pump, "c", "a/")
    pump.passes(1)
    pump.unlink("c", "s")
    pump.do("s", pump.engines["s"].set(pump.now, BELOW, ()))
    pump.do("c", pump.engines["c"].set(pump.now, SERVER, None))
    pump.now += 1
    ask(pump, "b1", Set("a/1", b"changed meanwhile"))
    ask(pump, "b1", Set("a/2", None))
    pump.hang("c", "b1")
    pump.settle()
    ask(pump, "b3", Set("a/3", b"new"))
    assert told(pump, "c", 7)[2:] == [("a/1", b"changed meanwhile"), ("a/2", None), ("a/3", b"new")]
    assert len(pump.registries["s"]._watchers) == 0


def test_a_watch_is_told_all_of_a_long_list_in_order() -> None:
    pump = line()
    names = [f"a/{number:04}" for number in range(3 * ITEMS_AT_ONCE + 1)]
    for name in names:
        ask(pump, "s", Set(name, b"x"))
    follow(pump, "c", "a/")
    pump.settle()
    assert [key for key, _ in told(pump, "c", 7)] == names


def test_a_server_forgets_a_watch_that_is_not_refreshed() -> None:
    pump = line()
    follow(pump, "c", "a/")
    pump.passes(2 * EXPIRY)
    assert len(pump.registries["s"]._watchers) == 1, "refreshed every so often"
    assert len(carried(pump, Watch)) >= 2 * EXPIRY / REFRESH
    pump.loses = lambda frame: frame[0] == "c"
    pump.passes(EXPIRY)
    ask(pump, "b1", Set("a/1", b"x"), 1)
    assert len(pump.registries["s"]._watchers) == 0


def test_who_is_told_of_a_watch_that_it_does_not_have_says_so() -> None:
    ctx = FakeContext("c", server="b", role=Role.CLIENT, channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry.told(ctx, Told(9, 1, ()), "b")
    assert ctx.sent() == [("b", Unwatch(9))]


# lists


@pytest.mark.parametrize("node", ["b2", "s", "c"])
def test_a_list_goes_on_where_the_last_one_ended(node: str) -> None:
    pump = line()
    names = [f"a/{number:03}" for number in range(2 * ITEMS_AT_ONCE + 3)]
    for name in (*reversed(names), "b/1"):
        ask(pump, "b1", Set(name, b"x"))
    found: list[str] = []
    while page := ask(pump, node, List("a/", found[-1] if found else "")):
        assert len(page) <= ITEMS_AT_ONCE
        found += [item.key for item in page]
    assert found == names


# limits


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Set("", b""), BadName),
        (Set("a b", b""), BadName),
        (Set("k" * 201, b""), BadName),
        (Set("\ud800", b""), BadName),
        (Get("a\n"), BadName),
        (List("a b"), BadName),
        (Follow("a b"), BadName),
        (Set("k", "text"), BadName),  # type: ignore[arg-type]
        (Set("k", b"x" * (MAX_VALUE + 1)), TooLarge),
    ],
)
@pytest.mark.parametrize("node", ["b1", "c"])
def test_what_breaks_a_limit_is_refused_before_anything_is_sent(
    node: str, request_: Any, error: type
) -> None:
    pump = line()
    with pytest.raises(error):
        ask(pump, node, request_)
    assert pump.carried == []


def test_the_largest_item_fits_a_control_frame_and_the_burst() -> None:
    wide = "𝄞"
    item = Item(wide * 208, LATEST, "w" * 64, b"x" * MAX_VALUE)
    frame = encode(Control(2**63 - 1, Feed((item,))))
    assert len(frame) <= item.size + 64 <= LARGEST <= RegistrySettings().burst
    assert len(frame) <= MAX_CONTROL


def test_a_full_server_refuses_new_keys_and_takes_changes_and_deletions() -> None:
    pump = line(items=3)
    for number in range(3):
        ask(pump, "b1", Set(f"k{number}", b"v"))
    with pytest.raises(Full):
        ask(pump, "b1", Set("k9", b"v"))
    with pytest.raises(Refused, match="full"):
        ask(pump, "d", Set("k9", b"v"))
    ask(pump, "b1", Set("k0", b"w"))
    ask(pump, "b1", Set("k1", None))
    ask(pump, "b1", Set("k9", b"v"))
    assert [item.key for item in pump.registries["b1"].shelf] == ["k0", "k2", "k9"]
    assert sorted(pump.stored["b1"]) == [f"gossamer.registry/global/{key}" for key in ("k0", "k2", "k9")]


def test_a_client_forgets_what_it_used_least_recently() -> None:
    pump = line(cache_items=3)
    for number in range(5):
        ask(pump, "b3", Set(f"k{number}", b"v"))
    for number in (0, 1, 2, 0, 3):
        ask(pump, "c", Get(f"k{number}"))
    assert [item.key for item in pump.registries["c"].shelf] == ["k0", "k2", "k3"]


def test_only_so_many_questions_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_OPEN", 3)
    ctx = FakeContext("b", neighbours=("a", "c"), channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry._linked.update("ac")
    registry._group(ctx)
    for number in range(5):
        registry.query(ctx, Query("x", number, "k"), "a")
    assert len(registry.questions.open) == 3
    assert [each.number for to, each in ctx.sent() if isinstance(each, Answer)] == [3, 4]
    registry.on_call(ctx, 1, Get("k"))
    assert isinstance(ctx.replies()[0].error, Refused)
    for number in range(3):
        registry.answer(ctx, Answer("x", number, None), "c")
    for number in range(10, 20):
        registry.query(ctx, Query("x", number, "k"), "a")
        registry.answer(ctx, Answer("x", number, None), "c")
    assert len(registry.questions._nothing) <= 3


def test_only_so_many_watches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_WATCHES", 2)
    pump = line()
    pump.add("e", role=Role.CLIENT)
    pump.hang("e", "s")
    for call in (1, 2):
        follow(pump, "c", "a/", call)
    follow(pump, "e", "a/", 3)
    assert isinstance(pump.replies["e", 3].error, Refused)
    with pytest.raises(Full):
        ask(pump, "c", Follow("a/"))


@pytest.mark.parametrize(
    "asked",
    [lambda: Query("x", 1, "k"), lambda: Put("x", 1, Item("k", 1, "x", b"")), lambda: Browse("x", 1, "", "")],
)
def test_a_stranger_s_question_leaves_nothing_behind_for_ever(asked: Callable[[], Any]) -> None:
    pump = line(patience=3.0)
    pump.loses = lambda frame: frame[0] == "b2"
    pump.do("b1", pump.engines["b1"].receive(pump.now, "z", Control(channel_id(Registry.name), asked())))
    pump.passes(10)
    assert pump.registries["b1"].questions.open == {}


def test_members_that_are_no_links_change_nothing_and_a_tree_that_goes_is_survived() -> None:
    pump = line()
    ask(pump, "b1", Set("k", b"v"))
    for tree in (None, Tree()):
        pump.do("b2", pump.engines["b2"].set(pump.now, TREE, tree))
        assert ask(pump, "b2", Get("k")).value == b"v"
        with pytest.raises(UnknownKey):
            ask(pump, "b2", Get("other"))


def test_stores_are_asked_for_by_servers_only() -> None:
    ctx = FakeContext("c", server="b", role=Role.CLIENT, channel=Registry.name)
    registry = Registry()
    registry.on_open(ctx)
    registry.feed(ctx, Feed((Item("k", 1, "x", b"v"),)), "b")
    assert not any(isinstance(effect, Store) for effect in ctx.effects)
