"""A program: a node that listens, takes so many numbered events, and says what it saw.

flow_subscriber.py COUNT SIZE PAUSE PENDING: SIZE are bytes of each event, PAUSE seconds of work on each
tenth batch, PENDING events that may wait.
"""

import asyncio
import json
import sys

from memory import peak_kibibytes

import gossamer


async def main(count: int, size: int, pause: float, pending: int) -> None:
    async with gossamer.connect(listen="tcp://127.0.0.1:0", name="reader") as node:
        channel = await node.channel("flow", "multicast")
        async with channel.subscribe(max_pending=pending) as events:
            print(json.dumps({"listen": node.addresses}), flush=True)
            received, in_order, batches = 0, True, 0
            async for batch in events.batches():
                batches += 1
                numbers = range(received, received + len(batch))
                expected = [(b"%010d" % number).ljust(size) for number in numbers]
                in_order = in_order and [event.payload for event in batch] == expected
                in_order = in_order and batch[0].number == received + 1
                received += len(batch)
                if received >= count:
                    break
                if pause and batches % 10 == 0:
                    await asyncio.sleep(pause)
            memory = peak_kibibytes()
            dropped = events.dropped + sum(node.drops.values())
            seen = {"received": received, "in_order": in_order, "dropped": dropped, "kibibytes": memory}
            print(json.dumps(seen), flush=True)


gossamer.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
