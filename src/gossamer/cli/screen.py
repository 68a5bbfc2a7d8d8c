"""Where commands print for people. Names are their users': brackets in them are no styles."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text


def screen(**options: Any) -> Console:
    """Standard output, with further options of Console; what has a style is a Text."""
    return Console(**{"highlight": False, "markup": False, **options})


def marked(text: str, rest: str = "", style: str = "bold") -> Text:
    """Something to be seen first, and what follows it."""
    return Text.assemble((text, style), rest)
