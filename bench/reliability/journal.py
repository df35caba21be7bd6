"""The observed history: every change of pods, nodes, claims, devices and the Lease, from watches beside the system.

Owns: its own watches, which share no code with the scheduler's. Does not own: conclusions from it (`state`).

Invariant: each change is recorded once, in order of its kind. A change that an expired watch skipped is found by
listing and recorded at the version of the object (a deletion: at the last known version).
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx

from bench.reliability.state import DEVICE_KINDS, ClusterModel, ObservedChange

Json = dict[str, Any]

WATCHED = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Lease": "/apis/coordination.k8s.io/v1/leases",
    **{kind: f"/apis/resource.k8s.io/v1/{kind.lower()}{'e' * kind.endswith('s')}s" for kind in DEVICE_KINDS},
}


class Journal:
    """Watches the API server, records every change, and applies it to a model of the cluster. Thread-safe."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.state = ClusterModel()
        self.lock = threading.RLock()
        self._noted: list[ObservedChange] = []
        self._versions: dict[str, dict[str, int]] = {kind: {} for kind in WATCHED}  # last version by UID
        self._last: dict[str, ObservedChange] = {}
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=httpx.Timeout(10.0, read=300.0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=each, daemon=True) for each in WATCHED.items()]
        for thread in self._threads:
            thread.start()

    def history(self) -> list[ObservedChange]:
        """Return every recorded change by version. All kinds share one version counter."""
        with self.lock:
            return sorted(self._noted, key=lambda seen: seen.version)

    def history_of(self, uid: str) -> list[ObservedChange]:
        """Return the history of one object."""
        return [seen for seen in self.history() if seen.uid == uid]

    def close(self) -> None:
        """Stop the watches; no further change is recorded."""
        self._over.set()
        self._http.close()

    def _follow(self, kind: str, path: str) -> None:
        version = ""
        while not self._over.is_set():
            try:
                version = version or self._list(kind, path)
                version = self._watch(kind, path, version)
            except (httpx.HTTPError, json.JSONDecodeError, RuntimeError):
                self._over.wait(0.02)

    def _list(self, kind: str, path: str) -> str:
        answer = self._http.get(path)
        answer.raise_for_status()
        found = answer.json()
        known = self._versions[kind]
        listed = {item["metadata"]["uid"]: item for item in found["items"]}
        for uid in known.keys() - listed.keys():
            self._note(ObservedChange(time.time(), known[uid], kind, "DELETED", self._last[uid].object))
        for item in listed.values():
            self._note(_seen(kind, "ADDED" if item["metadata"]["uid"] not in known else "MODIFIED", item))
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, kind: str, path: str, version: str) -> str:
        """Watch until the stream ends; return the version to resume from, "" to list again."""
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        with self._http.stream("GET", path, params=params) as response:
            if response.status_code == 410:
                return ""
            response.raise_for_status()
            try:
                for line in response.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return ""
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(_seen(kind, event["type"], event["object"]))
            except (httpx.HTTPError, json.JSONDecodeError):
                pass  # The stream was cut; the next watch resumes after the last complete line.
        return version

    def _note(self, seen: ObservedChange) -> None:
        known = self._versions[seen.kind]
        with self.lock:
            if seen.type == "DELETED":
                known.pop(seen.uid, None)
            elif known.get(seen.uid, -1) >= seen.version:
                return
            else:
                known[seen.uid] = seen.version
            self._noted.append(seen)
            self._last[seen.uid] = seen
            self.state.apply(seen)


def _seen(kind: str, type_: str, obj: Json) -> ObservedChange:
    return ObservedChange(time.time(), int(obj["metadata"]["resourceVersion"]), kind, type_, obj)
