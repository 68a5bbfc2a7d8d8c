"""A streaming job to be killed: follows one log and publishes into the channel of a node.

``python job.py LOG ADDRESS HISTORY CHECKPOINT STOP`` ends when the file STOP is there and everything is done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gossamer.pipeline.session import session

ROWS = 400
"""Events per micro-batch, so that there are many of them to be killed in."""


def main(log: str, address: str, history: str, checkpoint: str, stop: str) -> None:
    spark = session("local[2]", quick=True)
    events = spark.readStream.format("gossamer").option("maxRows", str(ROWS)).load(log)
    query = (
        events.select("payload")
        .writeStream.format("gossamer")
        .option("address", address)
        .option("channel", "out")
        .option("history", history)
        .option("chunk", "100")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    while not Path(stop).exists():
        time.sleep(0.05)
        if not query.isActive:
            sys.exit(f"the query ended: {query.exception()}")
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
