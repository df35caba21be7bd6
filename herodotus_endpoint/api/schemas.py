"""OpenAPI schemas of all documents except the decision, which `kubectl explain` prints and clients validate with.

Owns: the type and the meaning of every field. Does not own: the schema of a decision (`record_schema`), the documents
(`herodotus_record`, `node_history`, `kubeapi.objects`). Tests check the schemas against the documents. Pure.
"""

from __future__ import annotations

from typing import Final

from herodotus_endpoint.api.record_schema import ORIGINS, PRUNED, SPEC, STATUS
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

NAME: Final = f"{'.'.join(reversed(GROUP.split('.')))}.{VERSION}"  # Kubernetes names schemas by the reversed group


def schema_reference(kind: str) -> Json:
    """Return a JSON `$ref` object that points to the schema of this kind in `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{NAME}.{kind}"}


def _object_schema(kind: str, description: str, **fields: Json) -> Json:
    """Return the OpenAPI schema of a Kubernetes kind: apiVersion, kind and metadata, and the given fields."""
    head = {
        "apiVersion": string("The version of this schema."),
        "kind": string("The kind of this document."),
        "metadata": METADATA,
    }
    schema: Json = {"type": "object", "description": description, "properties": head | fields}
    if kind in {k.kind for k in RESOURCES}:
        schema["x-kubernetes-group-version-kind"] = [{"group": GROUP, "kind": kind, "version": VERSION}]
    return schema


def _list_schema(kind: str) -> Json:
    items = array("The items of this page.", schema_reference(kind))
    listed = string("Where the next page begins; absent on the last one.")
    return {
        "type": "object",
        "description": f"A page of items of kind {kind}.",
        "required": ["apiVersion", "kind", "items"],
        "properties": {
            "apiVersion": string("The version of this schema."),
            "kind": string("The kind of this document."),
            "metadata": obj(
                "About the page.", **{"continue": listed, "resourceVersion": string("Where a watch goes on from.")}
            ),
            "items": items,
        },
    }


METADATA: Final = obj(
    "Standard object's metadata.",
    name=string("The object's name: a decision's id, a pod's or a node's name."),
    namespace=string("The pod's namespace."),
    uid=string("The object's UID."),
    resourceVersion=string("The object's place in the store; opaque."),
    creationTimestamp=string("When it began."),
    labels=mapping("What it can be selected by.", string("A label's value.")),
)
_COUNTS: Final = {
    "considered": integer("Decisions that had the node in their table."),
    "evaluated": integer("Decisions whose filters looked at it."),
    "feasible": integer("Decisions that it fitted."),
    "chosen": integer("Decisions that chose it."),
}
_WINDOW: Final = {"from": string("Its start."), "to": string("Its end."), "bucketSeconds": integer("Its grain.")}
_HISTORY: Final = {
    "window": obj("The time that is counted over.", **_WINDOW),
    **_COUNTS,
    "notEvaluated": integer("Decisions that did not look at it."),
    "eligibility": anything("The share of evaluations that it passed."),
    "overTime": array("The counts by spans of whole hours.", anything("A span.")),
    "filters": array("Each filter's count of verdicts and reasons.", anything("A filter.")),
    "scores": anything("What score plugins gave it."),
    "won": anything("How it won: margins, and the plugin that carried it."),
    "lost": anything("How it lost: what cost it most."),
    "workloads": array("The workloads that went to it most; those that are hidden are one.", anything("A workload.")),
    "workloadsOmitted": integer("Workloads that are left out."),
    "recent": array("The last decisions that had it in their table.", anything("A decision.")),
    "recentOf": integer("Decisions that were looked at for those."),
    "share": anything("What all nodes got, and how many nodes there were in the hour with the most."),
    "keepsGetting": array("The workloads that went to it most, and what decided that.", anything("A workload.")),
    "keepsGettingOf": integer("Placements of those and of others, as far as what decided them was counted."),
}
SCHEMAS: Final[Json] = {
    f"{NAME}.{name}": schema
    for name, schema in {
        "Decision": _object_schema("Decision", "One attempt to schedule one pod.", spec=SPEC, status=STATUS),
        "DecisionList": _list_schema("Decision"),
        "NodeHistory": _object_schema("NodeHistory", "What a node was considered for and how it fared.", **_HISTORY),
        "NodeHistoryList": _list_schema("NodeHistory"),
        "PodExplanation": _object_schema(
            "PodExplanation",
            "The answer to: what happened to this pod.",
            headline=string("It, in a sentence."),
            summary=string("It, with the reasons."),
            message=string("The message of the pod's FailedScheduling event."),
            pod=anything("The pod."),
            attempt=anything("The attempt, and how many there are."),
            outcome=anything("What came of it."),
            nodes=anything("How many nodes there were, were looked at, and fit."),
            ranking=array("The best nodes.", anything("A node.")),
            rejections=array("The other nodes, by the reason.", anything("A reason.")),
            nextSteps=array("What would help.", string("A step.")),
            tie=nullable(anything("The nodes that shared the best total.")),
            margin=nullable(anything("How far the best node is ahead of the next.")),
            preFilters=array("PreFilter plugins that did not succeed.", anything("A plugin.")),
            narrowedBy=array("PreFilter plugins that named the nodes to look at.", string("A plugin.")),
            filters=array("How many nodes each filter passed and rejected.", anything("A filter.")),
            scorePlugins=array("The score plugins and their weights.", anything("A plugin.")),
            inputs=array(
                "Measurements that plugins and extenders used, one entry per source.",
                anything("A source, and its numbers."),
            ),
            rankingOmitted=integer("Nodes that are left out."),
            preemption=nullable(anything("Where eviction would make room.")),
            postFilters=array("What PostFilter plugins said.", anything("A plugin.")),
            marks=array("What the record does not know.", string("A mark.")),
            reconstruction=nullable(anything("Whether another scheduler's outcome follows from this, and why not.")),
            origins=ORIGINS,
            pruned=PRUNED,
            columns=anything("All nodes as columns, where they are asked for."),
            perNode=array(
                "Each node on its own, where there are few, or where they are asked for.", anything("A node.")
            ),
        ),
        "Incarnation": _object_schema(
            "Incarnation",
            "A scheduler process, and what of its records is missing.",
            cluster=string("The UID of the cluster's namespace kube-system.", nullable=True),
            identity=string("The process.", nullable=True),
            profiles=array("The profiles it decided for.", string("A profile.")),
            lastSeenAt=string("When its last record came."),
            nodeTableGeneration=integer("How far its node table is known.", nullable=True),
            highestSequence=integer("The number of its newest record.", nullable=True),
            missing=integer("Records that did not come."),
            explainedByGaps=integer("Records that it says are lost."),
            holes=array(
                "Which records those are.",
                obj(
                    "Numbers without a record.",
                    first=integer("The first."),
                    last=integer("The last."),
                    explained=boolean("It says itself that they are lost."),
                ),
            ),
            holesOmitted=integer("Holes that are not told."),
        ),
        "IncarnationList": _list_schema("Incarnation"),
        "PodHistory": _object_schema(
            "PodHistory",
            "A pod's attempts, oldest first.",
            attempts=array("The attempts, each with what changed since the one before.", anything("An attempt.")),
            attemptsOmitted=integer("Earlier attempts that are not told."),
        ),
        "PodComparison": _object_schema(
            "PodComparison",
            "Two pods, each as of its last attempt.",
            headline=string("What is different, in a sentence."),
            sameQuestion=boolean("Whether scheduling reads the same of both."),
            secondsApart=number("How much later the later one was decided."),
            pods=array("Both.", anything("A pod.")),
            differences=anything("What changed from the earlier to the later one."),
            nodes=array("The best nodes of both.", anything("A node, as it stood for each pod.")),
        ),
        "NodeComparison": _object_schema(
            "NodeComparison",
            "Two nodes for one pod.",
            headline=string("What is different, in a sentence."),
            attempt=anything("The attempt."),
            nodes=array("Both.", anything("A node.")),
            filters=array("Each filter's verdict on both.", anything("A filter.")),
            scores=array("Each plugin's points for both.", anything("A plugin.")),
        ),
        "PendingPods": _object_schema(
            "PendingPods",
            "The pods whose last attempt found no node.",
            at=string("When this was asked."),
            count=integer("How many there are."),
            overdue=integer("How many of them were not tried again when it was due."),
            groups=array("The pods by what most nodes said.", anything("A reason and its pods.")),
            pods=array("Every pod, the oldest first.", anything("A pod.")),
            podsOmitted=integer("Pods that are not told."),
        ),
        "WorkloadPlacement": _object_schema(
            "WorkloadPlacement",
            "Where a workload's pods went, and why.",
            headline=string("It, in a sentence."),
            placed=integer("Pods that were placed."),
            pending=array("Pods that found no node.", anything("A pod.")),
            skew=integer("The most pods on a node, less the fewest."),
            decidedBy=mapping("What decided how many placements.", integer("Placements.")),
            nodes=array("Each node's pods.", anything("A node.")),
            recent=array("The newest placements.", anything("A placement.")),
        ),
        "Balance": _object_schema(
            "Balance",
            "Which nodes won, what carried them, and who would win with other weights.",
            headline=string("It, in a sentence."),
            decisions=integer("Decisions that this is the sum of."),
            complete=boolean("Whether these are all of the time that was asked for."),
            plugins=array("Each score plugin's part.", anything("A plugin.")),
            overTime=array("Placements by spans of time.", anything("A span.")),
            nodes=array("Each node's wins.", anything("A node.")),
            moves=array("Decisions that other weights would have changed.", anything("A decision.")),
        ),
        "Agreements": _object_schema(
            "Agreements",
            "How other schedulers' outcomes compare with what was reconstructed.",
            since=string("From when on."),
            until=string("When this was asked."),
            complete=boolean("Whether these are all of the time that was asked for."),
            schedulers=array("Each scheduler's outcomes by class and cause.", anything("A scheduler.")),
            causes=array("Why outcomes do not agree, in words, the most first.", anything("A cause.")),
            disagreements=array("The newest outcomes that do not follow.", anything("An outcome.")),
            disagreementsOmitted=integer("Those that are not told."),
        ),
        "ServiceVersion": _object_schema(
            "ServiceVersion",
            "Which service answers.",
            version=string("Its version."),
            frameVersion=integer("The newest version of a record's frame that it reads."),
        ),
        "PlacementReview": _object_schema(
            "PlacementReview",
            "Where hypothetical pods would be placed.",
            spec=obj(
                "What is asked.",
                object=anything("A Pod, or a workload with a template of pods."),
                replicas=integer("How many pods; as many as the object says where it is absent."),
                schedulerName=string("Who decides, instead of whom the object names."),
                node=string("Tell of this node alone, where single nodes are told of."),
                allNodes=boolean("Tell of every node."),
                cluster=string("The UID of kube-system, where schedulers of several clusters answer."),
                kind=string("Of an answer: the object's kind."),
            ),
            status=obj(
                "What would happen.",
                headline=string("It, in a sentence."),
                fits=integer("How many pods would find a node."),
                nodes=array("The nodes that pods would go to.", anything("A node and how many.")),
                pods=array("Each pod that fits, in order.", anything("A pod, its node and what decided.")),
                first=anything("All about the first pod, a PodExplanation."),
                stopped=nullable(anything("All about the pod that does not fit, a PodExplanation.")),
            ),
        ),
        "Status": {
            "type": "object",
            "description": "Why a request failed.",
            "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
            "properties": {
                "kind": string("Status.", enum=["Status"]),
                "apiVersion": string("v1.", enum=["v1"]),
                "metadata": anything("Empty."),
                "status": string("Failure.", enum=["Failure"]),
                "message": string("What is wrong."),
                "reason": string("One word for it."),
                "details": anything("What helps with it."),
                "code": integer("The HTTP status."),
            },
        },
    }.items()
}
