"""Commands on a cluster, in one process so that they share one session of Spark.

``python far.py MASTER FLAGS COMMANDS``: flags for the Java of executors, commands as JSON; prints the exit
code and the output of each as JSON.
"""

from __future__ import annotations

import json
import sys

from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.pipeline.session import session


def main(master: str, flags: str, commands: str) -> None:
    spark = session(master, quick=True, settings={"spark.executor.extraJavaOptions": flags})
    done = [
        CliRunner().invoke(app, [*each, "--json", "--master", master], catch_exceptions=False)
        for each in json.loads(commands)
    ]
    print(json.dumps([(each.exit_code, each.stdout) for each in done]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
