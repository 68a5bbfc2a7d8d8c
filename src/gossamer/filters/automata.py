"""Deterministic automata over letters, and the search for a text that some accept and another does not.

A pattern's pieces between stars may be taken where they are found first, so its automaton is deterministic
and has one state per letter of the pattern; what comes before and behind another text is regular too. All
run side by side, and only states that can be reached are looked at.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

MOST_STEPS = 200_000
"""Steps of automata after which a search is given up: tenths of a second, and beyond what people write."""

Letters = tuple[int, ...]
State = tuple[int, int]
DEAD: State = (-1, 0)
_SURROGATES = range(0xD800, 0xE000)


class GivenUp(Exception):
    """A search took too many steps."""


class Automaton(Protocol):
    """A deterministic automaton over letters, which are numbers."""

    start: State
    letters: frozenset[int]
    """Letters that it tells apart."""
    ordered: bool
    """Whether it also tells the letters between those apart."""

    def step(self, state: State, letter: int) -> State: ...
    def accepts(self, state: State) -> bool: ...


class Pieces:
    """Accepts what a pattern fits, or with ``wanted=False`` what it does not.

    A state is the number of the piece that is looked for and how many of its letters are there.
    """

    ordered = False

    def __init__(self, pieces: Sequence[Letters], wanted: bool = True) -> None:
        self._pieces = pieces
        self._last = len(pieces) - 1
        self._wanted = wanted
        self.letters = frozenset(letter for piece in pieces for letter in piece)
        self.start = self._found(0, 0)

    def step(self, state: State, letter: int) -> State:
        piece, there = state
        if piece < 0:
            return DEAD
        letters = self._pieces[piece]
        if piece == 0:  # the head begins the text
            return self._found(0, there + 1) if letters[there : there + 1] == (letter,) else DEAD
        while there == len(letters) or letters[there] != letter:
            if there == 0:
                return piece, 0
            there = self._borders[piece][there]
        return self._found(piece, there + 1)

    def accepts(self, state: State) -> bool:
        return (state == (self._last, len(self._pieces[-1]))) is self._wanted

    def _found(self, piece: int, there: int) -> State:
        """So much of a piece is there: if it is all, the next is looked for."""
        return (piece + 1, 0) if piece < self._last and there == len(self._pieces[piece]) else (piece, there)

    @cached_property
    def _borders(self) -> list[list[int]]:
        """Per piece and length: how much of its beginning ends that much (Knuth, Morris, Pratt)."""
        return [_borders(piece) for piece in self._pieces]


def _borders(piece: Letters) -> list[int]:
    borders = [0, 0]
    for letter_before in range(1, len(piece)):
        there = borders[-1]
        while there and piece[there] != piece[letter_before]:
            there = borders[there]
        borders.append(there + (piece[there] == piece[letter_before]))
    return borders


class Order:
    """Accepts texts before or behind another.

    A state is how many letters are the same, and 0, or -1 or 1 once the text is before or behind for good.
    """

    ordered = True
    start = (0, 0)

    def __init__(self, symbol: str, bound: Letters) -> None:
        self._bound = bound
        self._holds = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[symbol]
        self.letters = frozenset(bound)

    def step(self, state: State, letter: int) -> State:
        same, side = state
        if side:
            return state
        if same == len(self._bound) or letter > self._bound[same]:
            return 0, 1
        return (same + 1, 0) if letter == self._bound[same] else (0, -1)

    def accepts(self, state: State) -> bool:
        same, side = state
        return bool(self._holds(side or (0 if same == len(self._bound) else -1), 0))


def search(held: Sequence[Automaton], failed: Automaton | None, text: bool) -> list[int] | None:
    """Letters that all of ``held`` accept and ``failed`` does not; None if there are none. Raises GivenUp."""
    everything = [*held, failed] if failed else [*held]
    letters = _alphabet(everything, 0x10FFFF if text else 0xFF)
    wanted = [True] * len(held) + [False] * (failed is not None)
    begin = tuple(each.start for each in everything)
    before: dict[tuple[State, ...], tuple[tuple[State, ...], int]] = {begin: (begin, 0)}
    waiting, steps = [begin], 0
    while waiting:
        states = waiting.pop()
        if all(
            each.accepts(state) is yes for each, state, yes in zip(everything, states, wanted, strict=True)
        ):
            return _letters_to(states, begin, before)
        for letter in letters:
            following = tuple(
                each.step(state, letter) for each, state in zip(everything, states, strict=True)
            )
            if following not in before and not _hopeless(held, following):
                before[following] = (states, letter)
                waiting.append(following)
        steps += len(letters) * len(everything)
        if steps > MOST_STEPS:
            raise GivenUp
    return None


def _letters_to(
    states: tuple[State, ...],
    begin: tuple[State, ...],
    before: dict[tuple[State, ...], tuple[tuple[State, ...], int]],
) -> list[int]:
    """The way to some states, back to where it began."""
    letters = []
    while states != begin:
        states, letter = before[states]
        letters.append(letter)
    return letters[::-1]


def _hopeless(held: Sequence[Automaton], states: Sequence[State]) -> bool:
    return any(state == DEAD and not each.accepts(DEAD) for each, state in zip(held, states, strict=False))


def _alphabet(automata: Sequence[Automaton], last: int) -> list[int]:
    """Letters that are told apart, and one for all others, or one for all between each two of them."""
    letters = sorted({letter for each in automata for letter in each.letters})
    ordered = any(each.ordered for each in automata)
    others = []
    for before, behind in zip([-1, *letters], [*letters, last + 1], strict=True):
        other = _SURROGATES.stop if before + 1 in _SURROGATES and last > 0xFF else before + 1
        if other < behind:
            others.append(other)
    return letters + (others if ordered else others[:1])
