"""Bugs planted into ``direct`` and into what it sends, to show that the suites catch them."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.core.template import Membership
from gossamer.templates.direct import Direct
from gossamer.testing.templates import TemplateConformance


def suite() -> TemplateConformance:
    made: Any = type("Suite", (TemplateConformance,), {"template": Direct, "mesh": True, "seeds": (1,)})
    return made()  # type: ignore[no-any-return]


def test_without_a_bug_everybody_gets_everything() -> None:
    suite().test_without_faults_everybody_gets_everything()


def test_a_publisher_that_leaves_out_what_somebody_wants_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Direct._wanted

    def fewer(self: Direct, parcel: Parcel) -> dict[tuple[int, ...], list[str]]:
        return {picks: nodes[1:] for picks, nodes in wanted(self, parcel).items()}

    monkeypatch.setattr(Direct, "_wanted", fewer)
    with pytest.raises(AssertionError, match="deliveries"):
        suite().test_without_faults_everybody_gets_everything()


def test_a_node_that_takes_every_copy_for_a_new_parcel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: Direct, ctx: Context, parcel: Parcel, sender: str) -> None:
        ctx.deliver(parcel, sender)

    monkeypatch.setattr(Direct, "on_parcel", take)
    with pytest.raises(AssertionError, match="violations"):
        suite().test_it_keeps_its_promises_when_items_come_twice()


def test_a_node_that_tells_nobody_what_it_wants_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Direct, ctx: Context, membership: Membership) -> None:
        pass

    monkeypatch.setattr(Direct, "on_membership", silent)
    with pytest.raises(AssertionError, match="deliveries"):
        suite().test_without_faults_everybody_gets_everything()
