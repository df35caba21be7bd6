"""OpenAPI schemas of all documents except the decision, which `kubectl explain` prints and clients validate with.

Owns: the type and the meaning of every field. Does not own: the schema of a decision (`record_schema`), the documents
(`herodotus_record`, `node_history`, `kubeapi.objects`). Tests check the schemas against the documents. Pure.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.schema import NAME, refer_to
from herodotus_endpoint.api.schema_types import (
    Json,
    anything,
    array,
    boolean,
    integer,
    mapping,
    nullable,
    number,
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


def _list_schema(kind: str) -> Json:
    items = array("Items of this page.", refer_to(kind))
    listed = string("Cursor of the next page; absent on the last page.")
    return {
        "type": "object",
        "description": f"A page of items of kind {kind}.",
        "required": ["apiVersion", "kind", "items"],
        "properties": {
            "apiVersion": string("API version of this document."),
            "kind": string("Kind of this document."),
            "metadata": obj(
                "Metadata of the page.",
                **{"continue": listed, "resourceVersion": string("Version from which a watch continues.")},
            ),
            "items": items,
        },
    }


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
_COUNTS: Final = {
    "considered": integer("Number of decisions whose snapshot had the node."),
    "evaluated": integer("Number of decisions whose filters evaluated the node."),
    "feasible": integer("Number of decisions in which the node passed every filter."),
    "chosen": integer("Number of decisions that chose the node."),
}
_WINDOW: Final = {
    "from": string("Start of the window."),
    "to": string("End of the window."),
    "bucketSeconds": integer("Length of a bucket in seconds."),
}
SOURCE: Final = string("`evaluated` if the answer is an evaluation of the present cluster, which local mode makes.")
_HISTORY: Final = {
    "source": SOURCE,
    "window": obj("Time window in which decisions are counted.", **_WINDOW),
    **_COUNTS,
    "notEvaluated": integer("Number of decisions that did not evaluate the node."),
    "eligibility": anything("Evaluations of the node and how many of them it passed, as counts and as a rate."),
    "overTime": array("The same counts for buckets of whole hours.", anything("A span.")),
    "filters": array("Number of verdicts and reasons of each filter.", anything("A filter.")),
    "scores": anything("Scores that the plugins gave the node."),
    "won": anything("Decisions that the node won: its lead, and the plugin that contributed most to it."),
    "lost": anything("Decisions that the node lost: the plugin that cost it most."),
    "workloads": array(
        "Workloads with the most pods placed on the node; all hidden workloads count as one.", anything("A workload.")
    ),
    "workloadsOmitted": integer("Number of workloads that are not listed."),
    "recent": array("Newest decisions whose snapshot had the node.", anything("A decision.")),
    "recentOf": integer("Maximum number of decisions that are searched for `recent`."),
    "share": anything(
        "Placements on all nodes, and the highest number of nodes in an hour, to compare with this node."
    ),
    "keepsGetting": array(
        "Workloads with the most pods placed on the node, with the plugins that decided.", anything("A workload.")
    ),
    "keepsGettingOf": integer("Number of placements on the node for which the deciding plugin was counted."),
}
SCHEMAS: Final[Json] = {
    f"{NAME}.{name}": schema
    for name, schema in {
        "NodeHistory": _object_schema(
            "NodeHistory", "How often a node was considered, rejected and chosen in a time window, and why.", **_HISTORY
        ),
        "NodeHistoryList": _list_schema("NodeHistory"),
        "Cluster": _object_schema(
            "Cluster",
            "A cluster whose records the service has, which `cluster` of a request names.",
            displayName=string("Common name of its sender's certificate; null without one.", nullable=True),
            own=boolean("Whether it is the API server's own cluster."),
            lastSeenAt=string("Time at which its last record arrived."),
            schedulers=array("Profiles (spec.schedulerName) for which its schedulers decided.", string("A profile.")),
            incarnations=integer("Number of runs of scheduler processes."),
            missing=integer("Number of records that did not arrive."),
            explainedByGaps=integer("Number of missing records that gap records explain."),
        ),
        "ClusterList": _list_schema("Cluster"),
        "Incarnation": _object_schema(
            "Incarnation",
            "One run of a scheduler process, and which of its records are missing.",
            cluster=string("UID of the cluster's namespace kube-system.", nullable=True),
            identity=string("Identity of the process, as in its Lease.", nullable=True),
            profiles=array("Profiles (spec.schedulerName) for which the process decided.", string("A profile.")),
            lastSeenAt=string("Time at which its last record arrived."),
            nodeTableGeneration=integer("Newest generation of its node table that is stored.", nullable=True),
            highestSequence=integer("Sequence number of its newest record.", nullable=True),
            missing=integer("Number of records that did not arrive."),
            explainedByGaps=integer("Number of missing records that its gap records explain."),
            missingRanges=array(
                "Ranges of missing sequence numbers.",
                obj(
                    "One range of missing sequence numbers.",
                    first=integer("First missing sequence number."),
                    last=integer("Last missing sequence number."),
                    explained=boolean("Whether a gap record of the process states this loss."),
                ),
            ),
            missingRangesOmitted=integer("Number of ranges that are not listed."),
        ),
        "IncarnationList": _list_schema("Incarnation"),
        "PodHistory": _object_schema(
            "PodHistory",
            "Attempts to schedule a pod, oldest first.",
            owner=nullable(string("Owner of the pod as KIND/NAME.")),
            createdAt=string("Time at which the pod was created."),
            attempts=array("Attempts, each with the changes since the previous one.", anything("An attempt.")),
            attemptsOmitted=integer("Number of earlier attempts that are not listed."),
            repeatedAttempts=integer("Number of attempts that are only counted, on those that they repeat."),
        ),
        "PodComparison": _object_schema(
            "PodComparison",
            "Comparison of two pods, each at its last attempt.",
            headline=string("The difference in one sentence."),
            sameQuestion=boolean("Whether both pods are equal in everything that scheduling reads."),
            secondsApart=number("Seconds between the two attempts."),
            pods=array("The two pods.", anything("A pod.")),
            differences=anything("Changes from the earlier to the later attempt."),
            nodes=array("Best nodes of both attempts.", anything("A node with its result for each pod.")),
        ),
        "NodeComparison": _object_schema(
            "NodeComparison",
            "Comparison of two nodes for one pod.",
            headline=string("The difference in one sentence."),
            attempt=anything("The attempt that is explained."),
            nodes=array("The two nodes.", anything("A node.")),
            filters=array("Verdict of each filter on both nodes.", anything("A filter.")),
            scores=array("Scores of each plugin for both nodes.", anything("A plugin.")),
            totals=nullable(array("Totals of the two nodes; null unless both were scored.", integer("A total."))),
        ),
        "WorkloadPlacement": _object_schema(
            "WorkloadPlacement",
            "Nodes on which the pods of a workload were placed, and why.",
            since=string("Start of the time window."),
            complete=boolean("Whether every decision of the requested time window is counted."),
            headline=string("The placement in one sentence."),
            placed=integer("Number of pods that were placed."),
            pending=array("Pods without a node.", anything("A pod.")),
            nodesTotal=integer("Number of the cluster's nodes at the newest placement."),
            skew=integer("Difference between the highest and the lowest number of pods on a node."),
            decided=integer("Number of placements for which it is known what decided them."),
            decidedBy=mapping(
                "Number of placements by the plugin, or tie, that decided them.", integer("Number of placements.")
            ),
            nodes=array("Pods of the workload by node.", anything("A node.")),
            recent=array("Newest placements.", anything("A placement.")),
        ),
        "ServiceVersion": _object_schema(
            "ServiceVersion",
            "Version of the decisions service.",
            version=string("Version of the service."),
            frameVersion=integer("Newest version of record frames that the service reads."),
        ),
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
        "Status": {
            "type": "object",
            "description": "Error response of a failed request.",
            "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
            "properties": {
                "kind": string("Status.", enum=["Status"]),
                "apiVersion": string("v1.", enum=["v1"]),
                "metadata": anything("Empty."),
                "status": string("Failure.", enum=["Failure"]),
                "message": string("Error message."),
                "reason": string("Machine-readable reason."),
                "details": anything("Details of the error."),
                "code": integer("HTTP status code."),
            },
        },
    }.items()
}
