"""Announcements through a channel that loses packets, many of them: which share arrives?"""

from __future__ import annotations

import msgspec

from gossamer.announce import delivery_odds as odds
from gossamer.announce.announcer import Station
from gossamer.announce.assembly import Assembler
from gossamer.announce.header import Code, Header, decode, encode
from gossamer.announce.identity import Allotter
from gossamer.announce.listener import Follower
from gossamer.announce.reliability import Erasure, Reliability, Repetition
from gossamer.announce.sender import Pace, Sender
from gossamer.core.errors import ProtocolError
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.workload.announcements import Air, AirModel, Announcing, Listening

MTU = 1_400
JOIN = 0.4
"""Seconds that joining takes, where there is an index."""
SPACED = 4.0
"""Seconds from one announcement to the next, where there is an index."""


class Arrival(msgspec.Struct, frozen=True):
    """How announcements of one kind arrived.

    needed, sent
        Packets that make an announcement, and packets that were sent for it.
    expected
        The share that arrives by the closed form.
    """

    kind: str
    needed: int
    sent: int
    announcements: int
    missed: int
    expected: float

    @property
    def arrived(self) -> float:
        return 1 - self.missed / self.announcements


def raw(kind: str, module: Reliability, size: int, loss: float, count: int, seed: int = 1) -> Arrival:
    """So many announcements of ``size`` bytes by the raw service, listened to from the beginning."""
    payload = bytes(size)
    cut = [each for each_round in module.rounds(payload, MTU, 0) for each in each_round]
    dice = SeededDice(seed, "losses", label=kind)
    assembler, missed = Assembler(), 0
    for number in range(count):
        whole = False
        for each in cut:
            if dice.random() < loss:
                continue
            header = Header(bytes(16), number + 1, each.sequence, each.last, Code.DATA, each.options)
            found = assembler.put(*decode(encode(header) + each.body))
            if found is not None:
                if found.payload != payload:
                    raise ProtocolError("payload", found.payload[:20], "the bytes that were announced")
                whole = True
        missed += not whole
    different = len({each.sequence for each in cut})
    if isinstance(module, Repetition) or different == 1:
        share = odds.arrives(1, len(cut) // different, loss) ** different
        return Arrival(kind, different, len(cut), count, missed, share)
    blocks, needed = _layout(cut[0].options)
    share = odds.arrives(needed, len(cut) // blocks, loss) ** blocks
    return Arrival(kind, needed * blocks, len(cut), count, missed, share)


def _layout(options: tuple[tuple[int, bytes], ...]) -> tuple[int, int]:
    about = options[-1][1]
    return int.from_bytes(about[:2], "big"), about[2] + 1


def managed(loss: float, target: float, count: int, listeners: int = 50, seed: int = 1) -> Arrival:
    """One-packet announcements heard through an index, by so many listeners."""
    air = Air(AirModel(loss=loss, join=JOIN), seed)
    pace = Pace(join=1.0)
    station = Station(Allotter(bytes(12)), "meeting", Sender(pace, Erasure(loss, target)))
    thread = station.thread(0, "t", "data")
    station.index(0, "index", [thread])
    on = Announcing(air, station)
    on.tend()
    ears = [Listening(air, Follower("meeting")) for _ in range(listeners)]
    for each in ears:
        each.want("t")
    made = -(-count // listeners)
    for number in range(made):
        air.at(100 + number * SPACED, lambda: on.announce(thread, b"news"))
    air.run(100 + made * SPACED + 60)
    missed = made * listeners - sum(len(each.heard) for each in ears)
    rounds = Repetition(loss, target).times() + pace.extra
    expected = 1 - odds.managed_misses(
        rounds, rounds, -(-int(JOIN * 1000) // int(pace.interval * 1000)), loss
    )
    return Arrival("one packet, told of by an index", 1, rounds, made * listeners, missed, expected)


def all_kinds(loss: float, target: float, count: int, seed: int = 1) -> list[Arrival]:
    """The raw service with both modules, and the managed service."""
    repetition, erasure = Repetition(loss, target), Erasure(loss, target)
    few = max(1, count // 10)
    return [
        raw("one packet, repeated", repetition, 500, loss, count, seed),
        raw("ten packets, repeated", repetition, 13_000, loss, few, seed),
        raw("ten packets, erasure code", erasure, 13_000, loss, few, seed),
        managed(loss, target, few, seed=seed),
    ]
