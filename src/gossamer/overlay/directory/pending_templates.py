"""Templates that channels of this node wait for.

The directory finds that a channel is made of a template that is not here, and cannot get it: that needs a
registry, keys and an importer. It says so to whoever said that it can (the host, with ``Wants``), keeps what
waits, and goes on when it hears how that ended (``Got``). Where nobody can, an unknown template stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import msgspec

from gossamer.core.context import Context
from gossamer.core.names import nanoseconds

TEMPLATES = "template/"
"""Registry keys below this hold the labels of template packages, by the name of the template."""
TEMPLATE_FILES = "template-file/"
"""Registry keys below this hold the files of packages in pieces, by their SHA-256 and number."""
MAX_WANTED = 64
"""Templates that are waited for at once, and those remembered as not to be had."""
MAX_WAITING = 1000
"""Channels and questions that wait for one template."""
PAUSE = 5.0
"""Seconds for which a template that could not be had is not asked for again because a frame came."""

Then = Callable[[str], None]
"""Takes the reason why a template is not to be had; empty if it is here."""


class Wants(msgspec.Struct, frozen=True):
    """I can get templates: reply with the name of each that is missing, and of each that has changed."""


class Got(msgspec.Struct, frozen=True):
    """A template is here now; or it is not to be had, and why."""

    template: str
    refusal: str = ""


class Wanted:
    """What waits for which template, in bounded memory."""

    def __init__(self) -> None:
        self._getter: int | None = None
        """The call of whoever can get templates."""
        self._waiting: dict[str, dict[Hashable, Then]] = {}
        self._failed: dict[str, int] = {}

    def serve(self, call: int) -> None:
        """Somebody can get templates."""
        self._getter = call

    def want(self, ctx: Context, template: str, who: Hashable, then: Then, patient: bool = False) -> bool:
        """Have ``then`` called once a template is here or not to be had; False if nobody tries.

        patient
            Do not try again so soon after it could not be had.
        """
        if self._getter is None:
            return False
        waiting = self._waiting.get(template)
        if waiting is None:
            failed = self._failed.get(template)
            if patient and failed is not None and ctx.now - failed < nanoseconds(PAUSE):
                return False
            if len(self._waiting) >= MAX_WANTED:
                return False
            waiting = self._waiting[template] = {}
            ctx.reply(self._getter, template, more=True)
        if who not in waiting and len(waiting) >= MAX_WAITING:
            return False
        waiting[who] = then
        return True

    def got(self, ctx: Context, got: Got) -> None:
        """Go on with what waited for a template."""
        self._failed.pop(got.template, None)
        if got.refusal:
            if len(self._failed) >= MAX_WANTED:
                del self._failed[next(iter(self._failed))]
            self._failed[got.template] = ctx.now
        for then in self._waiting.pop(got.template, {}).values():
            then(got.refusal)

    def changed(self, ctx: Context, template: str, here: bool) -> None:
        """The registry has another package of a template."""
        self._failed.pop(template, None)
        if here and self._getter is not None:
            ctx.reply(self._getter, template, more=True)
