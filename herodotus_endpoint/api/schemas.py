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
_CHANGE: Final[Json] = {
    "kind": string("Kind of the change, such as set-request or uncordon."),
    "object": string("Object that is changed, as KIND/NAME."),
    "field": string("Field that is changed."),
    "from": nullable(string("Value before the change; null if there is none.")),
    "to": nullable(string("Value after the change; null if the field is removed.")),
}
_SUGGESTION: Final = obj(
    "A change after which the pod would fit on a node.",
    **_CHANGE,
    also=array("Further changes that are needed together with it.", obj("A change.", **_CHANGE)),
    node=string("Node on which the pod then fits."),
    text=string("The changes as a sentence."),
    command=nullable(string("Shell command that makes the changes; null if none is known.")),
    deletes=array("Objects that the command deletes, as KIND/NAME.", string("An object.")),
    rights=array(
        "Rights that the command needs.",
        obj(
            "A right.",
            verb=string("Verb of the request."),
            resource=string("Resource with its API group, such as statefulsets.apps."),
            namespace=string("Namespace; empty for nodes."),
        ),
    ),
    checked=boolean("Whether the pod with the changes passed all filters on the snapshot of the attempt."),
)
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
        "PendingPods": _object_schema(
            "PendingPods",
            "Pods whose last attempt did not find a node.",
            at=string("Time of the request."),
            count=integer("Number of pending pods."),
            overdue=integer("Number of pending pods whose retry is overdue."),
            groups=array("Pending pods, grouped by the reason of most nodes.", anything("A reason and its pods.")),
            pods=array("Pending pods, oldest first.", anything("A pod.")),
            podsOmitted=integer("Number of pods that are not listed."),
            source=SOURCE,
            noRecords=boolean("Present and true if no scheduler has ever sent records."),
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
        "PodGroupPlacement": _object_schema(
            "PodGroupPlacement",
            "How the pods of a PodGroup were placed together, or which of them block it.",
            source=SOURCE,
            state=string(
                "State of the group after its last cycle.",
                enum=[
                    "Scheduled",
                    "PartlyScheduled",
                    "Fits",
                    "WaitingForPreemption",
                    "Unschedulable",
                    "Error",
                ],
            ),
            headline=string("The result for the group in one sentence."),
            message=string("Message of the members whose placement was undone with the group; empty if none was."),
            minCount=nullable(integer("Number of pods that the group needs at least; null if unknown.")),
            members=integer("Number of pods that are listed."),
            placed=integer("Number of pods that are on a node or being bound to one."),
            provisional=integer("Number of pods for which a node was found, but which are not placed."),
            blocked=integer("Number of pods for which no node was found."),
            notRecorded=integer("Number of pods of the last cycle without a record."),
            missing=integer("Number of further pods that need a node before the group can be placed."),
            cycle=nullable(
                obj(
                    "Last cycle of the group; null if its pods were decided alone.",
                    number=integer("Number of the cycle among all group cycles of the scheduler process."),
                    pods=integer("Number of pods that the cycle had to decide."),
                    scheduledBefore=integer("Number of pods of the group that were on a node before the cycle."),
                    startedAt=string("Start of the first pod's decision."),
                    seconds=number("Time from the start of the first pod's decision to that of the last."),
                )
            ),
            shortage=nullable(
                obj(
                    "What would have been enough; null if no pod is missing.",
                    pods=integer("Number of missing pods."),
                    requests=anything("Requests of the missing pods together, by resource."),
                    closestNode=nullable(
                        obj(
                            "Rejected node that is closest to fitting the next pod.",
                            node=string("Name of the node."),
                            reason=string("Why it was rejected."),
                        )
                    ),
                    enoughMinCount=nullable(integer("Greatest minCount with which the group would have been placed.")),
                )
            ),
            reasons=array(
                "Reasons of the blocked pods, in the order of the cycle.",
                obj(
                    "A reason and its pods.",
                    reason=string("Reason of most nodes."),
                    pods=integer("Number of pods with the reason."),
                    first=string("Name of the first of them."),
                    position=nullable(integer("Position of the first of them in the cycle.")),
                    id=string("ID of its decision."),
                    message=string("Message of its FailedScheduling event."),
                    headline=nullable(string("Its decision in one sentence; null if it was not read.")),
                    suggestions=array("Changes after which it would have fitted.", anything("A suggestion.")),
                ),
            ),
            reasonsOmitted=integer("Number of reasons that are not listed."),
            nodes=array(
                "Nodes that were chosen for pods of the group.",
                obj(
                    "A node.",
                    node=string("Name."),
                    pods=integer("Number of the group's pods for which it was chosen."),
                    last=string("Name of the last of them."),
                    position=nullable(integer("Position of the last of them in the cycle.")),
                    full=nullable(boolean("Whether it rejected the first blocked pod; null if unknown.")),
                    reason=nullable(string("Why it rejected the first blocked pod.")),
                ),
            ),
            pods=array(
                "Pods of the group, in the order of the cycle.",
                obj(
                    "A pod.",
                    namespace=string("Namespace."),
                    pod=string("Name."),
                    uid=string("UID."),
                    position=nullable(integer("Position in the last cycle; null if it was decided before.")),
                    state=string("State of its last attempt, or Fits."),
                    node=nullable(string("Node that the attempt chose.")),
                    provisional=boolean("Whether it is not placed on that node."),
                    reason=nullable(string("Why it is not placed.")),
                    attempt=integer("Number of the attempt."),
                    startedAt=string("Start of the attempt."),
                    id=string("ID of the decision."),
                ),
            ),
        ),
        "Balance": _object_schema(
            "Balance",
            "How placements spread over nodes, which plugins decided, and which node would win with other weights.",
            since=string("Start of the time window."),
            to=string("End of the time window."),
            headline=string("The balance in one sentence."),
            decisions=integer("Number of decisions that are counted."),
            complete=boolean("Whether every decision of the requested time window is counted."),
            plugins=array("Share of each score plugin in the placements.", anything("A plugin.")),
            overTime=array("Placements by time bucket.", anything("A span.")),
            otherReasons=mapping(
                "Number of placements that no plugin decided, by the reason.", integer("Number of placements.")
            ),
            nodes=array("Placements by node.", anything("A node.")),
            nodesOmitted=integer("Number of nodes that are not listed."),
            weights=nullable(mapping("The other weights by plugin; null without any.", integer("A weight."))),
            moved=integer("Number of decisions that the other weights would have changed.", nullable=True),
            moves=array("Decisions that the other weights would have changed.", anything("A decision.")),
            movesOmitted=integer("Number of such decisions that are not listed."),
        ),
        "Agreements": _object_schema(
            "Agreements",
            "Comparison of other schedulers' outcomes with the observer's reconstructions.",
            since=string("Start of the time window."),
            until=string("Time of the request."),
            complete=boolean("Whether every decision of the requested time window is counted."),
            schedulers=array("Outcomes of each scheduler by agreement and cause.", anything("A scheduler.")),
            causes=array("Causes of outcomes that do not agree, the most frequent first.", anything("A cause.")),
            disagreements=array("Newest outcomes that disagree with the reconstruction.", anything("An outcome.")),
            disagreementsOmitted=integer("Number of disagreements that are not listed."),
        ),
        "Preemptions": _object_schema(
            "Preemptions",
            "Pods that were evicted to make room for pods of higher priority, by the decision that chose them.",
            since=string("Start of the time window."),
            until=string("Time of the request."),
            complete=boolean("Whether every decision of the requested time window is counted."),
            preemptions=array("Preemptions, the newest first.", anything("A preemptor with its victims.")),
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
