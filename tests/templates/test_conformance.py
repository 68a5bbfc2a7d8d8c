"""Every installed template passes the conformance suite, at its default settings."""

from __future__ import annotations

from gossamer.catalog import templates
from gossamer.testing.templates import TemplateConformance

ALONE = {"loop"}
"""Templates that work within one node."""


def _suite(name: str) -> type[TemplateConformance]:
    return type(
        f"Test{name.title()}",
        (TemplateConformance,),
        {"template": templates()[name], "alone": name in ALONE},
    )


for _name in templates():
    globals()[f"Test{_name.title()}"] = _suite(_name)
