"""A scheduling loop for pods with resource claims, which are stored as an API server stores them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from herodotus_kube.api_conventions import ApiError
from herodotus_kube.watch import ListResult
from scheduler.engine.framework.writes import ChangedMeanwhileError, NoWrites, Writes
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.resource_api import DeviceClass, ResourceClaim, ResourceSlice
from tests.scheduler.builders import Json, PodBuilder, make_node
from tests.scheduler.engine.dra.builders import device, device_class, slice_on
from tests.support.scheduling_loop import LoopWorld


class StoredClaims(NoWrites):
    """The claims as an API server keeps them: a patch of an old version fails.

    The scheduler is told of its own changes when `show` is called. Pods are bound at once.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self.stored: dict[str, Json] = {}
        self.patches: list[str] = []
        self.bound: list[tuple[str, str]] = []
        self.refuse: set[str] = set()  # names of pods whose bind request fails
        self.delayed: list[Callable[[Writes], object]] | None = None  # writes that wait, instead of being made at once
        self.lose: list[bool] = []  # for each of the next writes of a status without an answer: does it take effect?

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        if pod.name in self.refuse:
            done("refused")
            return
        self.bound.append((pod.uid, node))
        done(None)

    def add(self, document: Json) -> None:
        document["metadata"] |= {"uid": f"uid-{document['metadata']['name']}", "resourceVersion": "1"}
        self.stored[document["metadata"]["name"]] = {"status": {}, **document}
        self._objects.set(msgspec.convert(self.stored[document["metadata"]["name"]], ResourceClaim))

    def _apply(self, claim: ResourceClaim, change: Callable[[Json], None], what: str) -> ResourceClaim:
        with self._lock:
            document = self.stored[claim.metadata.name]
            if document["metadata"]["resourceVersion"] != claim.metadata.resource_version:
                raise ChangedMeanwhileError(f"{claim.metadata.name} has changed")
            change(document)
            version = int(document["metadata"]["resourceVersion"]) + 1
            document["metadata"]["resourceVersion"] = str(version)
            self.patches.append(what)
            return msgspec.convert(document, ResourceClaim)

    def patch_claim(self, claim: ResourceClaim, change: Mapping[str, Any]) -> ResourceClaim:
        return self._apply(claim, lambda document: document["metadata"].update(change["metadata"]), "finalizers")

    def patch_claim_status(self, claim: ResourceClaim, status: Mapping[str, Any]) -> ResourceClaim:
        def change(document: Json) -> None:
            for key, value in status.items():
                document["status"][key] = {**document["status"].get(key, {}), **value} if key == "allocation" else value

        is_effective = self.lose.pop(0) if self.lose else None
        written = self._apply(claim, change, "+".join(sorted(status))) if is_effective is not False else claim
        if is_effective is not None:
            raise ApiError(504, "Timeout", "no answer")
        return written

    def read_claim(self, claim: ResourceClaim) -> ResourceClaim:
        with self._lock:
            return msgspec.convert(self.stored[claim.metadata.name], ResourceClaim)

    def submit(self, write: Callable[[Writes], object], what: str) -> None:
        if self.delayed is None:
            write(self)
        else:
            self.delayed.append(write)

    def make_delayed(self) -> None:
        """Make the writes that wait, and further ones at once."""
        delayed, self.delayed = self.delayed or [], None
        for write in delayed:
            write(self)

    def show(self) -> None:
        """Show the scheduler every claim as it is stored."""
        for document in self.stored.values():
            self._objects.set(msgspec.convert(document, ResourceClaim))


class ClaimWorld(LoopWorld):
    """A loop with pod groups and devices, whose claims are stored by `claims`."""

    def __init__(self, spool: Path, gates: dict[str, bool]) -> None:
        super().__init__(spool, gates=gates)
        self.claims = StoredClaims(self.shared.objects)
        self.handle.connect(self.claims)

    def begin(self, group: PodGroup, *pods: PodBuilder, devices: int = 1) -> None:
        """List the group, nodes "n" and "m", and devices of "n", and decide the pods."""
        objects = self.shared.objects
        objects.set(msgspec.convert(device_class(), DeviceClass))
        gpus = [device(f"gpu-{i}") for i in range(devices)]
        objects.set(msgspec.convert(slice_on("n", *gpus), ResourceSlice))
        self.loop.inbox.put(ListResult("podgroups", [group]))
        self.start(make_node("n"), make_node("m"), pods=pods)
        self.until(lambda: len(self.decisions) >= len(pods) and not self.loop.scheduler.in_flight)

    def bound(self) -> list[tuple[str, str]]:
        return sorted((uid.removeprefix("uid-"), node) for uid, node in self.claims.bound)

    def users(self, name: str) -> list[str]:
        return sorted(user["name"] for user in self.claims.stored[name]["status"].get("reservedFor") or ())
