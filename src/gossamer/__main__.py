"""``python -m gossamer``: the command ``gossamer``."""

from gossamer.cli.main import main

main()
