"""The network between the simulated processes: requests with delays, losses and partitions.

Owns: the way of a request and its response, clients of HTTP that use it. Does not own: what servers answer, and the
faults that a server injects (`herodotus_sim.faults`).

A request travels to its server, which handles it in a thread of its own even if the client is gone meanwhile, and the
response travels back. Either way may be slow, or lost by a partition, and the client waits until its timeout.

A proxy may send a write twice, and the client then gets the second response.

Invariant: a client that gets a response gets it after the request was handled.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx

from bench.simulation.machine import (
    MachineError,
    VirtualMachine,
    VirtualProcess,
    Waiters,
    current_process,
    require_machine,
)
from herodotus_kube import connection_pool
from herodotus_kube.responses import ApiResponse

DELAY_S: Final = 0.0004  # median of one way
SLOW_SHARE: Final = 0.02  # of the messages that take up to SLOW_S
SLOW_S: Final = 0.15

REPEATED_SHARE: Final = 0.02  # of the writes that a proxy sends again, because it lost the first response

Handler = Callable[[httpx.Request, "Exchange"], httpx.Response]


class Exchange:
    """A request under way, with its response. A response with a stream is read chunk by chunk."""

    def __init__(self, client: VirtualProcess) -> None:
        self.client = client
        self.response: httpx.Response | None = None
        self.error: Exception | None = None
        self.chunks: deque[bytes | Exception | None] = deque()
        self.changed = Waiters()
        self.given_up = False

    @property
    def is_client_gone(self) -> bool:
        """Whether the client has given up or its process has ended."""
        return self.given_up or not self.client.running

    def is_answered(self) -> bool:
        """Return whether the head of the response, or an error, has arrived."""
        return self.response is not None or self.error is not None


class Network:
    """The servers by host name, and which pairs of processes are cut off from each other."""

    def __init__(self, machine: VirtualMachine, seed: str) -> None:
        self.machine = machine
        self.requests = 0
        self._draw = random.Random(f"network of {seed}")
        self._servers: dict[str, tuple[VirtualProcess, Handler]] = {}
        self._cuts: dict[tuple[str, str], tuple[str, float]] = {}
        self.on_request: Callable[[VirtualProcess, httpx.Request], None] = lambda client, request: None
        self.on_response: Callable[[VirtualProcess, httpx.Request, httpx.Response, float], None] = (
            lambda client, request, response, sent_s: None
        )

    def reseed(self, seed: str) -> None:
        """Let another seed decide from now on."""
        self._draw.seed(f"network of {seed}")

    def serve(self, host: str, process: VirtualProcess, handler: Handler) -> None:
        """Let a process handle the requests to a host, instead of the process that did so before."""
        self._servers[host] = process, handler

    def cut(self, client: str, host: str, way: str, share: float = 1.0) -> None:
        """Lose messages between the processes whose name begins with `client` and a host: all, or a share of them.

        `way` is "request", "response" or "both".
        """
        self._cuts[client, host] = way, share

    def mend(self, client: str | None = None, host: str | None = None) -> None:
        """End the cuts between these two, or all."""
        for cut in [cut for cut in self._cuts if client is None or cut == (client, host)]:
            del self._cuts[cut]

    def is_lost(self, client: str, host: str, way: str) -> bool:
        """Return whether a message of a client's request is lost on this way."""
        return any(
            client.startswith(name) and host == server and cut in (way, "both") and self._draw.random() < share
            for (name, server), (cut, share) in self._cuts.items()
        )

    def delay(self) -> None:
        """Let the current thread wait as long as a message travels."""
        if self._draw.random() < SLOW_SHARE:
            self.machine.sleep(self._draw.random() * SLOW_S)
        else:
            self.machine.sleep(DELAY_S * math.exp(self._draw.gauss(0.0, 0.7)))

    def send(self, request: httpx.Request, timeout: dict[str, float | None]) -> Exchange:
        """Send a request, wait for the head of its response, and return the exchange. Raise httpx.TransportError."""
        client = current_process()
        assert client is not None, "a request outside of every process"
        host = request.url.host
        process, handler = self._servers[host]
        self.requests += 1
        self.on_request(client, request)
        exchange, kind, sent_s = Exchange(client), describe_request(request), self.machine.now
        self.machine.reach(client, f"send {kind}")
        if self.is_lost(client.name, host, "request") and self._draw.random() < 0.5:
            self.machine.sleep(timeout.get("connect") or 5.0)
            raise httpx.ConnectTimeout("an injected partition", request=request)
        if not process.running:
            self.delay()
            raise httpx.ConnectError("connection refused", request=request)
        process.start("request", lambda: self._carry(exchange, host, process, handler, request))
        ends = None if timeout.get("read") is None else self.machine.now + (timeout["read"] or 0.0)
        while not exchange.is_answered():
            woken = self.machine.wait(exchange.changed, None if ends is None else ends - self.machine.now)
            if not woken and not exchange.is_answered():
                exchange.given_up = True
                self.machine.reach(client, f"no answer to {kind}")
                raise httpx.ReadTimeout("no response in time", request=request)
        if exchange.error is not None:
            self.machine.reach(client, f"no answer to {kind}")
            raise httpx.RemoteProtocolError(str(exchange.error), request=request)
        if exchange.response is not None:
            self.on_response(client, request, exchange.response, sent_s)
            self.machine.reach(client, f"answer {exchange.response.status_code} to {kind}")
        return exchange

    def _carry(
        self, exchange: Exchange, host: str, process: VirtualProcess, handler: Handler, request: httpx.Request
    ) -> None:
        """Carry a request to its server, handle it, and carry the response back. Runs in a thread of the server."""

        def reset() -> None:
            exchange.error = exchange.error or ConnectionResetError("the server ended")
            exchange.chunks.append(exchange.error)
            exchange.changed.wake()

        process.on_exit.append(reset)
        try:
            self.delay()
            name = exchange.client.name
            if self.is_lost(name, host, "request"):
                return
            try:
                if request.method != "GET" and self._draw.random() < REPEATED_SHARE:
                    handler(request, exchange)
                    self.delay()
                response = handler(request, exchange)
            except OSError as e:
                exchange.error = e
                exchange.changed.wake()
                return
            self.machine.reach(exchange.client, f"handled {describe_request(request)}")
            self.delay()
            if self.is_lost(name, host, "response"):
                return
            exchange.response = response
            exchange.changed.wake()
            self._stream(exchange, host, request, response)
        finally:
            process.on_exit.remove(reset)

    def _stream(self, exchange: Exchange, host: str, request: httpx.Request, response: httpx.Response) -> None:
        stream, kind = response.extensions.get("chunks"), describe_request(request)
        if stream is None:
            return
        end: Exception | None = None
        try:
            for chunk in stream:
                if exchange.is_client_gone:
                    break
                self.delay()
                if not self.is_lost(exchange.client.name, host, "response"):
                    exchange.chunks.append(chunk)
                    exchange.changed.wake()
                    self.machine.reach(exchange.client, f"event of {kind}")
                else:  # TCP sends it again until the connection is given up
                    end = ConnectionResetError("an injected partition")
                    break
        except OSError as e:
            end = e
        finally:
            stream.close()
        exchange.chunks.append(end)
        exchange.changed.wake()


def describe_request(request: httpx.Request) -> str:
    """Return the method and the resource of a request, without names: `POST pods/binding`."""
    parts = request.url.path.strip("/").split("/")
    method = "WATCH" if "watch" in request.url.params else request.method
    if parts[0] not in ("api", "apis"):
        return f"{method} {'/'.join(parts[:3])}"
    parts = parts[2 if parts[0] == "api" else 3 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return f"{method} {'/'.join([*parts[:1], *parts[2:3]])}"


_network: Network | None = None


def connect(network: Network | None) -> None:
    """Let the clients of this process use a network."""
    global _network
    _network = network


def _require_network() -> Network:
    if _network is None:
        raise MachineError("no network")
    return _network


class _ChunkStream(httpx.SyncByteStream):
    """The body of a watch, as it arrives."""

    def __init__(self, exchange: Exchange, request: httpx.Request, read_s: float | None) -> None:
        self._exchange, self._request, self._read_s = exchange, request, read_s

    def __iter__(self) -> Iterator[bytes]:
        exchange, machine = self._exchange, require_machine()
        while True:
            while not exchange.chunks:
                if not machine.wait(exchange.changed, self._read_s) and not exchange.chunks:
                    raise httpx.ReadTimeout("silence", request=self._request)
            chunk = exchange.chunks.popleft()
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise httpx.ReadError(str(chunk), request=self._request)
            yield chunk

    def close(self) -> None:
        self._exchange.given_up = True


class VirtualTransport(httpx.BaseTransport):
    """HTTP over the network of the run."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions.get("timeout", {})
        request.read()
        exchange = _require_network().send(request, timeout)
        response = exchange.response
        assert response is not None
        if "chunks" not in response.extensions:
            return response
        return httpx.Response(
            response.status_code, headers=response.headers, stream=_ChunkStream(exchange, request, timeout.get("read"))
        )


class VirtualConnectionPool:
    """Takes the place of `connection_pool.ConnectionPool`, whose sockets are not simulated."""

    def __init__(self, url: str, tls: object) -> None:
        self._url = httpx.URL(url)
        self._closed = False

    def send(
        self,
        data: bytes,
        timeout_s: float,
        done: Callable[[ApiResponse | OSError], None],
        precondition: Callable[[], bool],
    ) -> None:
        """Send a request in a thread of the current process, as `ConnectionPool.send` does in its own."""
        process = current_process()
        assert process is not None
        process.start("wire", lambda: done(self._exchange(data, timeout_s, precondition)))

    def close(self) -> None:
        """Refuse later requests."""
        self._closed = True

    def _exchange(self, data: bytes, timeout_s: float, precondition: Callable[[], bool]) -> ApiResponse | OSError:
        if self._closed:
            return connection_pool.NotSentError("the connection is closed")
        if not precondition():
            return connection_pool.NotSentError("it may not be sent any more")
        request = _parse_request(data, self._url)
        try:
            exchange = _require_network().send(request, {"connect": timeout_s, "read": timeout_s})
        except httpx.ConnectTimeout as e:
            return connection_pool.NotSentError(str(e))
        except httpx.ConnectError as e:
            return connection_pool.NotSentError(str(e))
        except httpx.HTTPError as e:
            return OSError(str(e) or type(e).__name__)
        response = exchange.response
        assert response is not None
        return ApiResponse(
            response.status_code,
            response.reason_phrase,
            {name.lower(): value for name, value in response.headers.items()},
            response.content,
            last=False,
        )


def _parse_request(data: bytes, url: httpx.URL) -> httpx.Request:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return httpx.Request(method, url.join(target), headers=headers, content=body)


def install() -> None:
    """Let every httpx.Client use the run's network, and every ApiServer for its asynchronous requests."""

    class VirtualClient(httpx.Client):
        def __init__(self, *, transport: httpx.BaseTransport | None = None, **options: Any) -> None:
            options.pop("verify", None)
            super().__init__(transport=transport or VirtualTransport(), **options)

    httpx.Client = VirtualClient  # type: ignore[misc]
    connection_pool.ConnectionPool = VirtualConnectionPool  # type: ignore[misc, assignment]
