"""Calls of an application to the services of its node: a number each, and who takes the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gossamer.core.effect import Reply


class Calls:
    """The open calls of one node; ``begin`` takes service, number and request to the engine."""

    def __init__(self, begin: Callable[[str, int, Any], None]) -> None:
        self._begin = begin
        self._number = 0
        self._takers: dict[int, Callable[[Reply], None]] = {}

    async def ask(self, service: str, request: Any) -> Any:
        """Ask a service of this node and wait for its answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(reply: Reply) -> None:
            if future.done():
                return
            if reply.error is not None:
                future.set_exception(reply.error)
            else:
                future.set_result(reply.value)

        call = self.follow(service, request, take)
        try:
            return await future
        finally:
            self._takers.pop(call, None)

    def follow(self, service: str, request: Any, take: Callable[[Reply], None]) -> int:
        """Ask for something that may have many answers; the number of the call."""
        self._number += 1
        call = self._number
        self._takers[call] = take
        try:
            self._begin(service, call, request)
        except BaseException:
            self._takers.pop(call, None)
            raise
        return call

    def reply(self, reply: Reply) -> None:
        """A service answers; an answer that nobody waits for is ignored."""
        take = self._takers.get(reply.call)
        if take is not None:
            if not reply.more:
                del self._takers[reply.call]
            take(reply)
