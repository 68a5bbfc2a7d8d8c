"""The backbone monitoring services of one node, put together: hello and linkstate over one roster."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gossamer.core.template import Settings, Template
from gossamer.overlay.backbone.linkstate import Linkstate
from gossamer.overlay.backbone.members import Roster
from gossamer.overlay.backbone.messages import LinkstateSettings
from gossamer.overlay.backbone.probing import Hello, HelloSettings


class MonitorSettings(Settings, frozen=True):
    """Settings of the monitoring services; a ``[monitor]`` table.

    probe_budget, nearest, pause
        Of hello: bytes per second, how many nodes count as near, seconds of peace.
    budget, interval, trigger, repair, forget
        Of linkstate: bytes per second, and seconds.
    factor
        Of the spanner, at least 1.
    """

    probe_budget: Annotated[float, Meta(gt=0, le=1e9)] = 200.0
    nearest: Annotated[int, Meta(ge=0, le=256)] = 16
    pause: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    budget: Annotated[float, Meta(gt=0, le=1e9)] = 16_000.0
    interval: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    trigger: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    repair: Annotated[float, Meta(gt=0, le=3600)] = 2.0
    factor: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    forget: Annotated[float, Meta(gt=0, le=1e9)] = 3600.0


def monitor(settings: MonitorSettings) -> list[Template[Any]]:
    """The services of one node, new for each of its lives."""
    roster = Roster()
    probing = HelloSettings(budget=settings.probe_budget, nearest=settings.nearest, pause=settings.pause)
    publishing = LinkstateSettings(
        interval=settings.interval,
        budget=settings.budget,
        trigger=settings.trigger,
        repair=settings.repair,
        factor=settings.factor,
        measured=max(1, settings.nearest),
        forget=settings.forget,
    )
    return [Hello(probing, roster), Linkstate(publishing, roster)]
