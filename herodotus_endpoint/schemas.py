"""The shapes of our documents, as OpenAPI schemas: what `kubectl explain` prints and clients are checked by.

Owns: every field's type and meaning. Does not own: the documents (`herodotus_record`, `history`, `kubeapi.objects`);
tests hold them against these. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_endpoint.kubeapi.resources import GROUP, KINDS, VERSION

Json = dict[str, Any]

NAME: Final = f"{'.'.join(reversed(GROUP.split('.')))}.{VERSION}"  # schemas are named by the group, reversed


def ref(kind: str) -> Json:
    """A reference to one of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{NAME}.{kind}"}


def obj(description: str, **fields: Json) -> Json:
    """An object; it may have more fields than these."""
    return {"type": "object", "description": description, "properties": fields}


def mapping(description: str, of: Json) -> Json:
    """An object whose keys are names."""
    return {"type": "object", "description": description, "additionalProperties": of}


def array(description: str, of: Json) -> Json:
    """A list."""
    return {"type": "array", "description": description, "items": of}


def string(description: str, nullable: bool = False, **more: Any) -> Json:
    """A text; `nullable`: or null where there is none."""
    return {"type": "string", "description": description} | ({"nullable": True} if nullable else {}) | more


def integer(description: str, nullable: bool = False) -> Json:
    """A whole number."""
    return {"type": "integer", "format": "int64", "description": description} | ({"nullable": True} if nullable else {})


def number(description: str, nullable: bool = False) -> Json:
    """A number."""
    return {"type": "number", "description": description} | ({"nullable": True} if nullable else {})


def boolean(description: str) -> Json:
    """True or false."""
    return {"type": "boolean", "description": description}


def nullable(schema: Json) -> Json:
    """The same, or null."""
    return schema | {"nullable": True}


def anything(description: str) -> Json:
    """An object that the reader takes as it is."""
    return {"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": True}


def _top(kind: str, description: str, **fields: Json) -> Json:
    """A kind's schema: with apiVersion, kind and metadata."""
    head = {
        "apiVersion": string("The version of this schema."),
        "kind": string("The kind of this document."),
        "metadata": METADATA,
    }
    schema: Json = {"type": "object", "description": description, "properties": head | fields}
    if kind in {k.kind for k in KINDS}:
        schema["x-kubernetes-group-version-kind"] = [{"group": GROUP, "kind": kind, "version": VERSION}]
    return schema


def _list(kind: str) -> Json:
    items = array("The items of this page.", ref(kind))
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
_VERDICT: Final = obj(
    "What a plugin said of the pod as a whole.",
    plugin=string("The plugin."),
    code=string("kube-scheduler's status code."),
    reasons=array("Why, in kube-scheduler's words.", anything("A reason: code, parameters, sentence.")),
)
_PRUNED: Final = anything("Where the full record is gone: when it went, what is kept, and counts over all nodes.")
_BY_NODE: Final = {"type": "integer", "format": "int64"}
_SPEC: Final = obj(
    "What the scheduling attempt saw. A list leaves out all that is told per node.",
    key=obj(
        "What makes the attempt unique.",
        cluster=string("The UID of the cluster's namespace kube-system.", nullable=True),
        source=string("Who took the decision: scheduler, reconstructed or logged."),
        incarnation=string("One life of a scheduler process."),
        podUID=string("The pod's UID.", nullable=True),
        attempt=integer("The scheduler's own number of the attempt."),
    ),
    sequence=integer("The place among all records of the incarnation."),
    scheduler=obj(
        "Who decided.",
        profile=string("The pod's spec.schedulerName.", nullable=True),
        identity=string("The process.", nullable=True),
        version=string("Its version.", nullable=True),
    ),
    pod=obj(
        "The pod as the attempt read it.",
        namespace=string("Its namespace."),
        name=string("Its name."),
        uid=string("Its UID.", nullable=True),
        labels=nullable(mapping("Its labels.", string("A label's value."))),
        owner=nullable(obj("Its controller.", kind=string("The kind."), name=string("The name."))),
        priority=integer("Its priority.", nullable=True),
        requests=nullable(mapping("What it requests, in base units: cpu in milli, bytes, counts.", _BY_NODE)),
        digest=string("Of everything that scheduling reads of it: equal digests, equal questions.", nullable=True),
        nominatedNode=string("status.nominatedNodeName as the attempt began.", nullable=True),
    ),
    times=obj(
        "When, and how long each phase took.",
        podCreatedAt=string("The pod's creation.", nullable=True),
        queuedAt=string("When the scheduler first saw the pod.", nullable=True),
        startedAt=string("The start of the attempt."),
        phaseSeconds=nullable(mapping("Seconds in each extension point.", number("Seconds."))),
        queueSeconds=nullable(mapping("Seconds in each queue.", number("Seconds."))),
    ),
    wokenBy=nullable(anything("The event that ended the pod's wait.")),
    retry=nullable(anything("When a pod that was not placed is tried again.")),
    reconstruction=nullable(anything("Whether another scheduler's outcome follows from this, and why not.")),
    snapshot=obj(
        "The cluster that the attempt saw.",
        generation=integer("The snapshot's generation.", nullable=True),
        nodes=integer("All nodes.", nullable=True),
        evaluated=integer("Nodes that the filters looked at.", nullable=True),
        feasible=integer("Nodes that passed every filter.", nullable=True),
    ),
    preFilters=nullable(array("PreFilter plugins that did not succeed.", _VERDICT)),
    narrowedBy=nullable(array("PreFilter plugins that named the nodes to look at.", string("A plugin."))),
    evaluation=mapping("For each node: whether the filters looked at it, or why not.", string("A word.")),
    filters=array("Each filter: which nodes it rejected, and why.", anything("A filter's verdicts.")),
    scores=array("Each score plugin: raw and normalised scores, its weight.", anything("A plugin's scores.")),
    inputs=array("What plugins and extenders went by, a source each.", anything("A source, its numbers by node.")),
    totals=mapping("Each feasible node's total.", _BY_NODE),
    rank=mapping("Each feasible node's rank; 1 is best.", _BY_NODE),
    ties=array("Nodes that shared the best total.", string("A node.")),
    seed=integer("What drew among equals.", nullable=True),
    postFilters=nullable(array("What PostFilter plugins said.", _VERDICT)),
    preemption=nullable(anything("Where eviction would make room, and whom it would evict.")),
    marks=array("What this record does not know.", string("A mark.")),
    pruned=nullable(_PRUNED),
    unknown=array("Fields that are null: this record does not know them.", string("Its path in the spec.")),
)
_STATUS: Final = obj(
    "What came of the attempt.",
    state=string("Bound, Binding, DryRun, Failed, Unschedulable or Error."),
    path=string("How the attempt came to its end."),
    node=string("The chosen node.", nullable=True),
    message=string("The message of the pod's FailedScheduling event; empty where a node was chosen."),
    lost=boolean("The result was not recorded: the scheduler was restarted."),
    outcomes=array("Each later phase and how it ended.", anything("A phase.")),
)
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
        "Decision": _top("Decision", "One attempt to schedule one pod.", spec=_SPEC, status=_STATUS),
        "DecisionList": _list("Decision"),
        "NodeHistory": _top("NodeHistory", "What a node was considered for and how it fared.", **_HISTORY),
        "NodeHistoryList": _list("NodeHistory"),
        "PodExplanation": _top(
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
            inputs=array("What plugins and extenders went by, a source each.", anything("A source, and its numbers.")),
            rankingOmitted=integer("Nodes that are left out."),
            preemption=nullable(anything("Where eviction would make room.")),
            postFilters=array("What PostFilter plugins said.", anything("A plugin.")),
            marks=array("What the record does not know.", string("A mark.")),
            reconstruction=nullable(anything("Whether another scheduler's outcome follows from this, and why not.")),
            pruned=nullable(_PRUNED),
            columns=anything("All nodes as columns, where they are asked for."),
            perNode=array(
                "Each node on its own, where there are few, or where they are asked for.", anything("A node.")
            ),
        ),
        "Incarnation": _top(
            "Incarnation",
            "A scheduler process, and what of its records is missing.",
            cluster=string("The UID of the cluster's namespace kube-system.", nullable=True),
            identity=string("The process.", nullable=True),
            profiles=array("The profiles it decided for.", string("A profile.")),
            lastSeenAt=string("When its last record came."),
            missing=integer("Records that did not come."),
            explainedByGaps=integer("Records that it says are lost."),
        ),
        "IncarnationList": _list("Incarnation"),
        "PodHistory": _top(
            "PodHistory",
            "A pod's attempts, oldest first.",
            attempts=array("The attempts, each with what changed since the one before.", anything("An attempt.")),
            attemptsOmitted=integer("Earlier attempts that are not told."),
        ),
        "PodComparison": _top(
            "PodComparison",
            "Two pods, each as of its last attempt.",
            headline=string("What is different, in a sentence."),
            sameQuestion=boolean("Whether scheduling reads the same of both."),
            secondsApart=number("How much later the later one was decided."),
            pods=array("Both.", anything("A pod.")),
            differences=anything("What changed from the earlier to the later one."),
            nodes=array("The best nodes of both.", anything("A node, as it stood for each pod.")),
        ),
        "NodeComparison": _top(
            "NodeComparison",
            "Two nodes for one pod.",
            headline=string("What is different, in a sentence."),
            attempt=anything("The attempt."),
            nodes=array("Both.", anything("A node.")),
            filters=array("Each filter's verdict on both.", anything("A filter.")),
            scores=array("Each plugin's points for both.", anything("A plugin.")),
        ),
        "PendingPods": _top(
            "PendingPods",
            "The pods whose last attempt found no node.",
            at=string("When this was asked."),
            count=integer("How many there are."),
            overdue=integer("How many of them were not tried again when it was due."),
            groups=array("The pods by what most nodes said.", anything("A reason and its pods.")),
            pods=array("Every pod, the oldest first.", anything("A pod.")),
            podsOmitted=integer("Pods that are not told."),
        ),
        "WorkloadPlacement": _top(
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
        "Balance": _top(
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
        "Agreements": _top(
            "Agreements",
            "How other schedulers' outcomes compare with what was reconstructed.",
            since=string("From when on."),
            until=string("When this was asked."),
            complete=boolean("Whether these are all of the time that was asked for."),
            schedulers=array("Each scheduler's outcomes by class and cause.", anything("A scheduler.")),
            disagreements=array("The newest outcomes that do not follow.", anything("An outcome.")),
            disagreementsOmitted=integer("Those that are not told."),
        ),
        "ServiceVersion": _top(
            "ServiceVersion",
            "Which service answers.",
            version=string("Its version."),
            frameVersion=integer("The newest version of a record's frame that it reads."),
        ),
        "PlacementReview": _top(
            "PlacementReview",
            "Where pods would go that nobody creates.",
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
