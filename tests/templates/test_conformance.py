"""Every installed template passes the conformance suite, at its default settings."""

from __future__ import annotations

from gossamer.catalog import templates
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
