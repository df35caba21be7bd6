"""Listening sockets: admission of connections, and limits on their number and on the bytes that they hold.

Owns: accepting, TLS contexts of new connections, eviction, shutdown. Does not own: what happens on a connection
(`connection`), binding of sockets (`sockets`).

Invariant: an idle client never keeps others out. When connections or bytes run out, the listener closes a connection
that waits for its client, from the address with the most connections. It prefers one that never sent a byte, then one
that never completed a request, then the oldest. If no such connection exists, it closes the new one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from herodotus_serving.connection import READ_SIZE, HttpConnection, Phase
from herodotus_serving.limits import ByteBudget, ListenerLimits, RefusalPace
from herodotus_serving.messages import HttpService
from herodotus_serving.parsing import ParsingQueue
from herodotus_serving.probes import ProbeServer

# Before an address evicts its own connection; otherwise reconnecting clients occupy the loop. A connection without a
# complete request leaves earlier: an ordinary client must not wait for silent ones that share its address. Each that
# leaves comes again with a handshake: with 0.2 s, 200 clients over TLS took twice the processor time.
MIN_STAY_S: Final = 5.0
MIN_STAY_UNUSED_S: Final = 2.0
# A flood of connections must not keep the loop from those that are open, and those that wait must not need a step each:
# between two steps worker threads take the interpreter for 5 ms or more. One takes 0.1 ms.
ACCEPTS_PER_STEP: Final = 16
ABORT_S: Final = 1.0  # for the event loop to close aborted connections
ACCEPT_PAUSE_S: Final = 0.1  # when the process has no file descriptor left
SURPLUS_WAIT_S: Final = 5.0  # closed at once, a client would connect again at once and keep the loop busy
SEND_BUFFER: Final = 128 << 10  # the kernel charges its buffers to the container's memory
_log: Final = logging.getLogger(__name__)


class Listener:
    """The server of one listening socket: accepts connections, and limits their number and their memory.

    Not thread-safe: for use on the event loop.
    """

    def __init__(
        self,
        listening: socket.socket,
        service: HttpService,
        limits: ListenerLimits,
        contexts: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Create a listener that passes the requests of its connections to `service`.

        `contexts` returns the TLS context for a new connection and may read files. If it is None, the listener uses
        plain HTTP.
        """
        self.service, self.limits = service, limits
        self._listening, self._contexts = listening, contexts
        self._budget = ByteBudget(limits.bytes_in_flight)
        self.refusal_pace = RefusalPace()
        self._open: dict[HttpConnection, None] = {}  # in order of acceptance
        self._open_by_address: Counter[str] = Counter()
        self._surplus: set[socket.socket] = set()  # accepted and unread
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self.read_buffer = memoryview(bytearray(READ_SIZE))

    def start(self, context_reader: ThreadPoolExecutor) -> None:
        """Accept connections in a task of the running event loop.

        `context_reader` is the executor in which `contexts` is called.
        """
        self._listening.setblocking(False)
        self.turns = ParsingQueue(asyncio.get_running_loop())
        self._accepting = asyncio.get_running_loop().create_task(self._accept(context_reader))

    async def stop(self, grace_s: float) -> None:
        """Stop accepting, wait at most `grace_s` for requests in progress, then abort the remaining connections."""
        loop = asyncio.get_running_loop()
        if self._accepting is not None:
            self._accepting.cancel()
        self._listening.close()
        while self._surplus:
            self._surplus.pop().close()
        for connection in list(self._open):
            connection.stop()
        end = loop.time() + grace_s
        while self._open and loop.time() < end:
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.abort()
        end = loop.time() + ABORT_S
        while (self._open or self._handshakes) and loop.time() < end:
            await asyncio.sleep(0.01)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    # For connections.

    def hold(self, connection: HttpConnection, size: int) -> bool:
        """Reserve `size` bytes of the memory budget for a connection, and return whether that succeeded.

        If necessary, the bytes of other connections that wait for their clients are freed, the longest wait first. The
        reservation fails if no such connection is left, or if this connection itself has waited longest.
        """
        while not self._budget.acquire(size):
            holders = [each for each in self._open if each.held and each.is_evictable]
            victim = min(holders, key=lambda each: each.since, default=connection)
            if victim is connection:
                return False
            self.release(victim)
            victim.free_bytes()
        connection.held += size
        return True

    def release(self, connection: HttpConnection) -> None:
        """Release all bytes of the memory budget that a connection holds."""
        self._budget.release(connection.held)
        connection.held = 0

    def forget(self, connection: HttpConnection) -> None:
        """Remove a closed connection from the listener's open connections."""
        if connection in self._open:
            del self._open[connection]
            self._open_by_address[connection.peer[0]] -= 1
            if not self._open_by_address[connection.peer[0]]:
                del self._open_by_address[connection.peer[0]]

    # Accepting.

    async def _accept(self, context_reader: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count(1):
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as e:
                _log.warning("cannot accept a connection: %s", e)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if _has_left(accepted):
                accepted.close()
            elif not self._open_connection(accepted, peer[:2], context_reader):
                self._keep_waiting(accepted, peer[:2], context_reader)
            if number % ACCEPTS_PER_STEP == 0:
                await asyncio.sleep(0)

    def _open_connection(
        self, accepted: socket.socket, peer: tuple[str, int], context_reader: ThreadPoolExecutor
    ) -> bool:
        """Begin the handshake of an accepted connection; return False if the limits on connections forbid it."""
        if not self._admit(peer[0]):
            return False
        loop = asyncio.get_running_loop()
        connection = HttpConnection(self, accepted, peer, loop)
        self._open[connection] = None
        self._open_by_address[peer[0]] += 1
        handshake = loop.create_task(self._connect(connection, accepted, context_reader))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)
        return True

    def _keep_waiting(self, accepted: socket.socket, peer: tuple[str, int], context_reader: ThreadPoolExecutor) -> None:
        """Leave a surplus connection unread for SURPLUS_WAIT_S seconds, then open it if the limits permit, or close it.

        If too many connections wait already, close it immediately.
        """
        if len(self._surplus) >= self.limits.connections // 2:
            accepted.close()
            return

        def admit_or_close() -> None:
            if accepted in self._surplus:  # the listener has not stopped
                self._surplus.discard(accepted)
                if not self._open_connection(accepted, peer, context_reader):
                    accepted.close()

        self._surplus.add(accepted)
        asyncio.get_running_loop().call_later(SURPLUS_WAIT_S, admit_or_close)

    def _admit(self, address: str) -> bool:
        """Return whether a new connection from a client address may be opened.

        If a limit is reached, a waiting connection is closed to make room; the result is False if there is none to
        close.
        """
        counts = self._open_by_address
        if counts[address] < self.limits.per_address:
            if len(self._open) < self.limits.connections:
                return True
            largest, count = counts.most_common(1)[0]
            if counts[address] + 1 < count:
                return self._evict([each for each in self._open if each.peer[0] == largest], 0.0)
        return self._evict([each for each in self._open if each.peer[0] == address], MIN_STAY_S)

    def _evict(self, connections: Collection[HttpConnection], min_stay_s: float) -> bool:
        """Abort one of `connections` that has waited for its client for at least `min_stay_s` seconds.

        Connections that never completed a request come first, of these the ones that sent no byte, then the longest
        wait. For connections without a complete request, `min_stay_s` is at most MIN_STAY_UNUSED_S. Return False if
        none has waited that long.
        """
        now = asyncio.get_running_loop().time()

        def may_go(each: HttpConnection) -> bool:
            stay_s = min_stay_s if each.served else min(min_stay_s, MIN_STAY_UNUSED_S)
            return each.is_evictable and each.since < now - stay_s

        waiting = [each for each in connections if may_go(each)]
        if not waiting:
            return False
        victim = min(waiting, key=lambda each: (each.served > 0, each.has_sent, each.since))
        victim.abort()
        self.forget(victim)
        return True

    async def _connect(
        self, connection: HttpConnection, accepted: socket.socket, context_reader: ThreadPoolExecutor
    ) -> None:
        """Perform the TLS handshake, if TLS is configured, and attach the accepted socket to the connection."""
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if self._contexts is not None:
                options["ssl"] = await loop.run_in_executor(context_reader, self._contexts)
                options["ssl_handshake_timeout"] = self.limits.handshake_s
            await loop.connect_accepted_socket(lambda: connection, accepted, **options)
        except OSError as e:  # not TLS, bad certificate, too slow, evicted; asyncio has closed the socket
            _log.debug("connection from %s failed: %s", connection.peer[0], e)
        finally:
            if connection.phase is Phase.HANDSHAKE:
                self.forget(connection)


def _has_left(accepted: socket.socket) -> bool:
    """Return whether the client of a new connection has closed or reset it, so that it needs no handshake."""
    try:
        return not accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


class Server:
    """The HTTP server of one event loop, with one listener for each listening socket, and a server of probes.

    `at_end` runs after the last request, in a thread.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        at_end: Callable[[], None] | None = None,
        probes: ProbeServer | None = None,
    ) -> None:
        self.listeners = listeners
        self._probes = probes
        self._at_end = at_end
        self._context_reader = ThreadPoolExecutor(1, "tls-context")

    def start(self) -> None:
        """Start all listeners on the running event loop."""
        for listener in self.listeners:
            listener.start(self._context_reader)
        if self._probes:
            self._probes.start()

    async def stop(self, grace_s: float) -> None:
        """Stop all listeners, then the answers to probes; wait at most `grace_s` for requests in progress."""
        await asyncio.gather(*(listener.stop(grace_s) for listener in self.listeners))
        if self._probes:
            await asyncio.to_thread(self._probes.close)
        self._context_reader.shutdown(wait=False)
        if self._at_end:
            await asyncio.to_thread(self._at_end)


class ServerThread:
    """An HTTP server whose event loop runs in a daemon thread of this process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="http", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until the server accepts connections."""
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Close the listening sockets and all connections, and wait for the thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_requested.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop_requested = asyncio.get_running_loop(), asyncio.Event()
        self._server.start()
        self._ready.set()
        await self._stop_requested.wait()
        await self._server.stop(0.0)
