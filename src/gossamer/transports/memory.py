"""memory:///path: processes of one host, through memory that they share.

A unix socket at the path brings the two together. Whoever connects makes the memory and passes it over the
socket. Then frames go through a ring for each direction, and the socket only carries words of one byte: there
is something to read, I wait for room, there is room, this was all. So nobody spins, and the system tells when
the other process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from urllib.parse import urlsplit

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect, ProtocolError
from gossamer.core.wire import Framer, cut
from gossamer.transports import ring
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Frame, Sink, Transport
from gossamer.transports.stream import linger

GREETING = b"gossamer memory 1"
DATA, FULL, ROOM, END = b"d", b"f", b"r", b"e"
WORDS = 4096
"""Words read at once."""
MAX_PATH = 100
SECONDS_TO_GREET = 5.0
BACKLOG = 128


class MemoryConnection(Connection):
    """One end. What finds no room in the ring waits here."""

    def __init__(self, sock: socket.socket, memory: ring.Memory, remote: str) -> None:
        self.remote = remote
        self.sink: Sink
        self._sock, self._memory = sock, memory
        self._loop = asyncio.get_running_loop()
        self._framer = Framer()
        self._waiting: deque[memoryview] = deque()
        self._pending = 0
        self._unsaid = b""
        self._paused = self._closing = self._ended = self._finishing = self._over = False
        self._high = self._asked = False
        self._error: Exception | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    def begin(self, accept: Accept) -> None:
        """Tell a sink everything from now on."""
        self.sink = accept(self)
        if not self._over:
            self._loop.add_reader(self._sock.fileno(), self._hear)

    # sending

    @property
    def pending(self) -> int:
        return self._pending

    @property
    def ending(self) -> bool:
        return self._closing or self._over

    def send(self, frame: bytes) -> None:
        self.send_pieces((frame,))

    def send_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        size = sum(map(len, pieces))
        if size > self.max_frame:
            raise ValueError(f"frame of {size} bytes, limit {self.max_frame}")
        if not self.ending:
            self._waiting.extend(map(memoryview, pieces))
            self._pending += size
            if self._pending == size:
                self._write()
            self._high = self._high or self._pending > HIGH_WATER

    def _write(self) -> None:
        """Put as much into the ring as fits, and say so."""
        try:
            wrote = 0
            while self._waiting:
                count = self._memory.write(self._waiting[0])
                wrote += count
                if count < len(self._waiting[0]):
                    self._waiting[0] = self._waiting[0][count:]
                    break
                self._waiting.popleft()
        except ProtocolError as error:
            self._end(error)
            return
        self._pending -= wrote
        if self._waiting:
            self._say(FULL)
        elif wrote:
            self._say(DATA)
        if self._closing and not self._waiting and not self._ended:
            self._ended = True
            self._say(END)

    def _say(self, word: bytes) -> None:
        """Say a word; if the other side has not heard many others, it need not be told of data again."""
        if self._unsaid:
            self._unsaid += word if word != DATA else b""
            return
        try:
            self._sock.send(word)
        except BlockingIOError:
            if word != DATA:
                self._unsaid = word
                self._loop.add_writer(self._sock.fileno(), self._say_rest)
        except OSError:
            pass  # the other side is gone, which shows where its words are read

    def _say_rest(self) -> None:
        words, self._unsaid = self._unsaid, b""
        self._loop.remove_writer(self._sock.fileno())
        for place in range(len(words)):
            self._say(words[place : place + 1])

    # receiving

    def _hear(self) -> None:
        try:
            words = self._sock.recv(WORDS)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if FULL in words:
            self._asked = True
        if ROOM in words and self._waiting:
            self._write()
            if not self._waiting and self._high and not self._over:
                self._high = False
                self.sink.drained()
        if (END in words or not words) and not self._over:
            # nothing more comes; what is in the ring is still read, as soon as the reader wants it
            self._loop.remove_reader(self._sock.fileno())
            self._finishing = True
            if END not in words and not self._ended:
                self._error = ConnectionResetError("the other process is gone")
        self._read()

    def _read(self) -> None:
        while not self._over and (not self._paused or self._closing):
            frames: list[Frame] = []
            broken: ProtocolError | None = None
            count = 0
            try:
                piece = self._memory.peek()
                count = len(piece) if self._closing else self._cut(piece, frames)
            except ProtocolError as error:
                broken = error
            if frames:
                self.sink.received(frames)
            if broken is not None:
                self._end(broken)
                return
            if not count:
                break
            if not self._over:
                self._memory.taken(count)
        if self._over or (self._paused and not self._closing):
            return
        if self._asked:
            self._asked = False
            self._say(ROOM)
        if self._finishing:
            self._end(self._error)

    def _cut(self, piece: memoryview, frames: list[Frame]) -> int:
        """The frames that are whole, where they are; how much of the piece is done with then.

        A frame that is not in one piece, because the ring ends within it, is copied out as it comes.
        """
        if missing := self._framer.missing:
            frames += self._framer.feed(piece[:missing])
            return min(missing, len(piece))
        whole: list[memoryview] = []
        try:
            done, wanted = cut(piece, whole)
        finally:
            frames += whole
        if done + wanted > self._memory.straight:
            self._framer.feed(piece[done:])
            return len(piece)
        return done

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._read)

    # the end

    async def close(self) -> None:
        """Send what is pending, and throw away what comes until the other end has closed too."""
        if not self._closing and not self._over:
            self._closing = True
            self._write()
            self._loop.call_soon(self._read)
        await linger(self, self._gone)

    def abort(self) -> None:
        self._closing = True
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self._waiting.clear()
        self._pending = 0
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self._memory.close()
        if not self._gone.done():
            self._gone.set_result(None)
        self.sink.lost(error)


class MemoryListener:
    """Waits for others at a path."""

    def __init__(self, sock: socket.socket, path: str, accept: Accept) -> None:
        self.address = f"memory://{path}"
        self._sock, self._path, self._accept = sock, path, accept
        self._loop = asyncio.get_running_loop()
        self._strangers: dict[socket.socket, asyncio.TimerHandle] = {}
        self._loop.add_reader(sock.fileno(), self._come)

    def _come(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._sock.accept()
            sock.setblocking(False)
            self._strangers[sock] = self._loop.call_later(SECONDS_TO_GREET, self._refuse, sock)
            self._loop.add_reader(sock.fileno(), self._greeted, sock)

    def _refuse(self, sock: socket.socket) -> None:
        self._forget(sock)
        sock.close()

    def _forget(self, sock: socket.socket) -> None:
        self._strangers.pop(sock).cancel()
        self._loop.remove_reader(sock.fileno())

    def _greeted(self, sock: socket.socket) -> None:
        """Somebody has said something: with memory that is what it should be, it is a connection."""
        descriptors: list[int] = []
        try:
            words, descriptors, _, _ = socket.recv_fds(sock, len(GREETING), 1)
            if words != GREETING or len(descriptors) != 1:
                self._refuse(sock)
                return
            memory = ring.Memory(descriptors[0], opened=False)
        except (OSError, ValueError, ProtocolError):
            self._refuse(sock)
            return
        finally:
            for each in descriptors:
                os.close(each)
        self._forget(sock)
        MemoryConnection(sock, memory, self.address).begin(self._accept)

    async def close(self) -> None:
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        for each in tuple(self._strangers):
            self._refuse(each)


class MemoryTransport(Transport):
    """Connections between processes of one host."""

    scheme = "memory"

    async def listen(self, address: str, accept: Accept) -> MemoryListener:
        path = path_of(address)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            try:
                sock.bind(path)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                if not _left_behind(path):
                    raise AddressInUse(address) from None
                os.unlink(path)
                sock.bind(path)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise BadAddress(address, (error.strerror or str(error)).lower()) from None
        except AddressInUse:
            sock.close()
            raise
        return MemoryListener(sock, path, accept)

    async def connect(self, address: str, accept: Accept) -> Connection:
        path = path_of(address)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(path)
            descriptor = ring.make()
            try:
                socket.send_fds(sock, [GREETING], [descriptor])
                memory = ring.Memory(descriptor, opened=True)
            finally:
                os.close(descriptor)
        except OSError as error:
            sock.close()
            raise CannotConnect(address, (error.strerror or str(error)).lower()) from None
        connection = MemoryConnection(sock, memory, address)
        connection.begin(accept)
        return connection


def _left_behind(path: str) -> bool:
    """Whether a process that is gone has left its socket there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def path_of(address: str) -> str:
    """The path of ``memory:///path``; raises BadAddress."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise BadAddress(address, str(error)) from None
    path = parts.path
    if parts.scheme != "memory" or parts.netloc or len(path) < 2 or "\0" in path:
        raise BadAddress(address, "expected memory:/// and a path, such as memory:///tmp/hub")
    if len(os.fsencode(path)) > MAX_PATH:
        raise BadAddress(address, f"a path of {MAX_PATH} bytes at most")
    return path
