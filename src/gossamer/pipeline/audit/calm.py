"""What a trace shows of faults: which nodes stayed, when something went wrong, and whether a run ended calm.

A run ended calm for a channel if it shows no fault within the recovery bound that the channel's template
states (``value`` of ``opened`` rows; 0, as in older traces, states none: then no run is calm). In doubt it is
not calm: a node that merely begins counts as a fault, and so does every row about a link. A crash or a
suspicion that leaves no row cannot be seen here.
"""

from __future__ import annotations

from collections import defaultdict

from gossamer.core import trace
from gossamer.pipeline.audit.relations import of
from gossamer.pipeline.audit.whole import Whole

SEVERED = ("partition", "lost by rule")
"""Reasons of drops while a simulated network keeps nodes apart."""
UNREACHED = (*SEVERED, "no link", "node is down", "node crashed", "connection lost")
"""Reasons of drops that show a fault between two nodes."""
MENDS = "gossamer.linkstate"
"""The service by which nodes find ways around one that is gone; it has rows about links of its own."""


def _reasons(reasons: tuple[str, ...]) -> str:
    return f"{of(trace.PARCEL, trace.DROPPED)} and detail in ({', '.join(map(repr, reasons))})"


_LINK = of(trace.MEMBER, trace.UP, trace.DOWN)
STAYING = f"""linked as (
    select run, peer as node, max(if(action = '{trace.UP}', at, -1)) as up,
        max(if(action = '{trace.DOWN}', at, -1)) as down
    from {{rows}} where {_LINK} group by run, peer
), latest as (
    select run, node, max(incarnation) as incarnation from {{rows}} group by run, node
), cut as (
    select run, node, incarnation from (
        select run, node, incarnation, peer, max_by(action, position) as last from {{rows}}
        where {_LINK} group by run, node, incarnation, peer
    ) group by run, node, incarnation having max(last) = '{trace.DOWN}'
), staying as (
    select run, node, incarnation from latest
    left anti join (select run, node from linked where down > up) using (run, node)
    left anti join cut using (run, node, incarnation))"""
"""``staying``: lives of nodes that lasted to the end of the run.

No later life is known, the last row about a link to the node says that it is up, and the node itself has not
lost all its links.
"""

MOVES = f"""moves as (
    select run, node, at from {{rows}} where {_LINK}
    union all select run, peer, at from {{rows}} where {_LINK})"""
"""``moves``: when a node gained or lost a link."""

FAULTS = f"""faults as (
    select run, '' as node, at from {{rows}}
    where {of(trace.CHANNEL, trace.OPENED)} or ({_reasons(UNREACHED)})
    union all select run, node, at from {{rows}} where {of(trace.MEMBER, trace.MISSED)}
    union all select run, node, at from moves)"""
"""``faults``: when something went wrong, or may have, and at which node; a life that begins and a parcel that
did not get through may concern every node (``''``).
"""

CALM = f"""bounds as (
    select run, channel, max(value) as bound from {{rows}} left semi join promised using (run, channel)
    where {of(trace.CHANNEL, trace.OPENED)} group by run, channel
), ends as (
    select run, max(at) as ended from {{rows}} group by run
), pairs as (
    select run, least(node, peer) as one, greatest(node, peer) as other,
        max(if(action = '{trace.DROPPED}', at, -1)) as lost,
        max(if(action = '{trace.RECEIVED}', at, -1)) as came
    from {{rows}} where {of(trace.PARCEL, trace.RECEIVED)} or ({_reasons(SEVERED)})
    group by run, least(node, peer), greatest(node, peer)
), apart as (
    select run from pairs where lost > came
    union select run from linked
    left anti join (select run from {{rows}} where {_LINK} and channel = '{MENDS}') using (run)
    where down > up
), calm as (
    select run, channel, bound, ended from bounds join ends using (run)
    join (select run, max(at) as fault from faults group by run) using (run)
    left anti join apart using (run)
    where bound > 0 and fault < ended - bound)"""
"""``calm``: channels whose run ended calm, with their bound and the end. ``ends``: the end of every run.

``apart``: runs in which nodes may be kept apart to the end. Two nodes were severed and no parcel has come
from one to the other since, or a node is gone in a network that does not mend.
"""


def staying(run: Whole) -> set[tuple[str, int]]:
    """Lives of nodes that lasted to the end of the run."""
    gone = _gone(run)
    last: dict[tuple[str, int], dict[str, tuple[int, str]]] = {}
    for row in run.of(trace.MEMBER, trace.UP, trace.DOWN):
        peers = last.setdefault((row.node, row.incarnation), {})
        peers[row.peer] = max((row.position, row.action), peers.get(row.peer, (0, "")))
    cut = {life for life, peers in last.items() if all(said == trace.DOWN for _, said in peers.values())}
    return {life for life in run.lives.items() if life[0] not in gone and life not in cut}


def _gone(run: Whole) -> set[str]:
    """Nodes of which the last row about a link to them says that it is down."""
    up: dict[str, int] = {}
    down: dict[str, int] = {}
    for row in run.of(trace.MEMBER, trace.UP):
        up[row.peer] = max(row.at, up.get(row.peer, -1))
    for row in run.of(trace.MEMBER, trace.DOWN):
        down[row.peer] = max(row.at, down.get(row.peer, -1))
    return {node for node, at in down.items() if at > up.get(node, -1)}


def moves(run: Whole) -> dict[str, list[int]]:
    """When each node gained or lost a link, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in sorted(run.of(trace.MEMBER, trace.UP, trace.DOWN)):
        found[row.node].append(row.at)
        found[row.peer].append(row.at)
    return found


def faults(run: Whole) -> dict[str, list[int]]:
    """When something went wrong, or may have, in order: by node, and under ``''`` what may concern all."""
    found = moves(run)
    for row in run.of(trace.MEMBER, trace.MISSED):
        found[row.node].append(row.at)
    found[""] = [row.at for row in run.of(trace.CHANNEL, trace.OPENED)]
    found[""] += [row.at for row in run.of(trace.PARCEL, trace.DROPPED) if row.detail in UNREACHED]
    return defaultdict(list, {node: sorted(instants) for node, instants in found.items()})


def calm(run: Whole, channels: set[str]) -> dict[str, int]:
    """Those channels whose run ended calm, with their bound in nanoseconds."""
    bounds: dict[str, int] = {}
    for row in run.of(trace.CHANNEL, trace.OPENED):
        if row.channel in channels:
            bounds[row.channel] = max(row.value, bounds.get(row.channel, 0))
    if _apart(run):
        return {}
    fault = max((instants[-1] for instants in faults(run).values() if instants), default=-1)
    return {name: bound for name, bound in bounds.items() if bound > 0 and fault < run.ended - bound}


def _apart(run: Whole) -> bool:
    lost: dict[tuple[str, ...], int] = {}
    came: dict[tuple[str, ...], int] = {}
    for row in run.of(trace.PARCEL, trace.DROPPED):
        if row.detail in SEVERED:
            pair = tuple(sorted((row.node, row.peer)))
            lost[pair] = max(row.at, lost.get(pair, -1))
    for row in run.of(trace.PARCEL, trace.RECEIVED) if lost else ():
        pair = tuple(sorted((row.node, row.peer)))
        came[pair] = max(row.at, came.get(pair, -1))
    if any(at > came.get(pair, -1) for pair, at in lost.items()):
        return True
    mends = any(row.channel == MENDS for row in run.of(trace.MEMBER, trace.UP, trace.DOWN))
    return not mends and bool(_gone(run))
