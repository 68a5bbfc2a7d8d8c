"""The directory: clone, look up and list, through servers, losses, conflicts and limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gossamer.core.context import TREE
from gossamer.core.control import Control
from gossamer.core.errors import ConfigError, NoAnswer
from gossamer.core.event import Criteria
from gossamer.core.names import MAX_CHANNEL_NAME, Role, channel_id
from gossamer.core.template import Membership, Template
from gossamer.core.tree import Tree
from gossamer.core.wire import MAX_CONTROL, decode, decode_message, encode
from gossamer.overlay.directory import service as module
from gossamer.overlay.directory.service import (
    ENTRIES_AT_ONCE,
    MAX_QUESTIONS,
    MAX_SETTING,
    MAX_SETTINGS,
    PATIENCE,
    Answered,
    Asked,
    Clone,
    Directory,
    Entry,
    Learn,
    Listing,
    Lookup,
    WhatIs,
    entry_of,
    item_of,
)
from gossamer.overlay.registry.replication import Feed
from gossamer.overlay.registry.service import Registry
from gossamer.templates.loop import Loop
from gossamer.templates.multicast import Multicast
from gossamer.testing.fake import FakeContext, parcel
from tests.overlay.pump import Frame, Pump

TEMPLATES: dict[str, type[Template[Any]]] = {"loop": Loop, "multicast": Multicast}
NEWS = Entry("news", "multicast", {"window": 9})


@pytest.fixture
def line() -> Pump:
    """Three servers in a line, a secondary below the last, a client below that."""
    pump = Pump(TEMPLATES)
    pump.add("b1", "b2", "b3")
    pump.add("s", role=Role.SECONDARY)
    pump.add("c", role=Role.CLIENT)
    pump.backbone(("b1", "b2"), ("b2", "b3"))
    pump.hang("s", "b3")
    pump.hang("c", "s")
    pump.settle()
    return pump


def message(frame: Frame) -> Any:
    """The directory's or the registry's message in a frame; None if it is of another channel."""
    item = decode(frame[2])
    for service in (Directory, Registry):
        if isinstance(item, Control) and item.channel == channel_id(service.name):
            return decode_message(item, service.decoder())
    return None


def carried(pump: Pump, kind: type) -> list[tuple[str, str]]:
    return [(a, b) for a, b, data in pump.carried if isinstance(message((a, b, data)), kind)]


# clone, look up, list


def test_a_clone_is_known_at_every_server_after_one_message_per_edge(line: Pump) -> None:
    answer = line.ask("b1", 1, Clone(NEWS))
    (entry,) = answer.entries
    assert (entry.name, entry.template, entry.settings) == ("news", "multicast", {"window": 9})
    assert (entry.created, entry.creator) == (line.now, "b1")
    assert carried(line, Feed)[-3:] == [("b1", "b2"), ("b2", "b3"), ("b3", "s")]
    assert all(line.directories[each].entries == {"news": entry} for each in ("b1", "b2", "b3"))
    assert line.ask("b3", 2, Lookup("news")).entries == (entry,)


def test_a_clone_of_a_name_that_is_taken_gives_what_is_there(line: Pump) -> None:
    first = line.ask("b1", 1, Clone(NEWS))
    again = line.ask("b3", 1, Clone(Entry("news", "loop")))
    assert again.entries == first.entries
    assert again.refusal == ""


def test_a_client_clones_and_looks_up_through_its_servers(line: Pump) -> None:
    answer = line.ask("c", 7, Clone(NEWS))
    assert answer.call == 7
    assert answer.entries[0].creator == "b3", "the server at the top is where it was made"
    assert line.directories["b1"].entries["news"] == answer.entries[0]
    assert carried(line, Asked) == [("c", "s"), ("s", "b3")]
    assert carried(line, Answered) == [("b3", "s"), ("s", "c")]


def test_a_second_lookup_below_a_server_asks_nobody(line: Pump) -> None:
    line.ask("b1", 1, Clone(NEWS))
    line.ask("c", 1, Lookup("news"))
    line.carried.clear()
    assert line.ask("c", 2, Lookup("news")).entries[0].name == "news"
    assert line.carried == []


def test_a_name_that_is_not_there_gives_close_ones(line: Pump) -> None:
    for number, name in enumerate(("news", "newt", "sport")):
        line.ask("b1", number, Clone(Entry(name, "loop")))
    answer = line.ask("c", 9, Lookup("newz"))
    assert answer.entries == ()
    assert set(answer.close) == {"news", "newt"}


def test_a_listing_goes_on_where_the_last_one_ended(line: Pump) -> None:
    names = [f"n{n:03}" for n in range(ENTRIES_AT_ONCE * 2 + 3)]
    for number, name in enumerate(reversed(names)):
        line.ask("b2", number, Clone(Entry(name, "loop")))
    found: list[str] = []
    for call in range(3):
        answer = line.ask("c", call, Listing(found[-1] if found else ""))
        assert len(answer.entries) <= ENTRIES_AT_ONCE
        found += [entry.name for entry in answer.entries]
    assert found == names
    assert line.ask("c", 9, Listing(found[-1])).entries == ()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Entry("news", "multicats"), "did you mean 'multicast'"),
        (Entry("news", "multicast", {"window": 0}), "window"),
        (Entry("news", "multicast", {"windw": 3}), "windw"),
        (Entry("bad name", "loop"), "not a valid channel name"),
        (Entry("gossamer.x", "loop"), "belong to node services"),
        (Entry("x" * (MAX_CHANNEL_NAME + 1), "loop"), "limit"),
        (Entry("news", "loop", {"k": "x" * (MAX_SETTING + 1)}), "limit"),
        (Entry("news", "loop", {str(n): n for n in range(MAX_SETTINGS + 1)}), "limit"),
        (Entry("news", "loop", {"k": [1]}), "limit"),  # type: ignore[dict-item]
        (Entry("news", "loop", {"k": 2**70}), "limit"),
        (Entry("a\ud800", "loop"), "limit"),
    ],
)
@pytest.mark.parametrize("node", ["b1", "c"])
def test_a_clone_that_could_not_work_is_refused_in_words(
    line: Pump, node: str, entry: Entry, words: str
) -> None:
    answer = line.ask(node, 1, Clone(entry))
    assert words in answer.refusal
    assert answer.entries == ()
    assert not any(each.entries for each in line.directories.values())
    assert line.refused == []


def test_a_refusal_is_cut_to_what_a_message_may_hold(line: Pump) -> None:
    many = {f"template-{n:04}": Loop for n in range(200)}
    pump = Pump(many)
    pump.add("b", "c")
    pump.backbone()
    pump.hang("c", "b")
    answer = pump.ask("c", 1, Clone(Entry("news", "zzz")))
    assert answer.refusal
    assert pump.refused == []


# entries spread


def test_a_server_that_is_linked_later_learns_everything_there_is(line: Pump) -> None:
    for number in range(ENTRIES_AT_ONCE + 1):
        line.ask("b1", number, Clone(Entry(f"n{number}", "loop")))
    line.add("b4")
    line.backbone(("b1", "b2"), ("b2", "b3"), ("b3", "b4"))
    line.settle()
    assert line.directories["b4"].entries == line.directories["b1"].entries


def test_a_server_that_is_linked_first_and_then_joins_the_tree_learns_too(line: Pump) -> None:
    line.ask("b1", 1, Clone(NEWS))
    line.add("b4")
    line.link("b3", "b4")
    line.settle()
    assert line.directories["b4"].entries == {}
    tree = Tree([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
    for node in ("b3", "b4"):
        line.do(node, line.engines[node].set(line.now, TREE, tree))
    line.settle()
    assert "news" in line.directories["b4"].entries


def test_after_a_link_was_down_both_sides_know_all(line: Pump) -> None:
    line.unlink("b1", "b2")
    line.ask("b1", 1, Clone(Entry("left", "loop")))
    line.ask("b3", 1, Clone(Entry("right", "loop")))
    assert "left" not in line.directories["b3"].entries
    line.link("b1", "b2")
    line.settle()
    assert all(set(line.directories[each].entries) == {"left", "right"} for each in ("b1", "b2", "b3"))


@pytest.mark.parametrize("first", ["b1", "b3"])
def test_two_clones_of_one_name_at_once_end_the_same_everywhere(line: Pump, first: str) -> None:
    other = {"b1": "b3", "b3": "b1"}[first]
    line.call(first, 1, Clone(Entry("news", "loop")))
    line.now += 1
    line.call(other, 1, Clone(Entry("news", "multicast")))
    line.settle()
    kept = [line.directories[each].entries["news"] for each in ("b1", "b2", "b3")]
    assert kept[0] == kept[1] == kept[2]
    assert (kept[0].creator, kept[0].template) == (first, "loop")


def test_two_clones_at_the_same_instant_are_settled_by_name(line: Pump) -> None:
    line.call("b3", 1, Clone(Entry("news", "loop")))
    line.call("b1", 1, Clone(Entry("news", "multicast")))
    line.settle()
    assert [line.directories[each].entries["news"].creator for each in ("b1", "b2", "b3")] == ["b3"] * 3


def test_news_is_passed_on_once_and_old_news_not_at_all(line: Pump) -> None:
    line.ask("b1", 1, Clone(NEWS))
    line.carried.clear()
    known = line.directories["b1"].entries["news"]
    learn = Control(channel_id(Directory.name), Learn((known,)))
    line.do("b2", line.engines["b2"].receive(line.now, "b1", learn))
    line.settle()
    assert line.carried == []


def test_a_clone_of_a_name_that_only_a_far_server_knows_gives_what_is_there(line: Pump) -> None:
    line.loses = lambda frame: isinstance(message(frame), Feed)
    first = line.ask("b1", 1, Clone(NEWS))
    again = line.ask("b3", 1, Clone(Entry("news", "loop")))
    assert again.entries == first.entries


def test_a_lookup_finds_what_only_a_far_server_knows(line: Pump) -> None:
    line.loses = lambda frame: isinstance(message(frame), Feed)
    made = line.ask("b1", 1, Clone(NEWS))
    assert line.ask("c", 1, Lookup("news")).entries == made.entries
    assert all("news" in line.directories[each].entries for each in ("b2", "b3", "s", "c"))


def test_a_server_that_does_not_answer_delays_a_clone_and_does_not_prevent_it(line: Pump) -> None:
    line.loses = lambda frame: frame[1] == "b1"
    assert line.ask("b2", 1, Clone(NEWS)) is None
    line.passes(module.CLAIM_PATIENCE + 1)
    assert line.replies["b2", 1].value.entries[0].name == "news"


def test_channels_are_known_after_a_restart_of_all_servers(line: Pump) -> None:
    made = line.ask("b1", 1, Clone(NEWS)).entries
    pump = Pump(TEMPLATES)
    pump.stored = line.stored
    pump.add("b1")
    assert pump.ask("b1", 1, Lookup("news")).entries == made


def test_an_item_that_holds_no_entry_of_its_name_is_no_channel() -> None:
    item = item_of(NEWS)
    assert entry_of(item) == NEWS
    for wrong in ({"value": b""}, {"value": None}, {"key": "channel/other"}, {"counter": 5}, {"writer": "x"}):
        assert entry_of(msgspec.structs.replace(item, **wrong)) is None


# losses


def losing(kind: type, times: int) -> Any:
    left = [times]

    def loses(frame: Frame) -> bool:
        if isinstance(message(frame), kind) and left[0]:
            left[0] -= 1
            return True
        return False

    return loses


@pytest.mark.parametrize("kind", [Asked, Answered])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_lost_question_or_answer_is_asked_again(line: Pump, kind: type, times: int) -> None:
    line.loses = losing(kind, times)
    assert line.ask("c", 1, Clone(NEWS)) is None
    line.passes(10)
    assert line.replies["c", 1].value.entries[0].name == "news"
    assert line.wakes == {} or all(key[1] != channel_id(Directory.name) for key in line.wakes)


def test_a_question_nobody_answers_ends_with_an_error_and_is_forgotten(line: Pump) -> None:
    line.loses = lambda frame: True
    line.call("c", 1, Lookup("news"))
    line.passes(PATIENCE - 1)
    assert ("c", 1) not in line.replies
    line.passes(2)
    reply = line.replies["c", 1]
    assert isinstance(reply.error, NoAnswer)
    assert line.wakes == {}
    assert line.directories["c"]._pending == {}


def test_repetitions_do_not_multiply_on_their_way_up(line: Pump) -> None:
    line.loses = lambda frame: frame[:2] == ("s", "b3")
    line.call("c", 1, Lookup("news"))
    line.passes(5.2)
    asked = carried(line, Asked)
    assert asked.count(("c", "s")) == 11
    assert asked.count(("s", "b3")) == 11


def test_new_questions_do_not_starve_the_repetition_of_a_lost_one(line: Pump) -> None:
    line.loses = losing(Asked, 1)
    line.ask("c", 1, Lookup("lost"))
    for call in range(2, 12):
        line.ask("c", call, Lookup(f"n{call}"))
        line.passes(0.1)
    assert ("c", 1) in line.replies


def test_a_late_answer_to_an_earlier_life_answers_nothing(line: Pump) -> None:
    line.ask("b3", 1, Clone(Entry("old", "loop")))
    line.call("c", 1, Lookup("old"))
    late = []
    while line.queue:
        frame = line.queue.popleft()
        if frame[1] == "c":
            late.append(frame)
        else:
            line.do(frame[1], line.engines[frame[1]].receive(line.now, frame[0], decode(frame[2])))
    line.now += 1_000_000
    line.add("c", incarnation=2)
    line.do("c", line.engines["c"].set(line.now, "server", "b3/s"))
    line.call("c", 1, Lookup("young"))
    line.queue.extendleft(late)
    line.settle()
    answer = line.replies["c", 1].value
    assert [entry.name for entry in answer.entries] == []


def test_a_client_that_asks_anew_under_an_old_number_is_heard(line: Pump) -> None:
    ctx = FakeContext("s", server="b3", below=("c",), channel=Directory.name)
    service = Directory(TEMPLATES, Registry())
    service.asked(ctx, Asked(1, Lookup("one")), "c")
    service.asked(ctx, Asked(1, Lookup("one")), "c")
    service.asked(ctx, Asked(1, Lookup("two")), "c")
    assert [item.question for _, item in ctx.sent()] == [Lookup("one"), Lookup("two")]  # type: ignore[union-attr]


# channels that turn up


def test_a_node_that_meets_an_unknown_channel_asks_the_sender_and_then_runs_it(line: Pump) -> None:
    line.unlink("b1", "b2")
    entry = line.ask("b1", 1, Clone(NEWS)).entries[0]
    line.do("b1", line.engines["b1"].run(line.now, entry))
    line.links.add(frozenset(("b1", "b2")))
    line.do("b2", line.engines["b2"].receive(line.now, "b1", parcel("b1")))
    line.settle()
    assert carried(line, WhatIs) == [("b2", "b1")]
    assert line.engines["b2"].channels == ("news",)


def test_a_channel_that_is_in_the_directory_runs_as_soon_as_something_comes(line: Pump) -> None:
    line.ask("b1", 1, Clone(NEWS))
    line.do("b3", line.engines["b3"].receive(line.now, "b2", parcel("b1")))
    assert line.engines["b3"].channels == ("news",)
    assert carried(line, WhatIs) == []


def test_a_lost_question_about_an_unknown_channel_is_asked_again_when_more_comes(line: Pump) -> None:
    entry = msgspec.structs.replace(NEWS, created=5, creator="b1")
    line.directories["b1"]._index(item_of(entry))
    line.loses = losing(WhatIs, 1)
    for sequence in (1, 2, 3):
        line.do("b2", line.engines["b2"].receive(line.now, "b1", parcel("b1", sequence)))
        line.passes(0.4)
    assert carried(line, WhatIs) == [("b2", "b1"), ("b2", "b1")]
    assert line.engines["b2"].channels == ("news",)


def test_what_was_held_is_replayed_when_the_answer_comes_to_a_lookup(line: Pump) -> None:
    line.ask("b1", 1, Clone(NEWS))
    line.loses = losing(WhatIs, 99)
    line.do("c", line.engines["c"].receive(line.now, "s", parcel("b1")))
    line.settle()
    assert line.engines["c"].channels == ()
    line.ask("c", 1, Lookup("news"))
    assert line.engines["c"].channels == ("news",)


def test_an_entry_that_cannot_run_here_breaks_nothing(line: Pump) -> None:
    channel = channel_id(Directory.name)
    for number, entry in enumerate(
        (
            Entry("strange", "not-installed", {}, 1, "b1"),
            Entry("unfit", "multicast", {"window": -1}, 1, "b1"),
        )
    ):
        line.do("b2", line.engines["b2"].receive(line.now, "b1", parcel("b1", channel=entry.name)))
        line.do("b2", line.engines["b2"].receive(line.now + number, "b1", Control(channel, Learn((entry,)))))
    line.settle()
    assert line.engines["b2"].channels == ()
    assert set(line.directories["b3"].entries) == {"strange", "unfit"}, "others may be able to"


def test_a_broken_plug_in_breaks_only_its_own_channels() -> None:
    class Broken(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise ConfigError("cannot be imported", key=name)

        def get(self, name: str, default: Any = None) -> Any:
            return self[name]

    pump = Pump(Broken(bad=None))
    pump.add("a", "b")
    pump.backbone(("a", "b"))
    assert "cannot be imported" in pump.ask("a", 1, Clone(Entry("news", "bad"))).refusal
    pump.do("a", pump.engines["a"].receive(1, "b", parcel("b")))
    learn = Control(channel_id(Directory.name), Learn((Entry("news", "bad", {}, 1, "b"),)))
    pump.do("a", pump.engines["a"].receive(1, "b", learn))
    assert pump.engines["a"].channels == ()


# bounds


def test_the_directory_holds_only_so_many_entries(line: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    for number in range(3):
        assert not line.ask("b1", number, Clone(Entry(f"n{number}", "loop"))).refusal
    assert "limit of 3" in line.ask("b1", 9, Clone(Entry("n9", "loop"))).refusal
    full = Control(channel_id(Directory.name), Learn((Entry("n8", "loop", {}, 1, "x"),)))
    line.do("b2", line.engines["b2"].receive(line.now, "b1", full))
    assert len(line.directories["b2"].entries) == 3


def test_only_so_many_questions_are_open_at_once() -> None:
    ctx = FakeContext("c", server="b3/s", channel=Directory.name)
    service = Directory(TEMPLATES, Registry())
    for call in range(MAX_QUESTIONS):
        service.on_call(ctx, call, Lookup("x"))
    assert ctx.replies() == []
    service.on_call(ctx, MAX_QUESTIONS, Lookup("x"))
    (reply,) = ctx.replies()
    assert "open questions" in reply.value.refusal


def test_only_so_many_unknown_channels_are_wondered_about() -> None:
    ctx = FakeContext("b", neighbours="a", channel=Directory.name)
    service = Directory(TEMPLATES, Registry())
    for channel in range(MAX_QUESTIONS + 5):
        service.on_unknown(ctx, channel, "a")
    assert len(service._wondering) <= MAX_QUESTIONS


def test_even_the_longest_entries_fit_a_control_frame() -> None:
    wide = "𝄞"
    longest = Entry(
        wide * MAX_CHANNEL_NAME,
        wide * 64,
        {f"{n:02}" + wide * 62: wide * MAX_SETTING for n in range(MAX_SETTINGS)},
        2**63 - 1,
        wide * 64,
    )
    for full in (Learn((longest,) * ENTRIES_AT_ONCE), Answered(2**63 - 1, (longest,) * ENTRIES_AT_ONCE)):
        frame = encode(Control(2**63 - 1, full))
        assert len(frame) <= MAX_CONTROL
        assert message(("a", "b", encode(Control(channel_id(Directory.name), full)))) == full


def test_a_question_whose_answer_nobody_awaits_is_ignored() -> None:
    ctx = FakeContext("c", server="b3/s", channel=Directory.name)
    service = Directory(TEMPLATES, Registry())
    service.answered(ctx, Answered(5, (NEWS,)), "s")
    assert ctx.effects == []
    assert service.entries == {}


def test_members_that_are_no_links_change_nothing() -> None:
    ctx = FakeContext("b", neighbours="a", channel=Directory.name)
    service = Directory(TEMPLATES, Registry())
    service.on_membership(ctx, Membership("subscribed", "1"))
    service.on_membership(ctx, Membership("up", "stranger"))
    assert ctx.effects == []


def test_an_entry_says_what_it_is_made_of() -> None:
    assert NEWS.made_of == "multicast(window=9)"
    assert Entry("x", "loop").made_of == "loop"
    assert NEWS.same(Entry("other", "multicast", {"window": 9}))
    assert not NEWS.same(Entry("news", "multicast"))


def test_a_found_channel_carries_events_from_client_to_server(line: Pump) -> None:
    entry = line.ask("c", 1, Clone(NEWS)).entries[0]
    for node in ("c", "b1"):
        line.do(node, line.engines[node].run(line.now, entry))
    subscription, effects = line.engines["b1"].subscribe(line.now, "news", Criteria())
    line.do("b1", effects)
    line.passes(2)
    assert line.engines["c"].has_subscribers("news")
    line.engines["c"].publish("news", b"hello")
    line.do("c", line.engines["c"].seal(line.now, "news"))
    delivered = []
    while line.queue:
        sender, to, data = line.queue.popleft()
        effects = line.engines[to].receive(line.now, sender, decode(data))
        delivered += [(to, each.parcel.payloads) for each in effects if hasattr(each, "picks")]
        line.do(to, effects)
    assert delivered == [("b1", [b"hello"])]
    assert subscription == 1


def test_a_name_that_is_not_there_is_compared_with_so_many_names_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []

    def matches(word: str, names: Iterable[str], n: int) -> list[str]:
        compared.append(len(list(names)))
        return []

    monkeypatch.setattr("gossamer.overlay.directory.service.get_close_matches", matches)
    pump = Pump(TEMPLATES)
    pump.add("b")
    pump.backbone()
    pump.directories["b"].entries.update((f"news-{each:05}", Entry("x", "loop")) for each in range(5000))
    pump.ask("b", 1, Lookup("news-xxxxx"))
    pump.ask("b", 2, Lookup("x"))
    assert compared == [200, 0]
