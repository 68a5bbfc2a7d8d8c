"""Patterns: texts in which ``*`` stands for any run of characters, also none (seed 002, section 2).

A backslash takes the next character as it is: ``\\*`` is an asterisk, ``\\\\`` a backslash.
"""

from __future__ import annotations

from gossamer.core.errors import BadFilter


class Pattern:
    """One pattern: ``Pattern("Win*").matches("WinNT")``.

    pieces
        The literal texts between the stars; a pattern without a star has one.
    """

    __slots__ = ("pieces",)

    def __init__(self, text: str) -> None:
        head, *rest = _pieces(text)
        self.pieces = (head, *(piece for piece in rest[:-1] if piece), *rest[-1:])

    def matches(self, text: str) -> bool:
        """Whether a text fits; each piece between stars is taken where it is found first."""
        head, *middle = self.pieces
        if not middle:
            return text == head
        tail = middle.pop()
        at, end = len(head), len(text) - len(tail)
        if at > end or not text.startswith(head) or not text.endswith(tail):
            return False
        for piece in middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.pieces == other.pieces

    def __hash__(self) -> int:
        return hash(self.pieces)


def _pieces(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    letters = iter(enumerate(text))
    for position, letter in letters:
        if letter == "*":
            pieces.append([])
            continue
        if letter == "\\":
            _, letter = next(letters, (0, ""))
            if not letter:
                raise BadFilter(text, position, "a backslash takes the next character: write \\\\ for itself")
        pieces[-1].append(letter)
    return ["".join(piece) for piece in pieces]


def literal(text: str) -> str:
    """The pattern that only this text fits."""
    return text.replace("\\", "\\\\").replace("*", "\\*")
