"""Processes in a ringtree, some of which are killed: ``python -m tests.system.ringtree_kills 32 8``.

All listen; the first publishes. After the kills events are published one by one until everybody who lives
gets a run of them without a gap. It prints who missed what in between.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from tests.system.programs import HERE, PATIENCE, Program

SETTINGS = {
    "servers": "n00 n01",
    "heartbeat": 0.5,
    "patience": 3,
    "mend": 1.0,
    "refresh": 3.0,
    "settle": 0.5,
}
GOOD = 10
"""Events in a row that all who live must get in the end."""


class Party:
    """Nodes in processes of their own, each hearing what the first publishes."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.programs: dict[str, Program] = {}
        self.got: dict[str, set[int]] = {}
        self.sent = 0
        self.pause = 0.1
        self._stack, self._address = stack, ""
        names = [f"n{number:02d}" for number in range(count)]
        for name in names:
            self._start(name)
            if not self._address:
                self._address = self.programs[name].json()["listen"][0]
        for name in names[1:]:
            assert self.programs[name].json()["node"] == name

    def _start(self, name: str) -> None:
        at = [self._address] if self._address else []
        program = Program(
            str(HERE / "ringtree_node.py"), name, json.dumps(SETTINGS), *at, stdin=subprocess.PIPE
        )
        self.programs[name], self.got[name] = self._stack.enter_context(program), set()

    def join(self, name: str) -> None:
        """Start one more process, which listens as the others do."""
        self._start(name)
        assert self.programs[name].json()["node"] == name

    def leave(self, name: str) -> None:
        """Stop a process in good order."""
        program = self.programs.pop(name)
        program.end_input()
        assert program.end() == 0, program.errors()

    def publish(self) -> int:
        """Publish one event, and read what has come by now."""
        self.programs["n00"].write("\n")
        self.sent += 1
        deadline = time.monotonic() + self.pause
        for name, program in self.programs.items():
            while (line := program.line_within(max(0.0, deadline - time.monotonic()))) is not None:
                said: dict[str, Any] = json.loads(line)
                if "got" in said:
                    assert said["got"] not in self.got[name], f"{name} got {said['got']} twice"
                    self.got[name].add(said["got"])
        return self.sent

    def kill(self, *names: str) -> None:
        for name in names:
            self.programs.pop(name).process.kill()

    def whole(self) -> int:
        """Publish until everybody gets GOOD events in a row; the number of the first of them."""
        begin, limit = self.sent + 1, time.monotonic() + 3 * PATIENCE
        while time.monotonic() < limit:
            self.publish()
            last = max(set.intersection(*(self.got[name] for name in self.programs)), default=0)
            run = range(last - GOOD + 1, last + 1)
            if run[0] >= begin and all(set(run) <= self.got[name] for name in self.programs):
                return run[0]
        raise AssertionError(f"not whole after {3 * PATIENCE} s: {self.missed(begin)}")

    def missed(self, since: int) -> dict[str, int]:
        """How many events since one each has missed, those aside that may be on their way."""
        due = set(range(since, self.sent - GOOD))
        return {name: len(due - self.got[name]) for name in self.programs}


def killed(count: int, kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill some of so many processes at once; what it did to the others."""
    with ExitStack() as stack:
        party = Party(stack, count)
        party.whole()
        victims = random.Random(seed).sample([name for name in party.programs if name != "n00"], kills)
        before, begin = party.sent, time.monotonic()
        party.kill(*victims)
        first = party.whole()
        seconds = time.monotonic() - begin
        due = set(range(before + 1, first))
        missed = {name: len(due - party.got[name]) for name in party.programs}
        return {
            "processes": count,
            "killed": sorted(victims),
            "seconds until whole": round(seconds, 1),
            "published meanwhile": len(due),
            "survivors that missed any": sum(map(bool, missed.values())),
            "most missed by one": max(missed.values()),
        }


def left_and_joined(count: int) -> dict[str, Any]:
    """One process leaves in good order, one comes, another leaves; what it did to those that stay."""
    with ExitStack() as stack:
        party = Party(stack, count)
        stay = sorted(party.programs)[:-2]
        leavers, comer = sorted(party.programs)[-2:], f"n{count:02d}"
        since = party.whole()
        for change in (
            lambda: party.leave(leavers[0]),
            lambda: party.join(comer),
            lambda: party.leave(leavers[1]),
        ):
            change()
            party.whole()
        last = party.sent - GOOD
        due = set(range(since, last))
        missed = {name: len(due - party.got[name]) for name in stay}
        return {
            "members": sorted(party.programs),
            "published meanwhile": len(due),
            "missed": missed,
            "newcomer got": len(party.got[comer]),
        }


if __name__ == "__main__":
    print(json.dumps(killed(int(sys.argv[1]), int(sys.argv[2])), indent=2))
