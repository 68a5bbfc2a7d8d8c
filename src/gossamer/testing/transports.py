"""What every transport must do, as tests that its author inherits.

::

    class TestMine(TransportConformance):
        def make(self):
            return MyTransport(), "mine://127.0.0.1:0"

Each test makes its own transport and runs it in an event loop of its own. Nothing sleeps: a test waits for
what must happen, and fails if it has not happened within ``seconds``. A test also fails if a sink is told
anything after ``lost``, is told ``lost`` twice or never, or if an exception escapes into the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar
from unittest import SkipTest

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect
from gossamer.testing.party import SMALLEST, Party, Recorder, frame, number_of, turns
from gossamer.transports.base import HIGH_WATER, Transport

LARGEST = 2 * 1024 * 1024
"""Bytes of the largest frame tried; transports may allow more."""


class TransportConformance:
    """Inherit, say how to ``make`` the transport, and set what differs from the usual.

    shared
        Several may listen at one address and all hear each other, as in a multicast group.
    connectionless
        ``connect`` succeeds though nobody is there.
    bad_addresses
        What neither ``listen`` nor ``connect`` may accept.
    seconds
        How long one test may take.
    """

    shared: ClassVar[bool] = False
    connectionless: ClassVar[bool] = False
    bad_addresses: ClassVar[tuple[str, ...]] = ()
    seconds: ClassVar[float] = 10.0

    def make(self) -> tuple[Transport, str]:
        """A transport, and an address nobody listens on yet."""
        raise NotImplementedError

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop to run in; override to try another."""
        return asyncio.new_event_loop()

    async def garbage(self, address: str) -> None:
        """Send a listener bytes that mean nothing, the way an unrelated program might. Optional."""
        raise SkipTest("no garbage is sent to this transport")

    # frames

    def test_a_frame_of_any_size_arrives_whole_in_both_directions(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            limit = min(near.connection.max_frame, LARGEST)
            sizes = [SMALLEST, 100, near.connection.best_frame, 65_000, 65_536, 300_000, limit - 1, limit]
            for one, other in ((near, far), (far, near)):
                for number, size in enumerate(size for size in sizes if size <= limit):
                    one.connection.send(frame(number, size))
                    frames = await other.has(number + 1)
                    assert frames[number] == frame(number, size)

        self._run(check)

    def test_frames_of_a_reliable_connection_arrive_once_and_in_order(self) -> None:
        async def check(party: Party) -> None:
            near, far = await self._reliable_pair(party)
            sent = [frame(number, SMALLEST + number % 977) for number in range(5000)]
            for each in sent:
                near.connection.send(each)
            assert await far.has(len(sent)) == sent

        self._run(check)

    def test_a_sink_may_send_while_it_receives(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()

            def echo(frames: list[bytes]) -> None:
                for each in frames:
                    far.connection.send(each)

            far.on_received = echo
            for number in range(100):
                near.connection.send(frame(number))
                assert (await near.has(number + 1))[number] == frame(number)

        self._run(check)

    def test_one_byte_over_the_largest_frame_is_refused(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            for each in (near, far):
                await _raises(ValueError, _call(each.connection.send, bytes(each.connection.max_frame + 1)))
            near.connection.send(frame(7))
            assert await far.has(1) == [frame(7)]

        self._run(check)

    def test_many_connections_to_one_listener_are_kept_apart(self) -> None:
        if self.shared:
            raise SkipTest("members of a shared address all hear each other")

        async def check(party: Party) -> None:
            pairs = [await party.pair() for _ in range(20)]
            for number, (near, far) in enumerate(pairs):
                near.connection.send(frame(number))
                far.connection.send(frame(1000 + number))
            for number, (near, far) in enumerate(pairs):
                assert await far.has(1) == [frame(number)]
                assert await near.has(1) == [frame(1000 + number)]
            assert len(party.accepted) == len(pairs)

        self._run(check)

    # waiting

    def test_a_paused_receiver_makes_the_sender_wait_and_nothing_is_lost(self) -> None:
        async def check(party: Party) -> None:
            near, far = await self._reliable_pair(party)
            sent = [frame(number, 256 * 1024) for number in range(160)]
            near.connection.send(sent[0])
            far.connection.pause()
            for each in sent[1:]:
                near.connection.send(each)
            for number in range(1000):  # The other direction works, and shows that time went by.
                far.connection.send(frame(number))
                await near.has(number + 1)
            assert far.frames == []
            assert near.connection.pending > HIGH_WATER
            assert near.drains == 0
            far.connection.resume()
            await far.has(len(sent))
            assert far.frames == sent
            await near.until(lambda: near.drains > 0)
            assert near.drains == 1
            assert near.connection.pending == 0

        self._run(check)

    def test_a_paused_receiver_is_told_nothing_until_it_resumes(self) -> None:
        async def check(party: Party) -> None:
            near, far = await self._reliable_pair(party)
            far.on_received = lambda frames: far.connection.pause()
            for number in range(2000):
                near.connection.send(frame(number))
            count = 0
            while count < 2000:
                far.connection.resume()
                count = len(await far.has(count + 1))
                far.connection.send(frame(count))
                await near.until(lambda count=count: near.frames[-1:] == [frame(count)])  # type: ignore[misc]
                assert len(far.frames) == count
            assert [number_of(each) for each in far.frames] == list(range(2000))

        self._run(check)

    def test_pausing_an_unreliable_connection_changes_nothing(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            if near.connection.reliable:
                raise SkipTest("the connection is reliable")
            far.connection.pause()
            near.connection.send(frame(1))
            assert await far.has(1) == [frame(1)]
            far.connection.resume()

        self._run(check)

    # endings

    def test_closing_delivers_what_is_pending_and_both_ends_are_told(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            reliable = near.connection.reliable
            sent = [frame(number, 256 * 1024) for number in range(40)] if reliable else [frame(1)]
            for each in sent:
                near.connection.send(each)
            await near.connection.close()
            assert near.losses == [None]
            await far.is_lost()
            assert far.frames == sent
            assert far.losses == [None]

        self._run(check)

    def test_closing_delivers_what_is_pending_though_the_other_end_is_sending(self) -> None:
        async def check(party: Party) -> None:
            near, far = await self._reliable_pair(party)
            sent = [frame(number, 256 * 1024) for number in range(40)]
            near.connection.pause()
            for each in sent:
                near.connection.send(each)
                for _ in range(5):
                    far.connection.send(each)
            await near.connection.close()
            await far.is_lost()
            assert far.frames == sent
            far.connection.abort()

        self._run(check)

    def test_a_receiver_paused_while_the_other_end_closes_still_gets_everything(self) -> None:
        async def check(party: Party) -> None:
            near, far = await self._reliable_pair(party)
            far.connection.pause()
            sent = [frame(number, 256 * 1024) for number in range(40)]
            for each in sent:
                near.connection.send(each)
            closing = asyncio.ensure_future(near.connection.close())
            await turns()
            assert far.losses == []
            far.connection.resume()
            await closing
            await far.is_lost()
            assert far.frames == sent

        self._run(check)

    def test_the_accepting_end_may_close_too(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            far.connection.send(frame(1))
            await far.connection.close()
            await near.is_lost()
            assert near.frames == [frame(1)]

        self._run(check)

    def test_closing_twice_and_from_both_ends_at_once_is_safe(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            ends = (near.connection, far.connection, near.connection)
            await asyncio.gather(*(each.close() for each in ends))
            near.connection.abort()
            await near.connection.close()

        self._run(check)

    def test_aborting_ends_both_sides(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            far.connection.abort()
            far.connection.abort()
            await far.is_lost()
            await near.is_lost()

        self._run(check)

    def test_a_connection_may_be_aborted_while_it_is_accepted(self) -> None:
        async def check(party: Party) -> None:
            party.on_accept = lambda connection: connection.abort()
            near = await party.connect()
            near.connection.send(frame(1))
            await near.is_lost()
            assert [each.frames for each in party.accepted] == [[]]

        self._run(check)

    def test_after_the_loss_sending_pausing_and_closing_do_nothing(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            await near.connection.close()
            await far.is_lost()
            for each in (near, far):
                each.connection.send(frame(1))
                each.connection.pause()
                each.connection.resume()
                each.connection.abort()
                await each.connection.close()
                assert each.connection.pending == 0

        self._run(check)

    # addresses

    def test_a_second_listener_at_one_address_is_refused(self) -> None:
        if self.shared:
            raise SkipTest("the address is shared")

        async def check(party: Party) -> None:
            await _raises(AddressInUse, party.transport.listen(party.server.address, party.accept))
            near, far = await party.pair()
            near.connection.send(frame(1))
            assert await far.has(1) == [frame(1)]

        self._run(check)

    def test_an_address_can_be_used_again_after_closing(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            await near.connection.close()
            await far.is_lost()
            await party.server.close()
            party.asked = party.server.address
            await party.listen()
            near, far = await party.pair()
            near.connection.send(frame(1))
            assert await far.has(1) == [frame(1)]

        self._run(check)

    def test_connecting_where_nobody_is_fails(self) -> None:
        if self.connectionless:
            raise SkipTest("this transport cannot know")

        async def check(party: Party) -> None:
            await party.server.close()
            await _raises(CannotConnect, party.connect())

        self._run(check)

    def test_an_address_that_makes_no_sense_is_refused(self) -> None:
        async def check(party: Party) -> None:
            for address in (f"{party.transport.scheme}://", *self.bad_addresses):
                await _raises(BadAddress, party.transport.listen(address, party.accept))
                await _raises(BadAddress, party.transport.connect(address, party.greet))

        self._run(check)

    def test_a_closed_listener_keeps_its_connections_and_takes_no_more(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            await party.server.close()
            try:
                late = await party.connect()
                late.connection.send(frame(9))
            except CannotConnect:
                assert not self.shared
            near.connection.send(frame(1))
            assert await far.has(1) == [frame(1)]
            far.connection.send(frame(2))
            await near.until(lambda: frame(2) in near.frames)
            assert party.accepted == [far]

        self._run(check)

    # strangers

    def test_garbage_disturbs_nobody(self) -> None:
        async def check(party: Party) -> None:
            near, far = await party.pair()
            await self.garbage(party.server.address)
            near.connection.send(frame(1))
            assert await far.has(1) == [frame(1)]
            if not self.shared:
                later, accepted = await party.pair()
                later.connection.send(frame(2))
                assert await accepted.has(1) == [frame(2)]

        self._run(check)

    # how

    async def _reliable_pair(self, party: Party) -> tuple[Recorder, Recorder]:
        near, far = await party.pair()
        if not near.connection.reliable:
            raise SkipTest("the connection is not reliable")
        return near, far

    def _run(self, check: Callable[[Party], Awaitable[None]]) -> None:
        escaped: list[dict[str, Any]] = []

        async def whole() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, problem: escaped.append(problem))
            party = Party(*self.make())
            async with asyncio.timeout(self.seconds):
                await party.listen()
                try:
                    await check(party)
                finally:
                    await party.end()

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(whole())
        assert escaped == [], f"escaped into the event loop: {escaped}"


async def _raises(expected: type[Exception], awaitable: Awaitable[object]) -> None:
    try:
        await awaitable
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


async def _call(function: Callable[[bytes], None], argument: bytes) -> None:
    function(argument)
