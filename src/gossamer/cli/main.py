"""``gossamer``: one command, many verbs. Errors are one clear line; ``--json`` where a program reads."""

from __future__ import annotations

import sys

import typer

from gossamer.cli.lazy import LazyGroup
from gossamer.core.errors import ConfigError, GossamerError, SparkUnavailable

app = typer.Typer(
    name="gossamer",
    cls=LazyGroup,
    help="Event dissemination with just the right quality of service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        # --at was the name of --connect
        "token_normalize_func": lambda token: {"at": "connect"}.get(token, token),
    },
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"gossamer {version('gossamer')}")
        raise typer.Exit


@app.callback()
def options(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say what happens on links and templates."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    import logging

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)


def main() -> None:
    """The console script."""
    try:
        app()
    except GossamerError as error:
        from gossamer.cli.screen import marked, screen

        screen(stderr=True).print(marked("error:", f" {error}", "bold red"), soft_wrap=True)
        sys.exit(2 if isinstance(error, ConfigError | SparkUnavailable) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
