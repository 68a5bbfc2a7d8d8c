"""The Python that Spark starts its processes with on this machine: the running one, through a small program.

Spark puts zips of its own Python files before everything else, and what is imported from a zip is compiled
anew by every process, which takes a second. The same files are installed beside the zips, and compiled.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from gossamer.pipeline.java import program, short

_WRAPPER = """#!/bin/sh
# What Spark has in zips is installed as well, and need not be compiled by every process.
set -f
IFS=:
rest=
for place in $PYTHONPATH; do
    case "$place" in
        "{zips}"/*.zip) ;;
        *) rest="${{rest:+$rest:}}$place" ;;
    esac
done
PYTHONPATH="$rest" exec "{python}" "$@"
"""


def wrapped(folder: Path) -> Path:
    """A ``python`` for Spark that leaves the zips out; made unless it is there."""
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found and found.origin else Path()
    zips = home / "python" / "lib"
    text = _WRAPPER.format(zips=zips, python=sys.executable)
    return program(folder / f"python-{short(f'{sys.executable} {zips}')}" / "bin" / "python", text)
