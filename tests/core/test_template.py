"""Templates: handlers found by message, settings that name the key, descriptions read from docstrings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Control, Message, handlers_of, on
from gossamer.core.errors import ConfigError, ProtocolError
from gossamer.core.template import NEVER, Membership, Settings, Template
from gossamer.core.wire import decode, decode_message, encode
from gossamer.testing.fake import FakeContext, answer, parcel


class Join(Message, frozen=True):
    """For these tests."""

    depth: int


class Leave(Message, frozen=True):
    """For these tests."""


class GroupSettings(Settings, frozen=True):
    """For these tests."""

    window: Annotated[int, Meta(ge=1, le=10)] = 3
    retry: float = 0.5


class Group(Template[GroupSettings]):
    """A group that notes
    what it is told.

    Promises: nothing
        whatsoever.
    Acknowledged: Never;
        why should it be?
    Costs: a list.
    Needs: patience.

    More about it here.
    """

    name = "group"
    settings_type = GroupSettings

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__(settings)
        self.notes: list[str] = []

    @on(Join)
    def joined(self, ctx: Context, join: Join, sender: str) -> None:
        self.notes.append(f"join {join.depth} {sender}")

    @on(Leave)
    def left(self, ctx: Context, leave: Leave, sender: str) -> None:
        self.notes.append(f"leave {sender}")


class ByMethod(Group):
    """Overrides a handler by its name."""

    name = "by-method"

    def joined(self, ctx: Context, join: Join, sender: str) -> None:
        self.notes.append("overridden")


class ByMessage(Group):
    """Overrides a handler by its message."""

    name = "by-message"

    @on(Join)
    def welcome(self, ctx: Context, join: Join, sender: str) -> None:
        self.notes.append("welcomed")


class Silent(Template[Settings]):
    """Says nothing."""

    name = "silent"


def told(kind: type[Group], message: Message) -> list[str]:
    template = kind(GroupSettings())
    template.dispatch(FakeContext("a"), message, "b")
    return template.notes


def test_a_message_reaches_the_method_marked_for_it() -> None:
    assert handlers_of(Group) == {Join: "joined", Leave: "left"}
    assert told(Group, Join(2)) == ["join 2 b"]
    assert told(Group, Leave()) == ["leave b"]


def test_a_subclass_overrides_by_method_or_by_message_and_keeps_the_rest() -> None:
    assert told(ByMethod, Join(2)) == ["overridden"]
    assert told(ByMessage, Join(2)) == ["welcomed"]
    for kind in (ByMethod, ByMessage):
        assert told(kind, Leave()) == ["leave b"]
    assert told(Group, Join(2)) == ["join 2 b"], "the base is left as it was"


def test_a_message_of_another_template_is_refused_by_name() -> None:
    class Stranger(Message, frozen=True):
        """Known to nobody."""

    with pytest.raises(ProtocolError, match=r"Stranger.*'group'"):
        told(Group, Stranger())


def test_the_vocabulary_of_a_template_is_what_it_handles() -> None:
    item = decode(encode(Control(1, Join(7))))
    assert isinstance(item, Control)
    assert decode_message(item, Group.decoder()) == Join(7)


def test_a_template_without_messages_takes_none() -> None:
    with pytest.raises(ProtocolError, match="'silent' has no control messages"):
        Silent.decoder()


# settings


def test_settings_are_read_from_plain_values() -> None:
    assert Group.parse({}) == GroupSettings()
    assert Group.parse({"window": 5, "retry": 2}) == GroupSettings(5, 2.0)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"window": "x"}, "window"),
        ({"window": 0}, "window"),
        ({"window": 11}, "window"),
        ({"window": 2.5}, "window"),
        ({"retry": None}, "retry"),
        ({"windw": 3}, "windw"),
    ],
)
def test_a_wrong_setting_is_named_with_those_that_there_are(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match="settings of 'group': window, retry") as caught:
        Group.parse(settings)
    assert caught.value.key == key


def test_a_template_without_settings_says_so() -> None:
    with pytest.raises(ConfigError, match="settings of 'silent': none") as caught:
        Silent.parse({"x": 1})
    assert caught.value.key == "x"


# words


def test_a_description_is_read_from_the_docstring() -> None:
    assert Group.described() == {
        "summary": "A group that notes what it is told.",
        "promises": "nothing whatsoever.",
        "acknowledged": "Never; why should it be?",
        "costs": "a list.",
        "needs": "patience.",
    }
    assert Silent.described()["promises"] == ""
    assert Silent.described()["acknowledged"] == NEVER


# what a template does that overrides nothing


def test_a_template_drops_parcels_it_has_no_use_for() -> None:
    ctx = FakeContext("a")
    sent = parcel("b")
    Silent(Settings()).on_parcel(ctx, sent, "b")
    ((dropped, _),) = ctx.dropped()
    assert dropped is sent


def test_what_a_template_does_not_care_about_has_no_effect() -> None:
    ctx, template = FakeContext("a"), Silent(Settings())
    template.on_open(ctx)
    template.on_publish(ctx, parcel("a"))
    template.on_timer(ctx, "x")
    template.on_membership(ctx, Membership("up", "b"))
    template.on_container(ctx, "tree", None)
    template.on_call(ctx, 1, None)
    template.on_unknown(ctx, 1, "b")
    assert ctx.effects == []


def test_an_answer_that_has_arrived_is_delivered_and_sent_nowhere() -> None:
    ctx = FakeContext("a", neighbours="bc")
    reply = answer("c", parcel("b9/a"))
    Silent(Settings()).on_feedback(ctx, reply, "b")
    assert ctx.answered() == [reply]
    assert ctx.sent() == []


@pytest.mark.parametrize("sender", [None, "b", "c"])
def test_an_answer_without_a_way_is_dropped(sender: str | None) -> None:
    ctx = FakeContext("b", neighbours="ac")
    Silent(Settings()).on_feedback(ctx, answer("c", parcel("elsewhere")), sender)
    assert [reason for _, reason in ctx.dropped()] == ["no way to the source"]


def test_an_answer_is_never_sent_back_where_it_came_from() -> None:
    ctx = FakeContext("b", neighbours="ac")
    Silent(Settings()).on_feedback(ctx, answer("c", parcel("a")), "a")
    assert ctx.sent() == []
    assert len(ctx.dropped()) == 1


def test_a_message_is_a_value() -> None:
    with pytest.raises(AttributeError):
        Join(1).depth = 2  # type: ignore[misc]
    assert msgspec.msgpack.encode(Join(1)) == b"\x92\xa4Join\x01"
