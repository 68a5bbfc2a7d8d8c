"""Connections from here: dialling an address, and keeping links to the configured addresses open."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable

from gossamer.core.errors import BadAddress, CannotConnect, GossamerError, LocalError, Refused
from gossamer.core.names import Role
from gossamer.runtime.config import NodeConfig
from gossamer.runtime.host import Host
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.link import Link
from gossamer.transports.base import Connection, Transport

log = logging.getLogger("gossamer")


class Reach:
    """Opens connections for one node.

    transport
        Finds the transport for an address.
    patient
        Whether the node starts although nobody answers yet.
    """

    def __init__(
        self, host: Host, config: NodeConfig, transport: Callable[[str], Transport], patient: bool
    ) -> None:
        self._host = host
        self._config = config
        self._transport = transport
        self._patient = patient

    async def begin(self) -> list[asyncio.Task[None]]:
        """Open links to the configured addresses; the tasks that keep them open."""
        addresses = self._config.connect
        alternatives = self._config.role in (Role.CLIENT, Role.SECONDARY)
        self._host.wants_server = alternatives and bool(addresses)
        groups = [addresses] if alternatives and addresses else [(each,) for each in addresses]
        tasks = []
        for group in groups:
            link = None
            try:
                link = await self._first(group)
            except GossamerError as error:
                if isinstance(error, LocalError) or not self._patient:
                    raise
                log.warning("%s; trying again", error)
            tasks.append(asyncio.create_task(self._keep(group, link)))
        return tasks

    async def _first(self, addresses: Iterable[str]) -> Link:
        """A link to the first address that answers."""
        failure: GossamerError | None = None
        for address in addresses:
            try:
                return await self.link(address)
            except GossamerError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    async def link(self, address: str) -> Link:
        """Open a connection to an address; the link that it makes or joins."""
        seconds = self._config.limits.answer
        strands: list[Strand] = []
        transport = self._transport(address)

        def accept(connection: Connection) -> Strand:
            strands.append(self._host.neighbours.open(connection, transport.scheme, address))
            return strands[-1]

        try:
            async with asyncio.timeout(seconds):
                await transport.connect(address, accept)
                return await self._greeted(strands)
        except TimeoutError:
            reason = f"no greeting within {seconds:g} s"
        except Refused as error:
            raise Refused(address, error.reason) from None
        except (CannotConnect, BadAddress):
            raise
        except (GossamerError, OSError) as error:
            reason = str(error)
        for strand in strands:
            strand.connection.abort()
        raise CannotConnect(address, reason)

    async def _greeted(self, strands: list[Strand]) -> Link:
        """The first link that is greeted. In a group others may still come after one that refuses."""
        alone = strands[0].connection.group is None
        await self._host.until(
            lambda: any(each.link for each in strands) or (alone and strands[0].greeted.done())
        )
        for strand in strands:
            if strand.link is not None:
                return strand.link
        return await strands[0].greeted

    async def _keep(self, addresses: tuple[str, ...], link: Link | None) -> None:
        """Open a link again when it is gone, slower and slower, for as long as the node lives."""
        delay = 0.1
        while True:
            if link is not None:
                await link.gone.wait()
                delay = 5.0 if link.refusal else 0.1
                if link.refusal:
                    log.error("%s", Refused(link.peer, link.refusal))
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, 5.0)
            link = None
            try:
                link = await self._first(addresses)
            except Refused as error:
                log.error("%s", error)
                delay = 5.0
            except GossamerError as error:
                log.debug("%s", error)
