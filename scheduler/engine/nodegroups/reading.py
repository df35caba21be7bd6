"""Read the objects that only questions about node groups need, when such a question comes.

Owns: which objects a question needs, pages, and the note about what could not be read. Does not own: requests; the
caller passes a function that sends them with its own credentials.

Invariant: a kind that the API server does not serve, or that the caller may not list, is no error. All of that is one
sentence, because it is one fact about the cluster or the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

import msgspec

from herodotus_record.typed_decoding import decode_json, json_decoder
from scheduler.engine.objects.autoscaling import (
    AUTOSCALING_KINDS,
    EVENT_KIND,
    STATUS_CONFIG_MAP,
    STATUS_KIND,
    STATUS_NAMESPACE,
    AutoscalingKind,
    ConfigMap,
    Event,
    NodePool,
)
from scheduler.engine.objects.types import Object

PAGE: Final = 500
MAX_EVENTS: Final = 500  # about one pod
_CLUSTER_EVENTS: Final = "default"  # namespace of the events about objects without one
_NOT_FOUND: Final = 404
_INVALID: Final = -1  # in place of a status code: an object that cannot be decoded
_FORBIDDEN: Final = (401, 403)

Get = Callable[[str], bytes | int]  # returns the body of a response, or the HTTP status code of a refusal


@dataclass
class AutoscalingObjects:
    """The objects that were read, and a sentence about those that could not be read, or ""."""

    objects: list[Object] = field(default_factory=list)
    note: str = ""


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_PAGES: Final = json_decoder(_Page)


def read_autoscaling_objects(get: Get, pods: Iterable[str]) -> AutoscalingObjects:
    """Return the objects that describe node groups, and the events about the pods (NAMESPACE/NAME).

    Events about NodeClaims are read if a NodePool exists or a pod was nominated for a NodeClaim; events about
    cluster-autoscaler if its status exists. `get` sends a request; objects that it cannot read are named in the
    result's `note`.
    """
    objects, unread = AutoscalingObjects(), dict[str, list[str]]()
    for kind in AUTOSCALING_KINDS:
        _add(objects, unread, kind, _list(get, kind, kind.paths))
    status = get(f"/api/v1/namespaces/{STATUS_NAMESPACE}/configmaps/{STATUS_CONFIG_MAP}")
    _add(objects, unread, STATUS_KIND, status if isinstance(status, int) else _decode_status(status))

    def add_events(namespace: str, name: str, of: str) -> None:
        selector = f"involvedObject.kind={of}" + (f",involvedObject.name={name}" if name else "")
        query = urlencode({"fieldSelector": selector})
        _add(objects, unread, EVENT_KIND, _list(get, EVENT_KIND, [f"/api/v1/namespaces/{namespace}/events?{query}"]))

    for pod in pods:
        pod_namespace, _, pod_name = pod.partition("/")
        add_events(pod_namespace, pod_name, "Pod")
    if any(isinstance(obj, NodePool) or (isinstance(obj, Event) and obj.node_claim) for obj in objects.objects):
        add_events(_CLUSTER_EVENTS, "", "NodeClaim")
    if any(isinstance(obj, ConfigMap) for obj in objects.objects):
        add_events(STATUS_NAMESPACE, STATUS_CONFIG_MAP, "ConfigMap")
    parts = [f"{', '.join(names)} cannot be read: {missing}" for missing, names in unread.items()]
    objects.note = "; ".join(parts)
    return objects


def _decode_status(body: bytes) -> list[Object] | int:
    try:
        return [decode_json(body, STATUS_KIND.decode_as)]
    except msgspec.DecodeError:
        return _INVALID


def _add(
    objects: AutoscalingObjects, unread: dict[str, list[str]], kind: AutoscalingKind, result: list[Object] | int
) -> None:
    """Add the objects of a kind to `objects` or, if `result` is a status code, add the kind to `unread`.

    The code for "not found" means that the API server does not serve the kind, which is no error.
    """
    if not isinstance(result, int):
        objects.objects += result
    elif result != _NOT_FOUND:
        names = unread.setdefault(kind.missing, [])
        cause = "of an unknown form" if result == _INVALID else f"HTTP status {result}"
        reason = kind.plural if result in _FORBIDDEN else f"{kind.plural} ({cause})"
        names += [reason] if reason not in names else []


def _list(get: Get, kind: AutoscalingKind, paths: Sequence[str]) -> list[Object] | int:
    """Return the objects of a kind from the first of `paths` that the API server serves, or an error's status code."""
    for path in paths:
        pages = _list_pages(get, kind, path)
        if pages != _NOT_FOUND:
            return pages
    return _NOT_FOUND


def _list_pages(get: Get, kind: AutoscalingKind, path: str) -> list[Object] | int:
    decoder = json_decoder(kind.decode_as)
    items: list[Object] = []
    more = ""
    while True:
        query = urlencode({"limit": str(PAGE)} | ({"continue": more} if more else {}))
        body = get(f"{path}{'&' if '?' in path else '?'}{query}")
        if isinstance(body, int):
            return body
        try:
            page = _PAGES.decode(body)
            items += map(decoder.decode, page.items or ())
        except msgspec.DecodeError:
            return _INVALID
        more = page.metadata.continue_
        if not more or (kind is EVENT_KIND and len(items) >= MAX_EVENTS):
            return items
