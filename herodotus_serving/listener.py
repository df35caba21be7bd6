"""Listening sockets: admission of connections, their number and the bytes that they hold.

Owns: accepting, TLS contexts of new connections, eviction, the end. Does not own: what happens on a connection
(`connection`), where sockets come from (`sockets`).

Invariant: a client that sends or reads nothing takes no place from others. Where connections or bytes run out, the
listener closes a connection that waits for its client, of the address that has most: one that never completed a
request first, then the oldest. Where there is none, it closes the new connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from herodotus_serving.connection import Connection, Phase
from herodotus_serving.limits import ByteBudget, Limits
from herodotus_serving.messages import Service

STAY_S: Final = 5.0  # before an address evicts a connection of its own: else clients that reconnect keep the loop busy
ABORT_S: Final = 1.0  # for the loop to close what was aborted
ACCEPT_PAUSE_S: Final = 0.1  # when the process has no file descriptor left
SEND_BUFFER: Final = 128 << 10  # of the kernel, which counts it as the container's memory
_log: Final = logging.getLogger(__name__)


class Listener:
    """Serves one listening socket. For use on the event loop."""

    def __init__(
        self,
        listening: socket.socket,
        service: Service,
        limits: Limits,
        contexts: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`contexts` returns the TLS context of the next connection, and may read files; None is plain HTTP."""
        self.service, self.limits = service, limits
        self._listening, self._contexts = listening, contexts
        self._budget = ByteBudget(limits.bytes_in_flight)
        self._open: dict[Connection, None] = {}  # in order of acceptance
        self._accepting: asyncio.Task[None] | None = None
        self._beginning: set[asyncio.Task[None]] = set()

    def start(self, context_reader: ThreadPoolExecutor) -> None:
        """Accept connections. `context_reader`: the thread in which `contexts` reads files."""
        self._listening.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(context_reader))

    async def stop(self, grace_s: float) -> None:
        """Accept no more, let requests in progress finish, then close what is left."""
        loop = asyncio.get_running_loop()
        if self._accepting is not None:
            self._accepting.cancel()
        self._listening.close()
        for connection in list(self._open):
            connection.stop()
        end = loop.time() + grace_s
        while self._open and loop.time() < end:
            await asyncio.sleep(0.02)
        for connection in list(self._open):
            connection.abort()
        end = loop.time() + ABORT_S
        while (self._open or self._beginning) and loop.time() < end:
            await asyncio.sleep(0.01)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    # For connections.

    def hold(self, connection: Connection, size: int) -> bool:
        """Reserve bytes for a connection; return False if all are held by requests that run, or by older ones."""
        while not self._budget.take(size):
            holders = [each for each in self._open if each.held and each.waits_for_client]
            victim = min(holders, key=lambda each: each.since, default=connection)
            if victim is connection:
                return False
            self.release(victim)
            victim.make_room()
        connection.held += size
        return True

    def release(self, connection: Connection) -> None:
        """Give back what a connection holds."""
        self._budget.give_back(connection.held)
        connection.held = 0

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        self._open.pop(connection, None)

    # Accepting.

    async def _accept(self, context_reader: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as e:
                _log.warning("cannot accept a connection: %s", e)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if self._make_place(peer[0]):
                connection = Connection(self, accepted, peer[:2], loop)
                self._open[connection] = None
                beginning = loop.create_task(self._begin(connection, accepted, context_reader))
                self._beginning.add(beginning)
                beginning.add_done_callback(self._beginning.discard)
            else:
                accepted.close()
            await asyncio.sleep(0)  # a flood of connections must not keep the loop from those that are open

    def _make_place(self, address: str) -> bool:
        """Make room for one more connection from an address; return False if every other one is in use."""
        counts = Counter(each.peer[0] for each in self._open)
        if counts[address] < self.limits.per_address:
            if len(self._open) < self.limits.connections:
                return True
            largest, count = counts.most_common(1)[0]
            if counts[address] + 1 < count:
                return self._evict([each for each in self._open if each.peer[0] == largest], 0.0)
        return self._evict([each for each in self._open if each.peer[0] == address], STAY_S)

    def _evict(self, connections: Collection[Connection], stay_s: float) -> bool:
        """Close a connection that has waited for its client for `stay_s`; return False if there is none."""
        before = asyncio.get_running_loop().time() - stay_s
        waiting = [each for each in connections if each.waits_for_client and each.since < before]
        if not waiting:
            return False
        victim = min(waiting, key=lambda each: (each.served > 0, each.since))
        victim.abort()
        self.forget(victim)
        return True

    async def _begin(self, connection: Connection, accepted: socket.socket, context_reader: ThreadPoolExecutor) -> None:
        """Shake hands, then hand the socket to the connection."""
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if self._contexts is not None:
                options["ssl"] = await loop.run_in_executor(context_reader, self._contexts)
                options["ssl_handshake_timeout"] = self.limits.handshake_s
            await loop.connect_accepted_socket(lambda: connection, accepted, **options)
        except OSError as e:  # no TLS, no acceptable certificate, too slow, evicted; asyncio has closed the socket
            _log.debug("connection from %s failed: %s", connection.peer[0], e)
        finally:
            if connection.phase is Phase.HANDSHAKE:
                self.forget(connection)


class Server:
    """Listeners on one event loop."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.listeners = listeners
        self._context_reader = ThreadPoolExecutor(1, "tls-context")

    def start(self) -> None:
        """Accept connections on the running loop."""
        for listener in self.listeners:
            listener.start(self._context_reader)

    async def stop(self, grace_s: float) -> None:
        """Finish the requests in progress, for `grace_s` at most."""
        await asyncio.gather(*(listener.stop(grace_s) for listener in self.listeners))
        self._context_reader.shutdown(wait=False)


class ServerThread:
    """A server whose event loop runs in a daemon thread of this process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="http", daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Close the listening sockets and every connection."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._server.start()
        self._ready.set()
        await self._end.wait()
        await self._server.stop(0.0)
