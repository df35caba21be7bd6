"""Changes of kube-scheduler in newer versions that are no rule here: not built, in every version, or another way.

Owns: the declaration of each, and which pods one concerns that is not built. Does not own: rules (`version_rules`) and
feature gates (`feature_gates`), which make up the rest of what a version changes.

`docs/parity.md` has a table of this declaration. A record of a pod that a change concerns which is not built has a note
that names the change, in every command and process that decides pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import Reason
from herodotus_record.notes import NOT_BUILT
from scheduler.engine.objects.pod import PodInfo

DYNAMIC_RESOURCES: Final = "DynamicResources"

Concerns = Callable[[PodInfo, Collection[str]], bool]
"""`(pod, filters)`: return whether a change concerns a pod, for which the plugins `filters` filter nodes."""


class Handling(Enum):
    """What happens here in the place of a change upstream."""

    NOT_BUILT = "not built"
    EVERY_VERSION = "in every version"  # the rule applies here whatever the cluster's version
    OTHERWISE = "another way"  # the same end by other means


@dataclass(frozen=True)
class UpstreamChange:
    """One change since v1.`minor`: what it is about, its source, and what happens here instead.

    `detail` says what differs here, or why nothing does. `concerns` is None where no single pod is concerned.
    """

    minor: int
    subject: str
    detail: str
    source: str
    handling: Handling
    concerns: Concerns | None = None

    def build_note(self) -> Reason:
        """Return the note for the record of a pod that this change concerns and that is decided by the older rule."""
        versions = {"rules": f"v1.{self.minor - 1}", "version": f"v1.{self.minor}"}
        return Reason(NOT_BUILT, {"change": self.subject, "source": self.source, **versions})


def _has_devices(pod: PodInfo, filters: Collection[str]) -> bool:
    return bool(pod.pod.spec.resource_claims) or DYNAMIC_RESOURCES in filters


def _is_in_group(pod: PodInfo, filters: Collection[str]) -> bool:
    return pod.pod_group is not None


UPSTREAM_CHANGES: Final = (
    UpstreamChange(
        37,
        "pod groups",
        "`scheduling.k8s.io/v1beta1` with `minCount` that may change, the condition PodGroupInitiallyScheduled and"
        " DisruptionMode as a struct; preemption for groups; the rest of a group goes to the active queue. The gate"
        " GenericWorkload is refused for v1.37, and a group's pods are not decided together",
        "#140184, #138572, #139743, #139279, #140080, #139218, #140311, #139980, #138757, #139030, #140412, #139674,"
        " #137981, #139613",
        Handling.NOT_BUILT,
        _is_in_group,
    ),
    UpstreamChange(
        37,
        "allocation of devices",
        "devices are chosen as in v1.36; v1.37 chooses others where candidates are rejected, counters are shared or"
        " pools of two drivers have one name",
        "#140431, #140435, #140437, #139040, #140600, #140702",
        Handling.NOT_BUILT,
        _has_devices,
    ),
    UpstreamChange(
        37,
        "names of events",
        "`requeuedBy` and metrics name events of pods without a node `UnschedulablePod…`, as v1.36 does; v1.37 says"
        " `UnscheduledPod…` and `TargetPod…`",
        "#135905",
        Handling.NOT_BUILT,
    ),
    UpstreamChange(
        37,
        "new metrics",
        "`scheduler_queued_entities` and the groups' metrics are not served",
        "#139840, #138176",
        Handling.NOT_BUILT,
    ),
    UpstreamChange(
        37,
        "retries of bindings",
        "kube-scheduler sends a binding again at once after 409, 500, 503 and refused connections. Here 429 and 503"
        " with Retry-After are sent again; otherwise the pod is read, and tried again after its backoff if it is not"
        " bound",
        "#138855",
        Handling.OTHERWISE,
    ),
    UpstreamChange(
        37,
        "rescoring of batched pods",
        "each pod is scored anew on every node. The observer names the cause `batching` where kube-scheduler reuses a"
        " ranking as in v1.36; a node that v1.37 takes after rescoring is a disagreement without a cause",
        "#140289, #138754",
        Handling.OTHERWISE,
    ),
    UpstreamChange(
        37,
        "nominations of gated pods",
        "a pod with scheduling gates keeps the room that it is nominated for; before, kube-scheduler forgot that when"
        " it started anew",
        "#139057",
        Handling.EVERY_VERSION,
    ),
    UpstreamChange(
        37,
        "affinity and claims within a group's cycle",
        "pods that were assumed earlier in the cycle count, with their terms and volumes",
        "#139054",
        Handling.EVERY_VERSION,
    ),
    UpstreamChange(
        37,
        "reach of a claim that a group shares",
        "later pods of the group are placed only where its devices reach",
        "#140089",
        Handling.EVERY_VERSION,
    ),
    UpstreamChange(
        37,
        "scores of pods with allocated and other claims",
        "the pod is scored; before (until a patch of v1.36) its attempt ended with an error",
        "#139017",
        Handling.EVERY_VERSION,
    ),
    UpstreamChange(
        37,
        "hint of anti-affinity with several terms",
        "a deleted pod that matches one of the terms retries the pod",
        "#139161",
        Handling.EVERY_VERSION,
    ),
)


def find_missing_changes(version: KubernetesVersion) -> tuple[UpstreamChange, ...]:
    """Return the changes up to this version that are not implemented here and concern single pods."""
    return tuple(
        change
        for change in UPSTREAM_CHANGES
        if change.handling is Handling.NOT_BUILT and change.concerns is not None and change.minor <= version.minor
    )
