"""A channel as it runs on one node: its template, what the template sees, and its open parcel."""

from __future__ import annotations

from typing import Any

from gossamer.core.context import Context
from gossamer.core.duplicates import Seen
from gossamer.core.sealer import Sealer
from gossamer.core.template import Template


class Instance:
    """One channel at one node.

    has_subscribers, obstacle
        What was last said about listeners, and about what publishers wait for.
    answers
        Feedback that has reached its target here: a network may repeat it.
    """

    __slots__ = ("answers", "context", "has_subscribers", "obstacle", "sealer", "template")

    def __init__(self, context: Context, template: Template[Any], sealer: Sealer) -> None:
        self.context = context
        self.template = template
        self.sealer = sealer
        sealer.admit = template.admit if template.content_based else None
        self.has_subscribers = False
        self.obstacle: str | None = None
        self.answers = Seen()

    def at(self, now: int) -> Context:
        """The context, at an instant."""
        self.context.now = now
        return self.context
