"""A channel as it runs on one node: its template, what the template sees, and its open parcel."""

from __future__ import annotations

from typing import Any

from gossamer.core.context import Context
from gossamer.core.sealer import Sealer
from gossamer.core.template import Template


class Instance:
    """One channel at one node; ``matching`` is what was last said about listeners."""

    __slots__ = ("context", "matching", "sealer", "template")

    def __init__(self, context: Context, template: Template[Any], sealer: Sealer) -> None:
        self.context = context
        self.template = template
        self.sealer = sealer
        self.matching = False

    def at(self, now: int) -> Context:
        """The context, at an instant."""
        self.context.now = now
        return self.context
