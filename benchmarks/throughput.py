"""Events per second from one process to another over tcp, beside a bare socket that moves the same bytes.

Interleaved repetitions, medians, and every event seen by Python code in the receiving process. Absolute
figures are for orientation; the ratios of one run are what counts.

    python benchmarks/throughput.py [--events N] [--repeat R] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import statistics
import subprocess
import sys
import time

import gossamer

SIZES = (10, 100, 1000)
FORMS = ("raw socket", "batches", "async for", "publish one by one")


async def receive_gossamer(form: str, count: int) -> None:
    async with gossamer.connect(listen="tcp://127.0.0.1:0", name="receiver") as node:
        channel = await node.channel("bench", template="multicast")
        async with channel.subscribe() as events:
            print(node.addresses[0], flush=True)
            first = await events.next()
            started, seen = time.perf_counter(), 1
            if form == "async for":
                async for _event in events:
                    seen += 1
                    if seen == count:
                        break
            else:
                async for batch in events.batches():
                    for _event in batch:
                        seen += 1
                    if seen >= count:
                        break
            report(seen, time.perf_counter() - started, first.number == 1)


async def send_gossamer(form: str, address: str, count: int, size: int) -> None:
    async with gossamer.connect(address, name="sender") as node:
        channel = await node.channel("bench", template="multicast")
        await channel.wait_for_subscribers(10)
        payload = bytes(size)
        if form == "publish one by one":
            for _ in range(count):
                await channel.publish(payload)
        else:
            await channel.publish_many(payload for _ in range(count))
        await channel.drain()


def receive_raw(total: int, count: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"tcp://127.0.0.1:{server.getsockname()[1]}", flush=True)
        connection, _ = server.accept()
        with connection:
            buffer, left = bytearray(262144), total
            started = time.perf_counter()
            while left > 0:
                left -= connection.recv_into(buffer)
            report(count, time.perf_counter() - started, True)


def send_raw(address: str, total: int) -> None:
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
        chunk, left = bytes(61440), total
        while left > 0:
            connection.sendall(chunk[: min(len(chunk), left)])
            left -= len(chunk)


def report(seen: int, seconds: float, in_order: bool) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {"seen": seen, "seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "in_order": in_order}
        ),
        flush=True,
    )


def measure(form: str, count: int, size: int) -> dict[str, float]:
    """One sender, one receiver, one form."""
    me = [sys.executable, __file__]
    arguments = [form, str(count), str(size)]
    receiver = subprocess.Popen([*me, "--receive", *arguments], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    address = receiver.stdout.readline().strip()
    subprocess.run([*me, "--send", *arguments, address], check=True, timeout=300)
    result: dict[str, float] = json.loads(receiver.stdout.readline())
    receiver.wait(timeout=60)
    return {"rate": result["seen"] / result["seconds"], "lost": count - result["seen"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--receive", nargs=3)
    parser.add_argument("--send", nargs=4)
    options = parser.parse_args()
    if options.receive:
        form, count, size = options.receive[0], int(options.receive[1]), int(options.receive[2])
        if form == "raw socket":
            receive_raw(count * size, count)
        else:
            gossamer.run(receive_gossamer(form, count))
        return
    if options.send:
        form, count, size, address = options.send[0], *map(int, options.send[1:3]), options.send[3]
        if form == "raw socket":
            send_raw(address, count * size)
        else:
            gossamer.run(send_gossamer(form, address, count, size))
        return
    rows = []
    for size in SIZES:
        found: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
        for round_number in range(options.repeat):
            for form in FORMS:
                print(f"\r{size} bytes, round {round_number + 1}, {form:<20}", end="", file=sys.stderr)
                found[form].append(measure(form, options.events, size))
        for form, results in found.items():
            rate = statistics.median(each["rate"] for each in results)
            lost = sum(each["lost"] for each in results)
            rows.append({"form": form, "size": size, "rate": round(rate), "lost": lost})
    print(file=sys.stderr)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'bytes':>6}  {'form':<20} {'events/s':>12}  {'of raw':>7}  lost")
    for row in rows:
        raw = next(each["rate"] for each in rows if each["size"] == row["size"])
        share = row["rate"] / raw
        print(f"{row['size']:>6}  {row['form']:<20} {row['rate']:>12,}  {share:>6.1%}  {row['lost']}")


if __name__ == "__main__":
    main()
