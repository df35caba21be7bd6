"""Declare `live`: the part of an answer that only the API server knows, as it is now.

The decisions service answers from records and reads no objects of the cluster. A reader with the right to read them,
such as the plugin, may add one field `live` to an answer. It never changes another field, so the same document comes
from the service, from its Python client and from the plugin, and only `live` may be missing:

- The answer says what was recorded: `attempt.retry` of a pod that was deleted since, or a pod among `pods` that was
  placed since. `live` says what differs now, where it was read (`source`), and when (`at`).
- Readers who want the present state apply `live`: a pod is not pending if its UID is in `live.gone`, and nothing helps
  a pod whose `live.fate` is `deleted` or `replaced`. Screens do so, with `objects.drop_advice`,
  `objects.withdraw_placement`, `template_overrides.correct_suggestions` and `pending.apply_live`.
- `live` is absent if nothing was read. A field of it that could not be read is absent or null, and says nothing.

The plugin adds it to documents (`-o json`) too. Only what needs more requests after the answer is left to screens: who
holds what the pod lacks, and which rights for a suggestion the reader lacks.

Owns: the types. Does not own: the functions that build them from objects of the API server (`objects`, which the
plugin imports for most answers without these types), documents about pods without a decision (`unrecorded`).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.node_groups import EventReport, PodNodeGroups

Fate = Literal["exists", "deleted", "replaced"]


class Live(TypedDict):
    """Fields that every `live` has: where and when it was read."""

    source: Annotated[
        Literal["kube-apiserver", "scheduler"],
        "Where it was read; `scheduler` if the API server was not read and only a running scheduler evaluated.",
    ]
    at: Annotated[str, "Time at which it was read."]


class BatchQueueQuota(TypedDict):
    """The quota of a resource in a batch queue: of a flavor of Kueue's ClusterQueue, or of Volcano's Queue."""

    flavor: Annotated[str | None, "Kueue's ResourceFlavor."]
    resource: Annotated[str, "Name of the resource."]
    used: Annotated[str | None, "Amount in use."]
    limit: Annotated[str | None, "Kueue's nominalQuota, or capability of Volcano's Queue."]


class BatchQueue(TypedDict):
    """The queue or group in which a pod waits, as objects of Kueue, Volcano or coscheduling describe it."""

    by: Annotated[Literal["Kueue", "Volcano", "Coscheduling"], "Whose objects they are."]
    object: Annotated[str | None, "The pod's Workload or PodGroup, as KIND/NAME; null if it is not known."]
    localQueue: Annotated[str | None, "Kueue's LocalQueue."]
    queue: Annotated[str | None, "Kueue's ClusterQueue, or Volcano's Queue."]
    state: Annotated[str | None, "State of the object."]
    message: Annotated[
        str | None,
        "Message of the condition that says so, or how many pods of the group exist; and those without a node.",
    ]
    minMember: Annotated[int | None, "Number of pods that a PodGroup needs."]
    position: Annotated[int | None, "Position in the LocalQueue, from 1."]
    waiting: Annotated[int | None, "Number of Workloads or PodGroups that wait in the queue."]
    quota: Annotated[list[BatchQueueQuota], "Quota of the queue."]
    notes: Annotated[list[str], "Objects that could not be read, and why."]


class Remedy(TypedDict):
    """What somebody can do about a cause."""

    text: Annotated[str, "What to do, in a sentence that names objects that exist."]
    command: Annotated[str | None, "Shell command that does it; null if there is none."]
    checked: NotRequired[Annotated[bool, "Whether the engine found that it helps; absent if no engine has checked it."]]


class LiveCause(TypedDict):
    """Why something is in its state, from objects of the cluster and their events."""

    code: Annotated[str, "Stable code of the cause, such as image-pull."]
    text: Annotated[str, "The cause in a sentence, with the amounts and names that it is about."]
    object: Annotated[str | None, "Object that is the cause, as KIND/NAME; null if it is the pod."]
    source: Annotated[str, "Where it was read: a field such as status.conditions, or Event REASON."]
    at: Annotated[str | None, "Time since when it is so, or of the event; null if unknown."]
    remedies: Annotated[list[Remedy], "What to do about it, the best first."]
    inspect: NotRequired[Annotated[str, "Shell command that shows more of the cause, such as a container's output."]]


class TimelineEntry(TypedDict):
    """Something that happened to a pod or to its owner."""

    at: Annotated[str, "When it happened."]
    source: Annotated[str, "Where it was read: an object's field, or Event REASON with the component that reported it."]
    text: Annotated[str, "What happened, in a few words."]


class LiveState(TypedDict):
    """The state that a pod or a workload is really in now, and who has to act."""

    code: Annotated[str, "Stable code of the state, such as waits-for-kubelet, terminating or not-created."]
    headline: Annotated[str, "The state in one sentence."]
    actor: Annotated[str | None, "Who has to act: a component such as kubelet, or the user; null if nobody."]
    causes: Annotated[list[LiveCause], "Why it is in this state, the cause to act on first; empty if nothing is wrong."]
    timeline: NotRequired[
        Annotated[
            list[TimelineEntry], "What happened, oldest first, at most 100 entries, the last ones; if it is asked for."
        ]
    ]
    unread: Annotated[list[str], "Kinds of objects that could not be read, so that a cause may be missing."]


class PodCondition(TypedDict):
    """The pod's condition PodScheduled: what its scheduler reported last."""

    status: Annotated[str, "Status of the condition: True, False or Unknown."]
    reason: Annotated[str, "Reason of the status, such as Unschedulable; empty if none is given."]
    message: Annotated[str, "The scheduler's message; empty if none is given."]
    at: Annotated[str | None, "Time since when it has this status; null if unknown."]


class QueuePlace(TypedDict):
    """Place of a waiting pod among those of its scheduler, by priority and age."""

    position: Annotated[int | None, "Place, from 1; null if the other pods are not known."]
    waiting: Annotated[int | None, "Number of pods that wait for the scheduler; null if not known."]
    ahead: Annotated[list[str], "The first pods ahead of it, as NAMESPACE/NAME."]
    neglected: Annotated[bool, "Whether the scheduler runs and has not tried the pod when its record says it was due."]
    text: Annotated[str, "All of it in one sentence."]


class LivePod(Live):
    """What the API server knows now about the pod of an answer."""

    fate: Annotated[
        Fate | None,
        "Whether the pod still exists, was deleted, or was replaced by another pod of its name; null if unknown.",
    ]
    condition: NotRequired[
        Annotated[PodCondition, "Condition PodScheduled of a pod without a node; absent if it has none."]
    ]
    state: NotRequired[Annotated[LiveState, "State of the pod, and why; absent if it is the one of the decision."]]
    replacedBy: NotRequired[
        Annotated[
            PodWithoutDecision,
            "The pod that has the name now; `state` and `queue` are about it.",
        ]
    ]
    place: NotRequired[Annotated[QueuePlace, "Place of a waiting pod in its scheduler's queue; absent if unknown."]]
    queue: NotRequired[
        Annotated[
            BatchQueue,
            "Queue or group in which the pod waits, of Kueue, Volcano or coscheduling; absent for other pods.",
        ]
    ]
    end: NotRequired[
        Annotated[
            list[str],
            "What events and its node say of how a pod that no longer exists ended, each with its source.",
        ]
    ]
    preempted: NotRequired[
        Annotated[str, "Pod of the same owner that was preempted last, with its event; of a pod without a node alone."]
    ]
    nodeGroups: NotRequired[Annotated[PodNodeGroups, "Verdicts of node groups on the pod, evaluated now."]]
    autoscalerReports: NotRequired[
        Annotated[list[EventReport], "Autoscalers' events about a pod without a node, newest first; absent if none."]
    ]


class PodWithoutDecision(Document):
    """A pod without a decision or an evaluation, from its object alone. Only the plugin makes this document."""

    kind: Literal["UndecidedPod"]
    createdAt: Annotated[str, "Time at which the pod was created."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    schedulerName: Annotated[str, "The pod's spec.schedulerName."]
    node: Annotated[str | None, "Node of the pod."]
    schedulingGates: Annotated[list[str], "Names of its scheduling gates, which keep every scheduler from trying it."]
    headline: Annotated[str, "What the pod's object says, in one sentence."]
    notes: Annotated[list[str], "Why there is no decision or evaluation, as far as it is known."]
    possibleChanges: Annotated[list[str], "What to do to get an explanation."]


class UndecidedPod(PodWithoutDecision):
    """A pod that no recorded scheduler decided and that was not evaluated. Only the plugin makes this document."""

    live: NotRequired[Annotated[LivePod, "What the API server knows about the pod: its state, and why."]]


class NoLongerPendingPod(TypedDict):
    """A pod that is pending by its records but that the API server has placed or no longer has."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    startedAt: Annotated[str | None, "Start of its last attempt."]
    fate: Annotated[Literal["deleted", "replaced", "placed"] | None, "What became of it; null if unknown."]


class UntriedPod(TypedDict):
    """A pod without a node and without a recorded attempt. It may have been tried by a scheduler without records."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    createdAt: Annotated[str, "Time at which the pod was created."]
    schedulerName: Annotated[str, "Scheduler that the pod waits for, which is not recorded or has not tried it yet."]
    message: Annotated[str, "Message of its condition PodScheduled, which its scheduler wrote; empty if there is none."]
    schedulingGates: Annotated[list[str], "Its scheduling gates, which keep every scheduler from trying it."]


class PinnedPod(TypedDict):
    """A pod that may only run on one node."""

    uid: Annotated[str, "UID of the pod."]
    node: Annotated[str, "Name of the node."]


class UncreatedPods(TypedDict):
    """A workload whose pods cannot be created."""

    namespace: Annotated[str, "Namespace of the workload."]
    workload: Annotated[str, "The workload as KIND/NAME."]
    missing: Annotated[int, "Number of pods that it lacks."]
    reason: Annotated[str, "What refused the pods."]


class LivePending(Live):
    """What the API server knows now about the pods of a list of pending pods."""

    gone: Annotated[
        list[NoLongerPendingPod] | None, "Pods of `pods` that are no longer pending; null if it is not known which are."
    ]
    pinned: NotRequired[Annotated[list[PinnedPod], "Pods that may only run on one node, such as those of a DaemonSet."]]
    untried: Annotated[list[UntriedPod], "Pending pods that `pods` lacks, because no record mentions them."]
    notCreated: NotRequired[
        Annotated[list[UncreatedPods], "Workloads that lack pods which were never created: the five newest."]
    ]
    notCreatedOmitted: NotRequired[
        Annotated[int, "Number of further objects whose pods were refused, at which nothing looked; absent if none."]
    ]


class ZonePods(TypedDict):
    """Pods in one zone."""

    zone: Annotated[str, "Name of the zone; empty for nodes without one."]
    pods: Annotated[int, "Number of pods."]


class WorkloadCounts(TypedDict):
    """How many pods a workload wants and has now. Pods that have ended or are being deleted do not count as created."""

    wanted: Annotated[int | None, "Number of pods that it asks for; null if unknown."]
    created: Annotated[int, "Number of pods that exist."]
    notCreated: Annotated[int, "Number of wanted pods that do not exist."]
    updated: Annotated[int | None, "Number of pods of the newest template; null where templates have no revisions."]
    placed: Annotated[int | None, "Number of pods with a node; null if its pods cannot be read."]
    pending: Annotated[int, "Number of pods without a node."]
    ready: Annotated[int, "Number of pods that are ready."]
    available: Annotated[int | None, "Number of pods that are available, by its status; null if it does not say."]
    terminating: Annotated[int, "Number of pods that are being deleted and have not ended."]
    succeeded: NotRequired[Annotated[int, "Number of pods that have ended with success; of Jobs alone."]]
    failed: NotRequired[Annotated[int, "Number of pods that have failed; of Jobs alone."]]


class PodsInState(TypedDict):
    """Pods of a workload that are in the same state for the same reason, by their objects."""

    state: Annotated[str, "Code of the state, such as pod-waits-for-node."]
    reason: Annotated[str | None, "Code of its first cause, or of kube-scheduler's reason; null if unknown."]
    count: Annotated[int, "Number of pods."]
    pods: Annotated[list[str], "Names of the first ten."]
    headline: Annotated[str, "State of the first of them."]


class NodesWithoutPod(TypedDict):
    """Nodes on which a DaemonSet has no pod, for one reason."""

    code: Annotated[
        Literal["not-selected", "taint", "missing"],
        "not-selected: node selector or affinity exclude it; taint: not tolerated; missing: a pod is to be there.",
    ]
    text: Annotated[str, "The reason in a few words."]
    count: Annotated[int, "Number of nodes."]
    nodes: Annotated[list[str], "Names of the first ten."]
    command: NotRequired[Annotated[str, "Shell command after which they have a pod; absent if none is known."]]


class WorkloadAutoscaler(TypedDict):
    """The HorizontalPodAutoscaler of a workload."""

    name: Annotated[str, "Name of the HorizontalPodAutoscaler."]
    minReplicas: Annotated[int, "Fewest pods that it asks for."]
    maxReplicas: Annotated[int, "Most pods that it asks for."]
    desiredReplicas: Annotated[int | None, "Number of pods that it asks for now; null if it does not say."]
    limited: Annotated[str | None, "Why it asks for no other number, from its conditions; null if nothing limits it."]


class LiveWorkload(Live):
    """What the API server knows now about a workload, its pods and their nodes."""

    zones: Annotated[list[ZonePods], "Pods by the present zone of their node, most first, those without a zone last."]
    state: NotRequired[Annotated[LiveState, "State of the workload, and why; absent if it cannot be read."]]
    counts: NotRequired[Annotated[WorkloadCounts, "How many pods it wants and has; absent if it cannot be read."]]
    pods: NotRequired[Annotated[list[PodsInState], "Its pods that are not ready, by state and reason."]]
    nodesWithoutPod: NotRequired[Annotated[list[NodesWithoutPod], "Nodes without a pod; of DaemonSets alone."]]
    otherNodes: NotRequired[
        Annotated[str, "Filters that rejected the other nodes for its newest pod of which only one node fitted."]
    ]
    autoscaler: NotRequired[Annotated[WorkloadAutoscaler, "Its HorizontalPodAutoscaler; absent if there is none."]]
    selfExcludingConstraints: NotRequired[
        Annotated[
            list[str],
            "Sentences on topology spread constraints that do not count the workload's own pods; absent if none.",
        ]
    ]
