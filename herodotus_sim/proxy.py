"""Owns: `services/[SCHEME:]NAME[:PORT]/proxy/PATH`: finding an endpoint and passing the request through.

Does not own: load balancing, upgrades (exec, websockets), and two refusals of kube-apiserver's: loopback addresses and
endpoints that are not pods, which are what a demo on one machine has.
Invariant: the caller's credentials never reach the service.
"""

from __future__ import annotations

import http.client
import random
import ssl
from collections.abc import Iterator
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from herodotus_sim.store import Store
from herodotus_sim.verbs import Target
from herodotus_sim.wire import Object, Request, Response

# kube-apiserver's proxy transport dials for 30 s; a demo's service is on this machine.
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 64 * 1024
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "content-length"}
)  # fmt: skip
_NOT_PASSED_ON = frozenset({"authorization", "host", "expect", "accept-encoding"})

Endpoint = tuple[str, int]


def forward(store: Store, target: Target, request: Request) -> Response:
    """Pass a request to one of the service's endpoints and stream the answer back."""
    scheme, name, port = split_name(target.name)
    if not target.rest:
        query = f"?{request.raw_query}" if request.raw_query else ""
        return Response(301, headers=(("Location", f"{request.path}/{query}"),), content_type="")
    address = random.choice(_endpoints(store, target.namespace, name, port))
    connection = _connection(scheme, address)
    url = target.rest + (f"?{request.raw_query}" if request.raw_query else "")
    headers = {k: v for k, v in request.headers.items() if _passed_on(k)}
    try:
        connection.request(request.method, url, request.body or None, headers)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise errors.unavailable(f"error trying to reach service: {error}") from None
    kept = tuple((k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP | {"content-type"})
    type_ = answer.getheader("Content-Type", "")
    if request.method == "HEAD" or answer.status in (204, 304):
        connection.close()
        return Response(answer.status, headers=kept, content_type=type_)
    return Response(answer.status, headers=kept, content_type=type_, stream=_stream(connection, answer))


def split_name(text: str) -> tuple[str, str, str]:
    """Scheme, name and port of `[SCHEME:]NAME[:PORT]`."""
    parts = text.split(":")
    if len(parts) == 1:
        return "", parts[0], ""
    if len(parts) == 2:
        return "", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0], parts[1], parts[2]
    raise errors.bad_request(f'invalid service request "{text}"')


def _passed_on(name: str) -> bool:
    return name not in _HOP_BY_HOP and name not in _NOT_PASSED_ON and not name.startswith("x-remote-")


def _endpoints(store: Store, namespace: str, name: str, port: str) -> list[Endpoint]:
    """Ready addresses with the port that is meant. Raises 404 and 503."""
    service = store.get(SERVICE, namespace, name)
    port_name = _port_name(service.obj, name, port)
    found = _from_endpoints(store, namespace, name, port_name) or _from_slices(store, namespace, name, port_name)
    if not found:
        raise errors.unavailable(f'no endpoints available for service "{name}"')
    return found


def _port_name(service: Object, name: str, port: str) -> str:
    if not port.isdigit():
        return port
    for declared in (service.get("spec") or {}).get("ports") or []:
        if declared.get("port") == int(port):
            return str(declared.get("name") or "")
    raise errors.unavailable(f'no service port {port} found for service "{name}"')


def _from_endpoints(store: Store, namespace: str, name: str, port_name: str) -> list[Endpoint]:
    found = store.find(ENDPOINTS, namespace, name)
    return [
        (address["ip"], int(port["port"]))
        for subset in (found.obj.get("subsets") or [] if found else [])
        for port in subset.get("ports") or []
        if (port.get("name") or "") == port_name
        for address in subset.get("addresses") or []
    ]


def _from_slices(store: Store, namespace: str, name: str, port_name: str) -> list[Endpoint]:
    slices = [
        v.obj
        for v in store.ordered(ENDPOINT_SLICE)
        if v.key[0] == namespace and (v.obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
    ]
    return [
        (address, int(port["port"]))
        for found in slices
        for port in found.get("ports") or []
        if (port.get("name") or "") == port_name
        for endpoint in found.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or []
    ]


def _connection(scheme: str, address: Endpoint) -> Any:
    if scheme != "https":
        return http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
    # As kube-apiserver: the service's certificate is not checked.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(*address, timeout=_TIMEOUT_S, context=context)


def _stream(connection: Any, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := answer.read1(_CHUNK_BYTES):
            yield chunk
    finally:
        answer.close()
        connection.close()
