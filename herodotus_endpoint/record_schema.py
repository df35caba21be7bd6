"""The shape of a decision, as an OpenAPI schema: what `kubectl explain` prints, and docs/record.md.

Owns: every field's type, meaning and unit. Does not own: the document (`herodotus_record.document`); tests hold it
against this. Pure.
"""

from __future__ import annotations

from typing import Final

from herodotus_endpoint.schema_words import Json, array, boolean, integer, mapping, nullable, number, obj, string
from herodotus_record.model import Agreement, Cause, Code, Evaluation, Path, Source


def _one_of(*words: str) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


_POINTS: Final = {"type": "integer", "format": "int64"}
_REASON: Final = obj(
    "A reason.",
    code=string("What it is called in the record's catalogue of reasons."),
    params=mapping("What the sentence needs besides the pod's requests and the node's amounts.", string("A value.")),
    sentence=string("kube-scheduler's sentence for it."),
)
_SAID: Final = {
    "code": string(f"kube-scheduler's status code: {_one_of(*(code.label for code in Code))}."),
    "reasons": array("Why, in kube-scheduler's order.", _REASON),
}
_VERDICT: Final = obj("What a plugin said of the pod as a whole.", plugin=string("The plugin."), **_SAID)
_FILTER: Final = obj(
    "What a filter said of every node that was looked at. Nodes that are in neither list passed.",
    plugin=string("The plugin, or the extender's address."),
    skipped=boolean("It had nothing to check for this pod."),
    rejected=mapping("The nodes that it turned away.", obj("Its verdict on the node.", **_SAID)),
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
    victims=array("Who would have to go, the most important first.", string("NAMESPACE/NAME.")),
    pdb_violations=integer("How many of them a disruption budget protects."),
    refused_by=string("The extender that would not have it; empty where none objected."),
)
_COUNTED: Final = obj(
    "A filter's verdicts, counted.",
    plugin=string("The plugin."),
    verdicts=array(
        "Each verdict.",
        obj(
            "A verdict.",
            **_SAID,
            nodes=integer("How many nodes got it."),
            first=integer("How many of them no earlier filter had turned away."),
        ),
    ),
)
PRUNED: Final = nullable(
    obj(
        "Where the full record is gone: what is kept of it. What is told node by node is of the kept nodes alone.",
        at=string("When it went."),
        keptNodes=integer("How many nodes are kept."),
        text=string("It, in a sentence."),
        evaluation=mapping("All nodes, counted by `evaluation`.", _POINTS),
        filters=array("Each filter's verdicts on all nodes, counted.", _COUNTED),
        ties=integer("How many nodes shared the best total; 0 where one had it alone."),
    )
)
ORIGINS: Final = obj(
    "Where a reconstruction and the scheduler's log tell of the attempt: who tells what. Absent where one record does.",
    records=mapping("Each record's id, by its source.", string("An id.")),
    parts=array(
        "The parts in which the log has a say.",
        obj(
            "A part.",
            part=string("Its path."),
            text=string("It, in words."),
            **{"from": array("Whose it is: logged, or both, node by node.", string("A source."))},
            overruled=integer("In how many nodes, or values, the reconstruction has it otherwise."),
        ),
    ),
    rest=string("Whose all other parts are."),
    evaluation=string("The reconstruction by itself, in a sentence."),
)
SPEC: Final[Json] = obj(
    "What the scheduling attempt saw. A list leaves out all that is told per node.",
    key=obj(
        "What makes the attempt unique.",
        cluster=string("The UID of the cluster's namespace kube-system.", nullable=True),
        source=string(f"Where the decision comes from: {_one_of(*(s.value for s in Source))}."),
        incarnation=string("One life of a scheduler process: a UUID."),
        podUID=string("The pod's UID.", nullable=True),
        attempt=integer("The scheduler's own number of the attempt; it may begin at 1 again after a failover."),
    ),
    sequence=integer("The place among all records of the incarnation: without a hole, or something is missing."),
    scheduler=obj(
        "Who decided.",
        profile=string("The pod's spec.schedulerName.", nullable=True),
        identity=string("The process, as in its Lease.", nullable=True),
        version=string("Its version.", nullable=True),
    ),
    pod=obj(
        "The pod as the attempt read it.",
        namespace=string("Its namespace."),
        name=string("Its name."),
        uid=string("Its UID.", nullable=True),
        labels=nullable(mapping("Its labels, but for those of --omit-labels.", string("A label's value."))),
        owner=nullable(obj("Its controller.", kind=string("The kind."), name=string("The name."))),
        priority=integer("Its priority.", nullable=True),
        requests=nullable(
            mapping("What it requests, in base units: cpu in thousandths of a core, bytes, counts.", _POINTS)
        ),
        digest=string("Of everything that scheduling reads of it: equal digests, equal questions.", nullable=True),
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
            "What ended the pod's wait; null where it had not waited for an event.",
            event=string("The event, as kube-scheduler calls it."),
            plugin=string("The plugin that hoped for it; null: whichever.", nullable=True),
        )
    ),
    retry=nullable(
        obj(
            "When a pod that was not placed is tried again.",
            queue=string("Where it waits."),
            notBefore=string("Not before."),
            latest=string("No later than; null where it waits for nothing but this.", nullable=True),
        )
    ),
    reconstruction=nullable(
        obj(
            "Whether another scheduler's outcome follows from this.",
            agreement=string(f"{_one_of(*(a.value for a in Agreement))}."),
            cause=string(f"Why not: {_one_of(*(c.value for c in Cause))}.", nullable=True),
            bindingsInFlight=integer("Bindings that the snapshot leaves out (negative), or has beforehand."),
            deletionsInFlight=integer("Likewise of pods that went."),
        )
    ),
    origins=ORIGINS,
    snapshot=obj(
        "The cluster that the attempt saw.",
        generation=integer("The snapshot's number; rows of the node table are told by it.", nullable=True),
        nodes=integer("All nodes.", nullable=True),
        evaluated=integer("Nodes that the filters looked at.", nullable=True),
        feasible=integer("Nodes that passed every filter.", nullable=True),
    ),
    preFilters=nullable(array("PreFilter plugins that did not succeed.", _VERDICT)),
    narrowedBy=nullable(array("PreFilter plugins that named the nodes to look at.", string("A plugin."))),
    evaluation=mapping(
        "For each node whether the filters looked at it, or why not:"
        f" {_one_of(*(e.label for e in Evaluation if e != Evaluation.ABSENT))}.",
        string("A word."),
    ),
    filters=array("Each filter and extender, in order.", _FILTER),
    scores=array("Each score plugin and extender.", _SCORE),
    inputs=array("What plugins and extenders went by, a source each.", _INPUTS),
    totals=mapping("Each feasible node's total: the sum of normalised points times weights.", _POINTS),
    rank=mapping("Each feasible node's rank; 1 is best, equal totals share one.", _POINTS),
    ties=array("Nodes that shared the best total; empty where one had it alone.", string("A node.")),
    seed=integer("What drew among equals.", nullable=True),
    postFilters=nullable(array("What PostFilter plugins said.", _VERDICT)),
    preemption=nullable(
        obj(
            "Where eviction would make room.",
            nominated=string("The node that was chosen for it; empty where none was."),
            candidates=array("The nodes.", _CANDIDATE),
            evicted=boolean("Whether the victims were told to go, or this is only what would help."),
        )
    ),
    marks=array("What this record does not know, or what was switched off.", string("A mark.")),
    pruned=PRUNED,
    unknown=array("Fields that are null: this record does not know them.", string("Its path in the spec.")),
)
STATUS: Final[Json] = obj(
    "What came of the attempt.",
    state=string("Bound, Binding, DryRun, Failed, Unschedulable or Error."),
    path=string(f"How the attempt came to its end: {_one_of(*(p.value for p in Path))}."),
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
            sequence=integer("Its own place among all records of the incarnation."),
        ),
    ),
)
