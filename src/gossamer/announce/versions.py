"""What a listener has of a thread that it wants: which versions came, and which are still to come."""

from __future__ import annotations

from collections import deque

MOST_OPEN = 1024
"""Versions of one thread that are waited for; of more the oldest are given up."""

Gap = tuple[int, int]
"""First and last version of a run that is missing. A packet may tell of any version: no run is listed."""

RECENT = 16
"""Versions before the first one told of that may still be on their way, and are taken if they come."""


class Progress:
    """Versions of one thread.

    latest
        The latest that anybody has spoken of; None before that.
    """

    __slots__ = ("_floor", "_had", "_quiet", "_waits", "latest")

    def __init__(self) -> None:
        self.latest: int | None = None
        self._floor = 0  # all up to here came or were given up
        self._had: set[int] = set()
        self._waits: deque[tuple[int, int]] = deque()  # until when, for which versions and those before
        self._quiet = 0  # versions up to here may have been announced before anybody listened here

    def told(self, version: int, until: int) -> list[Gap]:
        """There is such a version, wait for it until then; gaps given up because too many are open."""
        if self.latest is None:
            self._floor, self._quiet = max(0, version - RECENT), version
        elif version <= self.latest:
            return []
        self.latest = version
        self._waits.append((until, version))
        return self._give_up(version - MOST_OPEN) if version - self._floor > MOST_OPEN else []

    def got(self, version: int) -> bool:
        """A version came; False if it had come before, or had been given up."""
        if version <= self._floor or version in self._had:
            return False
        self._had.add(version)
        while self._floor + 1 in self._had:
            self._floor += 1
            self._had.discard(self._floor)
        return True

    @property
    def complete(self) -> bool:
        return self.latest is None or self._floor >= self.latest

    @property
    def until(self) -> int | None:
        """How long the next of them is waited for; None if there is nothing to wait for."""
        while self._waits and self._waits[0][1] <= self._floor:
            self._waits.popleft()
        return self._waits[0][0] if self._waits else None

    def expire(self, now: int) -> list[Gap]:
        """Give up what has been waited for long enough.

        The gaps, without versions that may have been announced before this node listened.
        """
        missing: list[Gap] = []
        while self._waits and self._waits[0][0] <= now:
            missing += self._give_up(self._waits.popleft()[1])
        return missing

    def _give_up(self, floor: int) -> list[Gap]:
        missing: list[Gap] = []
        first = max(self._floor, self._quiet) + 1
        for version in sorted(each for each in self._had if first <= each <= floor):
            if first < version:
                missing.append((first, version - 1))
            first = version + 1
        if first <= floor:
            missing.append((first, floor))
        self._floor = max(self._floor, floor)
        self._had = {version for version in self._had if version > self._floor}
        while self._floor + 1 in self._had:
            self._floor += 1
            self._had.discard(self._floor)
        return missing
