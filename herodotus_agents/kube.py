"""The client for the API server: list, watch and annotate, with the kubernetes package's credentials.

Owns: the address of the API server, paging, resuming a watch, waiting on Retry-After. Does not own: what is done with
objects. They are returned as JSON and the caller decodes them, because decoding to the package's models takes a
millisecond per object. All requests of this package to the API server go through it.

For `kubectl proxy` use `--server http://127.0.0.1:8001`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

_log: Final = logging.getLogger(__name__)

PAGE: Final = 500
TIMEOUT_S: Final = 10.0
WATCH_S: Final = 300
RETRY_S: Final = 5.0  # wait after a failure
MERGE_PATCH: Final = "application/merge-patch+json"


class KubeError(Exception):
    """The API server refused a request or cannot be reached; the message is one line. `code` is 0 without an answer."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class KubeClient:
    """A client for one API server. Thread-safe."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    @classmethod
    def from_options(cls, *, server: str = "", kubeconfig: str = "", in_cluster: bool = False) -> KubeClient:
        """Return a client for a URL without credentials, a kubeconfig, or the pod's service account.

        The default kubeconfig is KUBECONFIG or ~/.kube/config. Raises KubeError if no credentials are found.
        """
        config = Configuration()
        try:
            if server:
                config.host = server.rstrip("/")
            elif in_cluster:
                load_incluster_config(client_configuration=config)  # type: ignore[no-untyped-call]
            else:
                load_kube_config(config_file=kubeconfig or None, client_configuration=config)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError, ValueError, KeyError, TypeError) as e:
            raise KubeError(
                f"no usable credentials: {' '.join(str(e).split())} (--kubeconfig FILE or KUBECONFIG sets them;"
                " --server URL is kubectl proxy's address)"
            ) from e
        return cls(ApiClient(config))

    def list_objects(self, path: str, params: Mapping[str, str] | None = None) -> tuple[list[msgspec.Raw], str]:
        """Return every object of a collection, and the resource version to watch from. Raises KubeError."""
        found: list[msgspec.Raw] = []
        more = ""
        while True:
            query = {**(params or {}), "limit": str(PAGE)} | ({"continue": more} if more else {})
            page = msgspec.json.decode(self._send("GET", path, query), type=_Page)
            found += page.items or ()
            more = page.metadata.continue_
            if not more:
                return found, page.metadata.resource_version

    def annotate_node(self, node: str, values: Mapping[str, str | None]) -> None:
        """Set annotations of a node; None removes one. Raises KubeError."""
        body = {"metadata": {"annotations": dict(values)}}
        self._send("PATCH", f"/api/v1/nodes/{node}", body=body)

    def list_and_watch(
        self,
        path: str,
        on_list: Callable[[Sequence[msgspec.Raw]], None],
        on_event: Callable[[str, msgspec.Raw], None],
        stop: threading.Event,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """List a collection and watch it until `stop` is set; list again whenever the watch cannot be resumed.

        `on_list` gets all objects, `on_event` the type and the object of each event. Returns once stopped.
        """
        while not stop.is_set():
            try:
                found, version = self.list_objects(path, params)
                on_list(found)
                while not stop.is_set():
                    version = self._watch(path, version, on_event, stop, params or {})
            except (KubeError, msgspec.MsgspecError) as e:
                if not isinstance(e, KubeError) or e.code != 410:
                    _log.warning("watching %s: %s", path, e)
                    stop.wait(RETRY_S)

    def _watch(
        self,
        path: str,
        version: str,
        on_event: Callable[[str, msgspec.Raw], None],
        stop: threading.Event,
        params: Mapping[str, str],
    ) -> str:
        """Run one watch until the server ends it; return the resource version to resume from."""
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query |= {"timeoutSeconds": str(WATCH_S), **params}
        response = self._request("GET", path, query, timeout_s=WATCH_S + TIMEOUT_S)
        partial_line = b""
        try:
            for chunk in response.stream(amt=None, decode_content=True):
                *lines, partial_line = (partial_line + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = msgspec.json.decode(line, type=_Event)
                    if event.type == "ERROR":
                        raise KubeError(bytes(event.object).decode(errors="replace")[:200], 410)
                    version = msgspec.json.decode(event.object, type=_Object).metadata.resource_version or version
                    if event.type != "BOOKMARK":
                        on_event(event.type, event.object)
                if stop.is_set():
                    break
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise KubeError(f"{path}: {e}") from e
        finally:
            response.close()
        return version

    def _send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> bytes:
        """Send one request and return the body; repeat it once if the server answers with Retry-After."""
        for attempt in (1, 2):
            response = self._request(method, path, query or {}, body=body, timeout_s=TIMEOUT_S)
            data: bytes = response.read()
            if response.status < 400:
                return data
            wait = response.headers.get("Retry-After", "")
            if attempt == 1 and response.status in (429, 503) and wait.isdigit():
                time.sleep(min(float(wait), TIMEOUT_S))
                continue
            break
        raise KubeError(f"{method} {path}: {response.status} {_message(data)}", response.status)

    def _request(self, method: str, path: str, query: Mapping[str, str], *, timeout_s: float, body: Any = None) -> Any:
        """Send one request and return the response with its body unread."""
        config = self._client.configuration
        headers = {"Accept": "application/json"}
        token = config.get_api_key_with_prefix("BearerToken", alias="authorization")  # refreshes an expiring one
        if token:
            headers["Authorization"] = token
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH
        try:
            return self._client.rest_client.pool_manager.request(
                method,
                config.host + path,
                fields=dict(query) if body is None else None,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=timeout_s,
                preload_content=False,
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ApiException) as e:
            raise KubeError(f"{method} {path}: {e}") from e


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")
