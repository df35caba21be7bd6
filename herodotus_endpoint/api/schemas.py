"""OpenAPI schemas of all documents, which `kubectl explain` prints and clients validate with.

Owns: the type and the meaning of the fields of kinds that are not declared in `herodotus_answers` yet. Does not own:
the schemas of declared kinds (`herodotus_answers.schema`), the documents. Tests check the schemas against the
documents. Pure.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.schema import NAME
from herodotus_endpoint.api.schema_types import (
    Json,
    anything,
    array,
    integer,
    mapping,
    nullable,
    obj,
    string,
)
from herodotus_endpoint.resources import GROUP, RESOURCES, VERSION


def _object_schema(kind: str, description: str, **fields: Json) -> Json:
    """Return the OpenAPI schema of a Kubernetes kind: apiVersion, kind and metadata, and the given fields."""
    head = {
        "apiVersion": string("API version of this document."),
        "kind": string("Kind of this document."),
        "metadata": METADATA,
    }
    schema: Json = {"type": "object", "description": description, "properties": head | fields}
    if kind in {k.kind for k in RESOURCES}:
        schema["x-kubernetes-group-version-kind"] = [{"group": GROUP, "kind": kind, "version": VERSION}]
    return schema


METADATA: Final = obj(
    "Standard object's metadata.",
    name=string("Name of the object: the id of a decision, or the name of a pod, node or workload."),
    namespace=string("Namespace of the pod."),
    uid=string("UID of the object."),
    resourceVersion=string("Opaque version of the object."),
    creationTimestamp=string("Time at which the attempt or process began."),
    labels=mapping(
        "Labels of the pod, and labels of the service such as herodotus.dev/state, for label selectors.",
        string("Value of the label."),
    ),
)
SOURCE: Final = string("`evaluated` if the answer is an evaluation of the present cluster, which local mode makes.")
SCHEMAS: Final[Json] = {
    f"{NAME}.{name}": schema
    for name, schema in {
        "ClusterReview": _object_schema(
            "ClusterReview",
            "What would follow if nodes were changed and workloads created or scaled, and how many pods would fit.",
            spec=obj(
                "The question: exactly one of changes, capacity, consolidate, nodeGroups, scaleDown, upgrade and"
                " continue.",
                changes=array(
                    "Changes in order. `kind` is Drain, Cordon, Uncordon, RemoveNodes, AddNodes, TaintNodes,"
                    " LabelNodes, Scale or Create.",
                    anything("A change."),
                ),
                capacity=anything("A pod or workload of which to find out how many more pods fit."),
                consolidate=anything("Nodes of which to find out whether they could be emptied."),
                nodeGroups=anything("Node groups, and pods of which to find out which groups would take them."),
                scaleDown=anything("Nodes of which to find out what keeps an autoscaler from removing them."),
                upgrade=anything("A version of Kubernetes, to find out which decisions its rules would change."),
                schedulerName=string("Scheduler that answers; by default the one of the cluster that answers."),
                cluster=string(
                    "UID of the namespace kube-system of the cluster, if schedulers of several clusters answer."
                ),
                **{"continue": string("Token of an answer whose phase is Running, to get the rest.")},
            ),
            status=obj(
                "Result of the review.",
                phase=string("Running until every pod was decided, then Complete.", enum=["Running", "Complete"]),
                progress=nullable(
                    obj(
                        "How far the answer is, while the phase is Running.",
                        done=integer("Number of pods that were decided."),
                        total=integer("Number of pods that are known to be decided."),
                    )
                ),
                placements=array("Pods that the changes move or create.", anything("A pod with its nodes.")),
                blocked=array("Pods that stay although they should move.", anything("A pod with the cause.")),
                ignored=array("Pods that a drain leaves alone.", anything("A pod with the cause.")),
                deleted=array("Pods that end without a replacement.", anything("A pod with the cause.")),
                pending=array("Pods that waited and get a node.", anything("A pod with its node.")),
                nodes=array("Nodes that change.", anything("A node before and after.")),
                capacity=nullable(anything("How many pods fit, in all, per node and per zone.")),
                consolidation=nullable(anything("Nodes that could be emptied, in order, and those that could not.")),
                nodeGroups=nullable(anything("Node groups, and the verdicts on pods for each group.")),
                scaleDown=nullable(anything("Nodes with what keeps an autoscaler from removing them.")),
                upgrade=nullable(anything("What the rules of another version would decide otherwise.")),
                notes=array("What the answer does not take into account.", string("A sentence.")),
                **{"continue": string("Token with which to ask again, while the phase is Running.")},
            ),
        ),
    }.items()
}
