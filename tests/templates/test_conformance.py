"""Every installed template passes the conformance suite, at its default settings."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.catalog import templates
from gossamer.core.template import PROGRESS
from gossamer.testing.templates import TemplateConformance

ALONE = {"loop"}
"""Templates that work within one node."""
MESHED = {"direct", "ringtree"}
"""Templates whose nodes talk to any other."""
ONE_SOURCE = {"single-source"}
"""Templates for one source per channel."""
PEERS = {"multiring"}
"""Templates whose nodes send to any other."""
SEATED = {"total-order", "persistent", "multiring"}
"""Templates whose nodes talk a lot: one seed keeps the suite short."""


def _suite(name: str) -> type[TemplateConformance]:
    return type(
        f"Test{name.title()}",
        (TemplateConformance,),
        {
            "template": templates()[name],
            "alone": name in ALONE,
            "mesh": name in MESHED,
            "anybody": name in PEERS,
            "sources": 1 if name in ONE_SOURCE else 4,
            "seeds": (1,) if name in SEATED else (1, 2, 3),
        },
    )


for _name in templates():
    globals()[f"Test{_name.title()}"] = _suite(_name)


@pytest.mark.parametrize("name", sorted(templates()))
def test_a_template_that_promises_progress_states_by_when(name: str) -> None:
    template = templates()[name]
    assert (PROGRESS in template.promises) == (template.recovery(template.parse({})) > 0)


@pytest.mark.parametrize("name", ["persistent", "total-order"])
@pytest.mark.parametrize("setting", [{"seats": 9}, {"heartbeat": 1.0}, {"patience": 8.0}, {"laggard": 90.0}])
def test_an_order_takes_longer_to_recover_with_more_voters_and_slower_ones(
    name: str, setting: dict[str, Any]
) -> None:
    template = templates()[name]
    usual = template.recovery(template.parse({}))
    assert template.recovery(template.parse(setting)) > usual
