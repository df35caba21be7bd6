"""Lists and watches objects of the cluster with the user's own rights, through the command's `kubectl proxy`.

Owns: pages of a list, the watch after it, listing again after a watch ended, one queue for several resources. Does not
own: the proxy and its end (`transport`), the backoff (`decision_watch`), what becomes of the objects.

Invariant: after each list the receiver has the state of that moment, and after each event that of the event. What
happened while no watch was open shows only as the difference of two states.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException
from typing import Any, NamedTuple

from herodotus_cli.decision_watch import EXPIRED, ReconnectBackoff
from herodotus_cli.errors import CliError, ConnectionFailedError, ServerError, from_service_error
from herodotus_cli.transport.kubectl_proxy import KubectlProxy
from herodotus_client import api_paths
from herodotus_client.responses import ServiceError, parse_response, read_status

Json = dict[str, Any]
LISTED = "LISTED"


class ObjectChange(NamedTuple):
    """What changed: all objects of a resource (LISTED), or one (ADDED, MODIFIED, DELETED with its last state)."""

    resource: str
    type: str
    objects: list[Json]


class ObjectWatch:
    """Watches resources of the core API, such as v1/pods, in one thread each, and queues their changes."""

    def __init__(self, proxy: KubectlProxy, resources: Sequence[str]) -> None:
        """Start the threads. The first change of each resource is its list."""
        self._proxy = proxy
        self._changes: queue.SimpleQueue[ObjectChange | BaseException] = queue.SimpleQueue()
        for resource in resources:
            threading.Thread(target=self._run, args=(resource,), daemon=True).start()

    def next_change(self, timeout_s: float) -> ObjectChange | None:
        """Return the next change, or None after `timeout_s` seconds. Raises CliError if a watch fails for good."""
        try:
            change = self._changes.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(change, BaseException):
            raise change
        return change

    def _run(self, resource: str) -> None:
        try:
            self._follow(resource)
        except BaseException as e:  # raised again in the main thread
            self._changes.put(e)

    def _follow(self, resource: str) -> None:
        reconnect = ReconnectBackoff()
        while True:
            try:
                objects, version = list_objects(self._proxy, resource)
                self._changes.put(ObjectChange(resource, LISTED, objects))
                reconnect.mark_opened()
                self._watch(resource, version, reconnect)
                reconnect.mark_working()
            except CliError as e:
                if not (isinstance(e, ServerError) and e.reason in EXPIRED):  # else it is listed anew
                    reconnect.record_failure(e)
            time.sleep(reconnect.delay_s)

    def _watch(self, resource: str, version: str, reconnect: ReconnectBackoff) -> None:
        """Queue the events of one watch until it ends, or until its resource version is too old.

        Raises CliError if the API server refuses it or the connection breaks.
        """
        try:
            with closing(self._proxy.stream(api_paths.cluster_watch(resource, version))) as lines:
                for line in lines:
                    event = json.loads(line)
                    if event.get("kind") == "Status":
                        raise from_service_error(read_status(event))
                    if event["type"] == "ERROR":
                        return
                    reconnect.mark_working()
                    if event["type"] != "BOOKMARK":
                        self._changes.put(ObjectChange(resource, event["type"], [event["object"]]))
        except (OSError, HTTPException, ValueError) as e:
            raise ConnectionFailedError(f"error: the watch of {resource} broke: {e}") from None


def list_objects(proxy: KubectlProxy, resource: str) -> tuple[list[Json], str]:
    """Return all objects of a resource and the resource version of the list.

    Raises CliError if the API server refuses or cannot be reached.
    """
    objects: list[Json] = []
    continued = ""
    while True:
        try:
            code, body = proxy.get(api_paths.cluster_list(resource, continued=continued))
            page = parse_response(body, code)
        except ServiceError as e:
            raise from_service_error(e, "the API server") from None
        except (OSError, HTTPException) as e:
            raise ConnectionFailedError(f"error: kubectl proxy did not answer: {e}") from None
        objects += page["items"]
        continued = page["metadata"].get("continue") or ""
        if not continued:
            return objects, str(page["metadata"]["resourceVersion"])
