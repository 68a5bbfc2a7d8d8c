"""Real processes, read line by line; nothing here waits for time to pass, only for lines and ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds after which something that must happen has failed to; far more than it needs."""
CLEAN_END = 5.0
"""Seconds in which a program that was asked to stop has stopped."""


class Program:
    """A running process. Use it as ``with Program(...) as program``; it never outlives the block."""

    def __init__(
        self,
        *command: str,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        inside: tuple[str, ...] = (),
        **variables: str,
    ) -> None:
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **variables}
        environment.pop("GOSSAMER_NODE", None)
        self.process = subprocess.Popen(
            [*inside, sys.executable, *command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._out, self._err = Lines(self.process.stdout), Lines(self.process.stderr)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self._out.close()
        self._err.close()

    def line(self) -> str:
        """The next line of standard output."""
        return self._out.next(self)

    def line_within(self, seconds: float) -> str | None:
        """The next line of standard output if one comes so soon."""
        return self._out.next_within(seconds)

    def error_line(self) -> str:
        """The next line of standard error."""
        return self._err.next(self)

    def json(self) -> Any:
        return json.loads(self.line())

    def lines(self, count: int) -> list[str]:
        return [self.line() for _ in range(count)]

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to stop; its exit code, in good time."""
        self.process.send_signal(number)
        return self.process.wait(CLEAN_END)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Wait for its own end; its exit code."""
        return self.process.wait(PATIENCE)

    def rest(self) -> str:
        """What is left of standard output after the end."""
        return self._out.rest()

    def errors(self) -> str:
        """What is left of standard error after the end."""
        return self._err.rest()


class Lines:
    """The lines of a pipe, read by a thread so that a full pipe holds nobody up."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._pipe:
            self._lines.put(line.decode(errors="replace").removesuffix("\n"))
        self._lines.put(None)

    def next(self, program: Program) -> str:
        try:
            line = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("no line came") from None
        assert line is not None, f"it ended ({program.end()}): {program.errors()}"
        return line

    def next_within(self, seconds: float) -> str | None:
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def rest(self) -> str:
        self._thread.join(PATIENCE)
        found = []
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None:
                found.append(line)
        return "\n".join(found)

    def close(self) -> None:
        self._thread.join(PATIENCE)
        self._pipe.close()


def gossamer(
    *arguments: str,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    inside: tuple[str, ...] = (),
    **variables: str,
) -> Program:
    """The command line; ``inside`` is what runs it somewhere else."""
    return Program("-m", "gossamer.cli.main", *arguments, stdin=stdin, inside=inside, **variables)


def script(name: str, *arguments: object, **variables: str) -> Program:
    """One of the small programs beside this one."""
    return Program(str(HERE / name), *map(str, arguments), **variables)


def listening(program: Program) -> Program:
    """A subscriber, once it says that it listens."""
    line = program.error_line()
    assert line.startswith("listening on"), line
    return program


def address_of(node: Program) -> str:
    """Where ``gossamer up --json`` listens."""
    return str(node.json()["listen"][0])
