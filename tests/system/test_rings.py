"""Peers in processes of their own form a ring by the address of one, and mend it when some are killed."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

from tests.system.programs import Program, script


def reaches(writer: Program, readers: list[Program], word: str) -> None:
    """What one says comes to all once the ring is whole; said again until then, and never heard twice."""
    waiting, number = list(readers), 0
    while waiting:
        number += 1
        assert number < 60, f"{len(waiting)} of {len(readers)} never heard {word}"
        writer.write(f"{word} {number}\n")
        for reader in tuple(waiting):
            line = reader.line_within(1.0)
            if line is not None and line.startswith(word):
                waiting.remove(reader)


def test_five_peers_form_a_ring_and_mend_it_when_one_is_killed() -> None:
    with ExitStack() as stack:
        peers: list[Program] = []
        at: list[str] = []
        for number in range(5):
            seeds = at[:1]
            program = script("ring_peer.py", f"p{number}", *seeds, stdin=subprocess.PIPE)
            peers.append(stack.enter_context(program))
            at.append(program.line())
        reaches(peers[1], peers, "before")
        peers[2].kill()
        rest = [each for each in peers if each is not peers[2]]
        reaches(peers[4], rest, "after")
        peers[0].kill()  # the one that all came by
        reaches(peers[3], [peers[1], peers[4]], "still")
