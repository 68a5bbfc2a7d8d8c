"""A scenario made smaller and faster, for a look that takes seconds instead of minutes."""

from __future__ import annotations

from math import ceil
from typing import TypeVar

import msgspec

from gossamer.overlay.backbone.setup import MonitorSettings
from gossamer.simulator.scenario.file import (
    Below,
    Channel,
    Churn,
    Move,
    Offer,
    Publish,
    React,
    Rolling,
    Scenario,
    Subscribe,
)

Part = TypeVar("Part", Below, Churn, Move, Offer, Publish, React, Rolling, Subscribe)

TIMES = ("start", "end", "join", "leave", "stay", "away", "every", "down")
PACED = ("laggard", "ack")
"""Settings of channels that follow from how fast the backbone notices a crash and changes its tree."""


def smaller(scenario: Scenario, nodes: int, pace: float = 1.0) -> Scenario:
    """The scenario with fewer nodes, in which everything happens so many times as fast.

    Numbers of agents, of nodes below others and of mortals shrink with the nodes. All instants and durations
    are divided by the pace, and the backbone watches itself so much more eagerly. So is the time after which
    a channel drops a laggard, which follows from how fast the backbone notices a crash, and the time between
    acknowledgements, which climb a tree that changes so much more often. Links, other settings of channels
    and the rates of publishers stay as they are. What names nodes stays too, and has to fit.
    """
    share = nodes / scenario.network.nodes
    watch = MonitorSettings() if scenario.monitor is True else scenario.monitor
    if watch:
        watch = msgspec.structs.replace(
            watch,
            probe_budget=watch.probe_budget * pace,
            budget=watch.budget * pace,
            interval=max(1.0, watch.interval / pace),
        )
    return msgspec.structs.replace(
        scenario,
        network=msgspec.structs.replace(scenario.network, nodes=nodes),
        duration=scenario.duration / pace,
        patience=scenario.patience / pace,
        monitor=watch,
        channel=tuple(_channel(each, pace) for each in scenario.channel),
        publish=tuple(_part(each, share, pace) for each in scenario.publish),
        subscribe=tuple(_part(each, share, pace) for each in scenario.subscribe),
        advertise=tuple(_part(each, share, pace) for each in scenario.advertise),
        below=tuple(_part(each, share, pace) for each in scenario.below),
        react=tuple(_part(each, share, pace) for each in scenario.react),
        churn=tuple(_part(each, share, pace) for each in scenario.churn),
        move=tuple(_part(each, share, pace) for each in scenario.move),
        rolling=tuple(_part(each, share, pace) for each in scenario.rolling),
    )


def _channel(channel: Channel, pace: float) -> Channel:
    known = {name: channel.settings.get(name) for name in PACED}
    faster = {name: value / pace for name, value in known.items() if isinstance(value, int | float)}
    return msgspec.structs.replace(channel, settings={**channel.settings, **faster})


def _part(part: Part, share: float, pace: float) -> Part:
    changed: dict[str, float] = {}
    for name in TIMES:
        seconds = getattr(part, name, None)
        if seconds is not None:
            changed[name] = seconds / pace
    if part.pick is not None:
        changed["pick"] = max(1, ceil(part.pick * share))
    return msgspec.structs.replace(part, **changed)
