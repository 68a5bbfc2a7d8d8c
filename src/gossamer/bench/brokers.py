"""Servers that other systems need: started on a free loopback port, in a folder of their own, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

from gossamer.bench.systems import program
from gossamer.core.errors import CannotConnect

HOST = "127.0.0.1"
WAIT = 10.0
"""Seconds that a server may take to listen, or to stop."""

NATS = """
listen: "{host}:{port}"
max_payload: 8388608
max_pending: 1073741824
write_deadline: "60s"
"""
REDIS = """
bind {host}
port {port}
save ""
appendonly no
client-output-buffer-limit pubsub 0 0 0
dir {folder}
"""
MOSQUITTO = """
listener {port} {host}
allow_anonymous true
max_queued_messages 0
max_queued_bytes 0
set_tcp_nodelay true
persistence false
log_type error
"""
SETTINGS = {"nats-server": NATS, "redis-server": REDIS, "mosquitto": MOSQUITTO}
OPTION = {"nats-server": ("-c",), "redis-server": (), "mosquitto": ("-c",)}


def free_port() -> int:
    """A loopback port that nobody uses."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


class Broker:
    """One server; use it with ``async with``."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.port = free_port()
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def __aenter__(self) -> Broker:
        path = program(self.name)
        if path is None:
            raise CannotConnect(self.name, "it is not installed")
        settings = self._folder / f"{self.name}.conf"
        settings.write_text(SETTINGS[self.name].format(host=HOST, port=self.port, folder=self._folder))
        self._process = await asyncio.create_subprocess_exec(
            path,
            *OPTION[self.name],
            str(settings),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await self._listening()
        except BaseException:
            await self.stop()
            raise
        return self

    async def _listening(self) -> None:
        try:
            async with asyncio.timeout(WAIT):
                while True:
                    with contextlib.suppress(OSError):
                        _, writer = await asyncio.open_connection(HOST, self.port)
                        writer.close()
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise CannotConnect(f"{HOST}:{self.port}", f"{self.name} does not listen") from None

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ask it to end, and make it end if it does not."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(WAIT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
