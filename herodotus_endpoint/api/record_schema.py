"""The OpenAPI schema of a decision, which `kubectl explain` and docs/record.md print.

Owns: the type, the meaning and the unit of every field. Does not own: the document (`herodotus_record.document`); tests
check it against the schema. Pure.
"""

from __future__ import annotations

from typing import Final

from herodotus_endpoint.api.schema_types import Json, array, boolean, integer, mapping, nullable, number, obj, string
from herodotus_record.model import Agreement, Cause, Code, DecisionPath, Evaluation, Source


def _one_of(*words: str) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


_POINTS: Final = {"type": "integer", "format": "int64"}
_REASON: Final = obj(
    "A reason.",
    code=string("What it is called in the record's catalogue of reasons."),
    params=mapping("What the sentence needs besides the pod's requests and the node's amounts.", string("A value.")),
    sentence=string("kube-scheduler's sentence for it."),
)
_STATUS_FIELDS: Final = {
    "code": string(f"kube-scheduler's status code: {_one_of(*(code.label for code in Code))}."),
    "reasons": array("Why, in kube-scheduler's order.", _REASON),
}
_VERDICT: Final = obj("What a plugin said of the pod as a whole.", plugin=string("The plugin."), **_STATUS_FIELDS)
_FILTER: Final = obj(
    "What a filter said of every node that was looked at. Nodes that are in neither list passed.",
    plugin=string("The plugin, or the extender's address."),
    skipped=boolean("It had nothing to check for this pod."),
    rejected=mapping("The nodes that it turned away.", obj("Its verdict on the node.", **_STATUS_FIELDS)),
    notRun=array("Nodes that it was not asked about: an earlier filter had turned them away.", string("A node.")),
)
_SCORE: Final = obj(
    "What a score plugin gave every feasible node.",
    plugin=string("The plugin, or the extender's address."),
    weight=integer("What its normalised points are multiplied by."),
    skipped=boolean("It had nothing to score for this pod."),
    raw=mapping("Its points by node, in its own measure.", _POINTS),
    normalized=mapping("Its points by node, 0 to 100.", _POINTS),
)
_NUMBER: Final = obj(
    "A number of every node that was looked at.",
    name=string("What it is."),
    unit=string("As it is written behind the number; empty for none."),
    values=mapping("By node; null where the node has none.", number("The number.", nullable=True)),
)
_INPUTS: Final = obj(
    "What one plugin or extender went by, of one source.",
    plugin=string("The plugin, or the extender's address."),
    source=string("What the numbers came from."),
    numbers=array("The numbers.", _NUMBER),
    measuredAt=mapping("When they were measured, by node; null where it is not said.", string("When.", nullable=True)),
    stale=array("Nodes whose numbers were too old, and ignored.", string("A node.")),
)
_CANDIDATE: Final = obj(
    "A node where eviction would make room.",
    node=string("The node."),
    victims=array("The pods to evict, the most important first.", string("NAMESPACE/NAME.")),
    pdb_violations=integer("How many of them a disruption budget protects."),
    refused_by=string("The extender that rejected it; empty if none did."),
)
_VERDICT_COUNTS: Final = obj(
    "A filter's verdicts, counted.",
    plugin=string("The plugin."),
    verdicts=array(
        "Each verdict.",
        obj(
            "A verdict.",
            **_STATUS_FIELDS,
            nodes=integer("How many nodes got it."),
            first=integer("How many of them no earlier filter had rejected."),
        ),
    ),
)
PRUNED: Final = nullable(
    obj(
        "What is kept of a pruned record. Fields with an entry per node contain only the kept nodes.",
        at=string("When it went."),
        keptNodes=integer("How many nodes are kept."),
        text=string("It, in a sentence."),
        evaluation=mapping("All nodes, counted by `evaluation`.", _POINTS),
        filters=array("Each filter's verdicts on all nodes, counted.", _VERDICT_COUNTS),
        ties=integer("How many nodes shared the best total; 0 where one had it alone."),
    )
)
ORIGINS: Final = obj(
    "Which record each part comes from, if the log and a reconstruction of one attempt are merged; else absent.",
    records=mapping("Each record's id, by its source.", string("An id.")),
    parts=array(
        "The parts that come from the log.",
        obj(
            "A part.",
            part=string("Its path."),
            text=string("It, in words."),
            **{"from": array("Its sources: logged, or both, by node.", string("A source."))},
            overruled=integer("In how many nodes or values the reconstruction differs."),
        ),
    ),
    rest=string("The source of all other parts."),
    evaluation=string("The reconstruction by itself, in a sentence."),
)
SPEC: Final[Json] = obj(
    "What the scheduling attempt saw. Lists omit the fields with an entry per node.",
    key=obj(
        "What makes the attempt unique.",
        cluster=string("The UID of the cluster's namespace kube-system.", nullable=True),
        source=string(f"Where the decision comes from: {_one_of(*(s.value for s in Source))}."),
        incarnation=string("One run of a scheduler process: a UUID."),
        podUID=string("The pod's UID.", nullable=True),
        attempt=integer("The scheduler's own number of the attempt; it may begin at 1 again after a failover."),
    ),
    sequence=integer("The position among all records of the incarnation; a hole means missing records."),
    scheduler=obj(
        "The scheduler.",
        profile=string("The pod's spec.schedulerName.", nullable=True),
        identity=string("The process, as in its Lease.", nullable=True),
        version=string("Its version.", nullable=True),
    ),
    pod=obj(
        "The pod as the attempt read it.",
        namespace=string("Its namespace."),
        name=string("Its name."),
        uid=string("Its UID.", nullable=True),
        labels=nullable(mapping("Its labels, except those of --omit-labels.", string("A label's value."))),
        owner=nullable(obj("Its controller.", kind=string("The kind."), name=string("The name."))),
        priority=integer("Its priority.", nullable=True),
        requests=nullable(
            mapping("What it requests, in base units: cpu in thousandths of a core, bytes, counts.", _POINTS)
        ),
        digest=string("Of everything that scheduling reads of it: equal digests, equal reader.", nullable=True),
        nominatedNode=string("status.nominatedNodeName as the attempt began.", nullable=True),
    ),
    times=obj(
        "When, and how long each phase took.",
        podCreatedAt=string("The pod's creation.", nullable=True),
        queuedAt=string("When the scheduler first saw the pod.", nullable=True),
        startedAt=string("The start of the attempt."),
        phaseSeconds=nullable(
            mapping("Seconds in PreFilter, Filter, PostFilter, PreScore, Score.", number("Seconds."))
        ),
        queueSeconds=nullable(
            mapping("Seconds in the queues active, backoff, unschedulable, gated.", number("Seconds."))
        ),
    ),
    wokenBy=nullable(
        obj(
            "The event that requeued the pod; null if it had not waited for one.",
            event=string("The event, as kube-scheduler calls it."),
            plugin=string("The plugin that registered for it; null: no particular plugin.", nullable=True),
        )
    ),
    retry=nullable(
        obj(
            "When a rejected pod is tried again.",
            queue=string("The queue in which it waits."),
            notBefore=string("Not before."),
            latest=string("The latest time; null if it waits only for `notBefore`.", nullable=True),
        )
    ),
    reconstruction=nullable(
        obj(
            "Whether another scheduler's outcome follows from this.",
            agreement=string(f"{_one_of(*(a.value for a in Agreement))}."),
            cause=string(f"Why not: {_one_of(*(c.value for c in Cause))}.", nullable=True),
            bindingsInFlight=integer("Bindings that the snapshot leaves out (negative), or has beforehand."),
            deletionsInFlight=integer("The same for deletions of pods."),
        )
    ),
    origins=ORIGINS,
    snapshot=obj(
        "The cluster that the attempt saw.",
        generation=integer("The snapshot's number, which selects rows of the node table.", nullable=True),
        nodes=integer("All nodes.", nullable=True),
        evaluated=integer("Nodes that the filters evaluated.", nullable=True),
        feasible=integer("Nodes that passed every filter.", nullable=True),
    ),
    preFilters=nullable(array("PreFilter plugins that did not succeed.", _VERDICT)),
    narrowedBy=nullable(array("PreFilter plugins that restricted the nodes.", string("A plugin."))),
    evaluation=mapping(
        "For each node whether the filters evaluated it, or why not:"
        f" {_one_of(*(e.label for e in Evaluation if e != Evaluation.ABSENT))}.",
        string("A word."),
    ),
    filters=array("Each filter and extender, in order.", _FILTER),
    scores=array("Each score plugin and extender.", _SCORE),
    inputs=array("Measurements that plugins and extenders used, one entry per source.", _INPUTS),
    totals=mapping("Each feasible node's total: the sum of normalised points times weights.", _POINTS),
    rank=mapping("Each feasible node's rank; 1 is best, equal totals share one.", _POINTS),
    ties=array("Nodes that shared the best total; empty without a tie.", string("A node.")),
    seed=integer("The seed of the tie-break.", nullable=True),
    postFilters=nullable(array("Results of PostFilter plugins.", _VERDICT)),
    preemption=nullable(
        obj(
            "Where eviction would make room.",
            nominated=string("The node that was chosen for it; empty where none was."),
            candidates=array("The nodes.", _CANDIDATE),
            evicted=boolean("Whether the victims were evicted; false: evicting them would help."),
        )
    ),
    marks=array("What this record does not know, or what was switched off.", string("A mark.")),
    pruned=PRUNED,
    unknown=array("Fields that are null: this record does not know them.", string("Its path in the spec.")),
)
STATUS: Final[Json] = obj(
    "The outcome of the attempt.",
    state=string("Bound, Binding, DryRun, Failed, Unschedulable or Error."),
    path=string(f"How the attempt came to its end: {_one_of(*(p.value for p in DecisionPath))}."),
    node=string("The chosen node.", nullable=True),
    message=string("The message of the pod's FailedScheduling event; empty where a node was chosen."),
    lost=boolean("The result was not recorded: the scheduler was restarted."),
    outcomes=array(
        "Each later phase and how it ended.",
        obj(
            "A phase.",
            phase=string("Reserve, Permit, PreBind, Bind, or what the extension point is called."),
            status=string("kube-scheduler's status code."),
            node=string("The node."),
            message=string("What went wrong; empty where nothing did."),
            at=string("When it ended."),
            durationSeconds=number("How long it took."),
            final=boolean("No other follows."),
            sequence=integer(
                "Its own place among all records of the incarnation; 0: a later scheduler found the result."
            ),
        ),
    ),
)
