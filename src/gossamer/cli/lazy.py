"""Commands that are imported when they run: help of the whole program loads none of their modules."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = {
    "demo": ("demo", "Publish on real sockets and in a simulated network with faults, and prove both."),
    "up": ("node", "Start a node and keep it running until Ctrl-C."),
    "pub": ("pubsub", "Publish events, and wait until another node has taken them over."),
    "sub": ("pubsub", "Show the events of a channel, one line each."),
    "request": ("pubsub", "Publish an event and show the first answer to it."),
    "channels": ("node", "List the channels that a node knows."),
    "announce": ("announce", "Announce to all listeners; ends when the announcement has been repeated."),
    "listen": ("announce", "Show announcements, one line each."),
    "index": ("announce", "List the threads of all announcers in indexes."),
    "registry": ("registry", "Look into the registry, change it, and see it change."),
    "templates": ("packages", "List or show templates; sign, publish and list packages of templates."),
    "log": ("log", "Verify, repair, salvage and dump the logs of a node that does not run."),
    "analyse": ("analyse", "Load of dispatchers, length of paths, reach under failures."),
    "bench": ("bench", "Measure gossamer beside other systems, on this machine."),
    "simulate": ("simulate", "Run a scenario in virtual time; exit code 1 if a promise was broken."),
    "sweep": ("sweep", "Run a scenario under many settings and seeds, on Spark."),
    "whatif": ("whatif", "Calculate and simulate designs side by side, with a recommendation."),
    "audit": ("audit", "Hold traces against what their channels promised."),
    "report": ("audit", "Make one page about traces: topology, latency, load, promises."),
    "watch": ("audit", "Follow the traces of a running overlay: scorecards and violations."),
}
"""Module below ``gossamer.cli`` of each command, and its line in the help."""


class Lazy(TyperCommand):
    """A command that is known by its name and its line of help until it runs."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, help=help, short_help=help)
        self._module = module

    def real(self) -> Any:
        """The command itself, imported now."""
        name = str(self.name)
        module = import_module(f"gossamer.cli.{self._module}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(name)(getattr(module, name))
        return get_command(app)

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return self.real().make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        return self.real().shell_complete(ctx, incomplete)


class LazyGroup(TyperGroup):
    """All commands of ``gossamer``, in the order of the table."""

    def __init__(self, **attributes: Any) -> None:
        commands = {name: Lazy(name, module, text) for name, (module, text) in COMMANDS.items()}
        super().__init__(**attributes | {"commands": commands})
