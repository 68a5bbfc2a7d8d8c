"""A program: lives of one node that publishes on a persistent channel until it is killed.

persistent_lives.py FOLDER: each line of its input, the number of a life, forks a process that goes on where
the life before it ended; real processes, without the time that imports take. A life says ``pid PID``,
``open``, and then each event that is acknowledged as ``LIFE NUMBER``; ``dead`` when it is.
"""

import os
import random
import sys

import uvloop  # noqa: F401

import gossamer.storage.log
import gossamer.templates.persistent.template  # noqa: F401
from gossamer import catalog, connect, run

SETTINGS = {"heartbeat": 0.02, "patience": 0.1, "repair": 0.05, "ack": 0.02}
"""An election takes two heartbeats."""


async def live(folder: str, life: int) -> None:
    dice = random.Random(life)
    async with connect(name="keeper", role="backbone", listen=["local://keeper"], state=folder) as node:
        channel = await node.channel("log", template="persistent", settings=SETTINGS)
        say("open")
        number = 0
        while True:
            for _ in range(dice.randrange(1, 5)):
                receipt = await channel.publish(b"%d %d" % (life, number))
                number += 1
                if dice.random() < 0.5:
                    channel.flush()
            await channel.acknowledged(receipt)
            say(f"{life} {number - 1}")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    dict(catalog.transports())
    for line in sys.stdin:
        child = os.fork()
        if not child:
            say(f"pid {os.getpid()}")
            run(live(sys.argv[1], int(line)))
        os.waitpid(child, 0)
        say("dead")
