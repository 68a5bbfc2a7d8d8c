"""``gossamer``: one command, many verbs. Errors are one clear line; ``--json`` where a program reads."""

from __future__ import annotations

import logging
import sys

import typer

from gossamer.cli import (
    analyse,
    announce,
    announce_analysis,
    audit,
    bench,
    demo,
    log,
    node,
    packages,
    pubsub,
    registry,
    simulate,
    sweep,
    whatif,
)
from gossamer.cli.screen import marked, screen
from gossamer.core.errors import ConfigError, GossamerError, SparkUnavailable

app = typer.Typer(
    name="gossamer",
    help="Event dissemination with just the right quality of service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("up")(node.up)
app.command("pub")(pubsub.pub)
app.command("sub")(pubsub.sub)
app.command("request")(pubsub.request)
app.command("channels")(node.channels)
app.command("announce")(announce.announce)
app.command("listen")(announce.listen)
app.command("index")(announce.index)
app.add_typer(registry.app, name="registry")
app.add_typer(packages.app, name="templates")
app.add_typer(log.app, name="log")
app.add_typer(analyse.app, name="analyse")
analyse.app.command("announce")(announce_analysis.losses)
analyse.app.command("memberships")(announce_analysis.memberships)
analyse.app.command("indexes")(announce_analysis.indexes)
app.add_typer(bench.app, name="bench")
app.command("simulate")(simulate.simulate)
app.command("sweep")(sweep.sweep)
app.command("whatif")(whatif.whatif)
app.command("audit")(audit.audit)
app.command("report")(audit.report)
app.command("watch")(audit.watch)


@app.callback()
def options(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say what happens on links and templates."),
) -> None:
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)


def main() -> None:
    """The console script."""
    try:
        app()
    except GossamerError as error:
        screen(stderr=True).print(marked("error:", f" {error}", "bold red"), soft_wrap=True)
        sys.exit(2 if isinstance(error, ConfigError | SparkUnavailable) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
