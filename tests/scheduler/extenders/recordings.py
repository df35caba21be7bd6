"""kube-scheduler's talk with an extender as recorded in tests/golden/extender, and the log that goes with it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod
from scheduler.extenders.manifests import KeptManifests

HERE = Path(__file__).parents[2] / "golden" / "extender"
NODES, NAMES = "nodes", "node-cache-capable"
EVERYTHING = KeptManifests(pending_pods=True, bound_pods=True, nodes=True)

Json = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request of kube-scheduler, byte for byte, and the answer it got."""

    verb: str
    body: bytes
    answer: Any

    @property
    def request(self) -> Json:
        return dict(json.loads(self.body))

    @property
    def pod(self) -> str:
        metadata = self.request["Pod"]["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"


def exchanges(recording: str) -> list[Exchange]:
    with gzip.open(HERE / f"{recording}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [Exchange(r["path"].rpartition("/")[2], r["request_raw"].encode(), r["response"]) for r in rows]


def pod_of(manifest: Json, *, running: bool = False) -> PodInfo:
    """Return the pod as our watch would deliver it, with type and managed fields, which are not sent on."""
    fields = [{"manager": "kubectl", "operation": "Update"}]
    seen = {
        "kind": "Pod",
        "apiVersion": "v1",
        **manifest,
        "metadata": {**manifest["metadata"], "managedFields": fields},
    }
    raw = msgspec.Raw(json.dumps(seen, separators=(",", ":"), ensure_ascii=False).encode())
    pod = msgspec.json.decode(raw, type=Pod)
    return PodInfo(msgspec.structs.replace(pod, manifest=EVERYTHING.of_pod(pod, raw)), running=running)


def node_of(manifest: Json) -> Node:
    seen = {"kind": "Node", "apiVersion": "v1", **manifest}
    raw = msgspec.Raw(json.dumps(seen, separators=(",", ":"), ensure_ascii=False).encode())
    node = msgspec.json.decode(raw, type=Node)
    return msgspec.structs.replace(node, manifest=EVERYTHING.of_node(node, raw))


def nodes() -> list[Node]:
    """Return the nodes of the recording `nodes`, which did not change."""
    with gzip.open(HERE / "nodes-objects.json.gz", "rt") as file:
        return [node_of(manifest) for manifest in json.load(file)["nodes"]]


@dataclass(frozen=True)
class Step:
    """A line of the log that says what happened: an attempt that began or ended, a pod that went."""

    what: str  # attempt, chosen, no-fit, gone
    pod: str
    detail: str = ""  # the node, or the message


_STEPS = {
    "attempt": re.compile(r'"Attempting to schedule pod" pod="([^"]+)"()'),
    "chosen": re.compile(r'"OpportunisticBatch set cycle state" pod="([^"]+)" .*chosenNode="([^"]*)"'),
    "no-fit": re.compile(r'"Unable to schedule pod; no fit; waiting" pod="([^"]+)" err="(.*)"'),
    "gone": re.compile(r'"Delete event for scheduled pod" pod="([^"]+)"()'),
}


def steps() -> Iterator[Step]:
    """Yield the entries of the recording `nodes` that affect later decisions."""
    with gzip.open(HERE / "kube-scheduler-v4-nodes.log.gz", "rt") as lines:
        for line in lines:
            for what, pattern in _STEPS.items():
                match = pattern.search(line)
                if match:
                    yield Step(what, match[1], match[2].replace('\\"', '"'))
