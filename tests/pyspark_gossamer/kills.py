"""A streaming job from a log into a channel, killed at random: nothing lost, nothing twice.

``python -m tests.pyspark_gossamer.kills 20`` kills the whole job (Spark, its workers, everything) so many
times, each at a random instant after it has begun to publish, starts it again from its checkpoint, and at
last compares what the channel's log has with what was in the first.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from gossamer.storage.log import Log
from tests.pyspark_gossamer.frames import Source, folder_of
from tests.pyspark_gossamer.station import Station

EVENTS = 5
"""Per parcel."""
AHEAD = 4000
"""Events that wait in the log: more than the job takes in the seconds before it is killed."""
PATIENCE = 300.0
"""Seconds in which a job has begun to publish, on any machine."""


class Feed(threading.Thread):
    """Somebody who keeps on adding to a log, a little ahead of what has arrived, until told to stop."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="feed")
        self.folder = folder
        self.published = 0
        self.arrived = 0
        self.enough = threading.Event()

    def run(self) -> None:
        source = Source()
        with Log(self.folder, segment_bytes=100_000) as log:
            while not self.enough.wait(0.05):
                if self.published < self.arrived + AHEAD:
                    log.append(source.parcels(4, events=EVENTS))
                    self.published += 4 * EVENTS


def trial(kills: int, folder: Path, seed: int = 1) -> dict[str, object]:
    """Run the job, kill it so many times, let it end; what came of it."""
    dice = random.Random(seed)
    feed = Feed(folder_of(folder))
    feed.start()
    stop = folder / "stop"
    begun = time.monotonic()
    try:
        with Station(folder / "station") as station:
            log, history = str(feed.folder), str(station.folder)
            arguments = [log, station.address, history, str(folder / "checkpoint"), str(stop)]
            for number in range(kills):
                job = _start(arguments)
                heard = feed.arrived = len(station.heard())
                _until(lambda heard=heard: len(station.heard()) > heard, job)  # type: ignore[misc]
                time.sleep(dice.uniform(0.0, 3.0))
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                print(f"kill {number + 1}: {len(station.heard())} events had arrived", file=sys.stderr)
            feed.enough.set()
            feed.join()
            stop.touch()
            last = _start(arguments)
            code = last.wait()
            arrived = station.heard()
    finally:
        feed.enough.set()
        feed.join()
    payloads = Counter(int(payload) for _, payload in arrived)
    return {
        "kills": kills,
        "events": feed.published,
        "arrived": len(arrived),
        "lost": sum(1 for number in range(1, feed.published + 1) if number not in payloads),
        "twice": sum(count - 1 for count in payloads.values()),
        "batches": len({name[1] for name, _ in arrived}),
        "code": code,
        "seconds": round(time.monotonic() - begun),
    }


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    script = str(Path(__file__).with_name("job.py"))
    return subprocess.Popen(
        [sys.executable, script, *arguments], start_new_session=True, stderr=subprocess.DEVNULL
    )


def _until(condition: object, job: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        if job.poll() is not None or time.monotonic() > end:
            os.killpg(job.pid, signal.SIGKILL)
            raise RuntimeError(f"the job does not publish (exit code {job.poll()})")
        time.sleep(0.1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        came = trial(int(sys.argv[1]), Path(place), *map(int, sys.argv[2:]))
    print(json.dumps(came))
    sys.exit(bool(came["lost"] or came["twice"] or came["code"]))
