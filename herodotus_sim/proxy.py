"""Serves `services/[SCHEME:]NAME[:PORT]/proxy/PATH`: finds an endpoint and forwards the request.

Does not own: load balancing, upgrades (exec, websockets). Unlike kube-apiserver it accepts loopback addresses and
endpoints that are not pods, because a demo on one machine has only those.

Invariant: the caller's credentials never reach the service.
"""

from __future__ import annotations

import http.client
import io
import random
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from herodotus_sim.registry import RequestInfo
from herodotus_sim.storage import ObjectStorage
from herodotus_sim.wire import Object, SimulatedRequest, SimulatedResponse

# kube-apiserver's proxy connects within 30 s. A proxied request is long-running: it has no time limit.
_CONNECT_TIMEOUT_S = 30.0
# How often a wait for the service checks whether the client is still connected, in seconds.
_CLIENT_CHECK_INTERVAL_S = 1.0
_CHUNK_BYTES = 64 * 1024
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "content-length"}
)  # fmt: skip
_NOT_PASSED_ON = frozenset({"authorization", "host", "expect", "accept-encoding"})

Endpoint = tuple[str, int]


def forward(store: ObjectStorage, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
    """Forward a request for `services/NAME/proxy` to a random ready endpoint, and return its response as a stream.

    A request without a path below `proxy` is redirected. Raises StatusError if the service does not exist, has no ready
    endpoint or does not answer.
    """
    scheme, name, port = split_name(target.name)
    if not target.rest:
        query = f"?{request.raw_query}" if request.raw_query else ""
        return SimulatedResponse(301, headers=(("Location", f"{request.path}/{query}"),), content_type="")
    address = random.choice(_endpoints(store, target.namespace, name, port))
    connection = _connection(scheme, address, lambda: store.stopping or request.is_client_gone())
    url = target.rest + (f"?{request.raw_query}" if request.raw_query else "")
    headers = {k: v for k, v in request.headers.items() if _is_forwarded_header(k)}
    try:
        connection.connect()
        connection.sock.settimeout(None)
        connection.request(request.method, url, request.body or None, headers)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise errors.unavailable(f"error trying to reach service: {error}") from None
    answer_headers = tuple((k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP | {"content-type"})
    type_ = answer.getheader("Content-Type", "")
    if request.method == "HEAD" or answer.status in (204, 304):
        connection.close()
        return SimulatedResponse(answer.status, headers=answer_headers, content_type=type_)
    return SimulatedResponse(
        answer.status, headers=answer_headers, content_type=type_, stream=_stream(connection, answer)
    )


def split_name(text: str) -> tuple[str, str, str]:
    """Return scheme, name and port of `[SCHEME:]NAME[:PORT]`; absent parts are "". Raises StatusError 400."""
    parts = text.split(":")
    if len(parts) == 1:
        return "", parts[0], ""
    if len(parts) == 2:
        return "", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0], parts[1], parts[2]
    raise errors.bad_request(f'invalid service request "{text}"')


def _is_forwarded_header(name: str) -> bool:
    return name not in _HOP_BY_HOP and name not in _NOT_PASSED_ON and not name.startswith("x-remote-")


def _endpoints(store: ObjectStorage, namespace: str, name: str, port: str) -> list[Endpoint]:
    """Return the address and port of every ready endpoint of a service, for one of its ports.

    `port` is a name or a number. Raises StatusError 404 if the service does not exist, 503 if it has no such endpoint.
    """
    service = store.get(SERVICE, namespace, name)
    port_name = _port_name(service.obj, name, port)
    endpoints = _from_endpoints(store, namespace, name, port_name) or _from_slices(store, namespace, name, port_name)
    if not endpoints:
        raise errors.unavailable(f'no endpoints available for service "{name}"')
    return endpoints


def _port_name(service: Object, name: str, port: str) -> str:
    if not port.isdigit():
        return port
    for declared in (service.get("spec") or {}).get("ports") or []:
        if declared.get("port") == int(port):
            return str(declared.get("name") or "")
    raise errors.unavailable(f'no service port {port} found for service "{name}"')


def _from_endpoints(store: ObjectStorage, namespace: str, name: str, port_name: str) -> list[Endpoint]:
    stored = store.find(ENDPOINTS, namespace, name)
    return [
        (address["ip"], int(port["port"]))
        for subset in (stored.obj.get("subsets") or [] if stored else [])
        for port in subset.get("ports") or []
        if (port.get("name") or "") == port_name
        for address in subset.get("addresses") or []
    ]


def _from_slices(store: ObjectStorage, namespace: str, name: str, port_name: str) -> list[Endpoint]:
    slices = [
        v.obj
        for v in store.list_sorted(ENDPOINT_SLICE)
        if v.key[0] == namespace and (v.obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
    ]
    return [
        (address, int(port["port"]))
        for endpoint_slice in slices
        for port in endpoint_slice.get("ports") or []
        if (port.get("name") or "") == port_name
        for endpoint in endpoint_slice.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or []
    ]


class _ServiceReader(io.RawIOBase):
    """A reader for the response of a proxied service, without a time limit while the client is connected."""

    def __init__(self, sock: socket.socket, is_abandoned: Callable[[], bool]) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._is_abandoned = is_abandoned
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Wait for bytes of the service and read them; raise ConnectionError if the client disconnects meanwhile."""
        pending = self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0
        while not pending and not self._poll.poll(_CLIENT_CHECK_INTERVAL_S * 1000):
            if self._is_abandoned():
                raise ConnectionError("the client is gone")
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connection(scheme: str, address: Endpoint, is_abandoned: Callable[[], bool]) -> Any:
    class _ServiceResponse(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
            super().__init__(sock, *args, **more)
            self.fp.close()
            self.fp = io.BufferedReader(_ServiceReader(sock, is_abandoned))

    if scheme == "https":
        # Like kube-apiserver, the proxy does not verify the service's certificate.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: Any = http.client.HTTPSConnection(*address, timeout=_CONNECT_TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(*address, timeout=_CONNECT_TIMEOUT_S)
    connection.response_class = _ServiceResponse
    return connection


def _stream(connection: Any, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := answer.read1(_CHUNK_BYTES):
            yield chunk
    finally:
        answer.close()
        connection.close()
