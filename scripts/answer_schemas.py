"""Writes herodotus_record/answer_schemas.json: the JSON Schema of every answer, which `schema` of the plugin prints.

Owns: the conversion of OpenAPI to JSON Schema, and the schemas of documents that only the plugin makes. Does not own:
the schemas of the service's documents (`herodotus_endpoint.api.schemas`).

Invariant: the file is never edited. tests/contract/test_answer_schemas.py compares it with the output of this module,
and validates answers with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_answers.cluster_review import KIND as CLUSTER_REVIEW
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.schema import NAME
from herodotus_endpoint.api.schema_types import Json, anything, array, integer, nullable, obj, string
from herodotus_endpoint.api.schemas import METADATA, SCHEMAS
from herodotus_record.model import API_VERSION

FILE: Final = Path(__file__).parents[1] / "herodotus_record" / "answer_schemas.json"
ID: Final = f"https://herodotus.dev/schemas/{API_VERSION.partition('/')[2]}"
_REASON: Final = obj("A reason.", code=string("Code of the reason."), message=string("kube-scheduler's sentence."))
_PLUGIN: Final = obj(
    "A plugin: what it checks, and how a pod that it rejects can be helped.",
    checks=string("What the plugin checks or scores."),
    fields=array("Fields that it reads.", string("A field.")),
    reasons=array("Reasons that it returns.", _REASON),
    possibleChanges=array("Changes that help a rejected pod.", string("A change.")),
    documentation=string("URL of the Kubernetes documentation."),
)
_LIVE_POD: Final = {
    "createdAt": string("Time at which the pod was created."),
    "owner": nullable(string("Owner of the pod as KIND/NAME.")),
    "schedulerName": string("The pod's spec.schedulerName."),
    "headline": string("Why there is no decision, in one sentence."),
}
_QUEUE: Final = obj(
    "The queue of Kueue or Volcano in which the pod waits, as their objects describe it; absent for other pods.",
    by=string("Whose objects they are.", enum=["Kueue", "Volcano"]),
    object=nullable(string("The pod's Workload or PodGroup, as KIND/NAME; null if it is not known.")),
    localQueue=nullable(string("Kueue's LocalQueue.")),
    queue=nullable(string("Kueue's ClusterQueue, or Volcano's Queue.")),
    state=nullable(string("State of the object.")),
    message=nullable(string("Message of the condition that says so.")),
    minMember=nullable(integer("Number of pods that Volcano's PodGroup needs.")),
    position=nullable(integer("Position in the LocalQueue, from 1.")),
    waiting=nullable(integer("Number of Workloads or PodGroups that wait in the queue.")),
    quota=array(
        "Quota of the queue.",
        obj(
            "Quota of one resource.",
            flavor=nullable(string("Kueue's ResourceFlavor.")),
            resource=string("Name of the resource."),
            used=nullable(string("Amount in use.")),
            limit=nullable(string("Nominal quota or capability.")),
        ),
    ),
    notes=array("Objects that could not be read, and why.", string("A sentence.")),
)
# Documents that the plugin makes, and fields that it adds to documents of the service.
_OF_PLUGIN: Final[Json] = {
    "GatedPod": obj(
        "A pod that waits for its scheduling gates.",
        schedulingGates=array("Names of the gates.", string("A gate.")),
        queue=_QUEUE,
        **_LIVE_POD,
    ),
    "UnrecordedPod": obj(
        "A pod that no scheduler decided, or whose scheduler is not recorded.",
        node=nullable(string("Node of the pod.")),
        cause=string("Why there is no decision.", enum=["NodeName", "SchedulerNotRecorded"]),
        possibleChanges=array("What to do to get an explanation.", string("A step.")),
        queue=_QUEUE,
        **_LIVE_POD,
    ),
    "PluginExplanation": _PLUGIN,
    "PluginExplanationList": obj("All plugins.", items=array("Plugins.", _PLUGIN)),
}
_ADDED: Final[Json] = {
    "PendingPods": {
        "gone": array(
            "Pods that were pending by their records but that the API server has placed or no longer has.",
            obj(
                "A pod.",
                namespace=string("Namespace."),
                pod=string("Name."),
                uid=string("UID."),
                startedAt=nullable(string("Start of its last attempt.")),
                fate=nullable(
                    string("What became of it; null if unknown.", enum=["deleted", "replaced", "placed", None])
                ),
            ),
        )
    },
    "PodExplanation": {
        "preemptedBy": anything("The preemption that evicted the pod, if it no longer exists."),
        "queue": _QUEUE,
        "nodeGroups": anything("A NodeGroupReview, and notes on what it lacks: recorded, or with --node-groups."),
    },
    "WorkloadPlacement": {
        "zones": array(
            "Pods by present zone of their node.", obj("A zone.", zone=string("Zone."), pods=integer("Pods."))
        )
    },
}


def build_document() -> Json:
    """Return the JSON Schema document: under `$defs` one schema for each kind of answer."""
    found = {name.removeprefix(f"{NAME}."): schema for name, schema in SCHEMAS.items()}
    for kind, schema in _OF_PLUGIN.items():
        head = {"apiVersion": string("API version."), "kind": string("Kind."), "metadata": METADATA}
        found[kind] = schema | {"properties": head | schema["properties"]}
    for kind, fields in _ADDED.items():
        found[kind] = found[kind] | {"properties": found[kind]["properties"] | fields}
    kinds = {kind: _convert_kind(kind, schema) for kind, schema in found.items()} | _build_cluster_review()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "$defs": dict(sorted(kinds.items())),
    }


def _build_cluster_review() -> Json:
    """Return the schemas of the answer about the whole cluster and of its parts, which follow from the structs."""
    _, parts = msgspec.json.schema_components([ClusterReviewStatus], ref_template="#/$defs/{name}")
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"const": CLUSTER_REVIEW},
        "metadata": {"type": "object"},
        "status": {"$ref": f"#/$defs/{ClusterReviewStatus.__name__}"},
    }
    said = "What would follow if a cluster were changed, and how many pods would fit."
    review = {"type": "object", "description": said, "properties": properties, "required": [*properties]}
    for part in parts.values():
        part["description"] = " ".join(part.get("description", "").split())  # a docstring of several lines
    return {CLUSTER_REVIEW: review, **parts}


def format_document() -> str:
    """Return the content of the file."""
    return json.dumps(build_document(), indent=1, ensure_ascii=False) + "\n"


def _convert_kind(kind: str, schema: Json) -> Json:
    converted: Json = _convert(schema)
    properties = converted["properties"] | {"kind": {"const": kind}}
    return converted | {"properties": properties, "required": converted.get("required") or ["kind"]}


def _convert(value: Any) -> Any:
    """Return an OpenAPI schema as JSON Schema: null as a type, references to `$defs`, no extensions of Kubernetes."""
    if isinstance(value, list):
        return [_convert(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return {"$ref": f"#/$defs/{value['$ref'].rpartition('.')[2]}"}
    kept = {key: _convert(found) for key, found in value.items() if not key.startswith("x-") and key != "nullable"}
    if value.get("nullable") is True and isinstance(value.get("type"), str):
        kept["type"] = [value["type"], "null"]
    return kept


if __name__ == "__main__":
    FILE.write_text(format_document(), "utf-8")
    print(f"written: {FILE}")
