"""The Python that Spark starts its processes with on this machine: the running one, through a small program.

Spark puts zips of its own Python files before everything else, and what is imported from a zip is compiled
anew by every process, which takes a second. The same files are installed beside the zips, and compiled. It
also puts a jar there, in which every import would be looked for. Where Python may write nothing beside its
sources, as in many containers, what it compiles goes to the cache: Spark starts a process for every stream.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from gossamer.pipeline.java import program, short

_WRAPPER = """#!/bin/sh
# What Spark has in zips is installed as well, and need not be compiled by every process; its jar has nothing.
set -f
IFS=:
rest=
for place in $PYTHONPATH; do
    case "$place" in
        {left_out}) ;;
        *) rest="${{rest:+$rest:}}$place" ;;
    esac
done
if [ -n "$PYTHONDONTWRITEBYTECODE" ]; then
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX="{compiled}"
fi
PYTHONPATH="$rest" exec "{python}" "$@"
"""


def wrapped(folder: Path) -> Path:
    """A ``python`` for Spark that leaves these out; made unless it is there."""
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found and found.origin else Path()
    homes = sorted({home, home.resolve()})  # Spark calls itself by the latter, unless SPARK_HOME is set
    left_out = "|".join(f'"{each}"/python/lib/*.zip|"{each}"/jars/*.jar' for each in homes)
    own = folder / f"python-{short(f'{sys.executable} {home}')}"
    text = _WRAPPER.format(left_out=left_out, python=sys.executable, compiled=own / "compiled")
    return program(own / "bin" / "python", text)
