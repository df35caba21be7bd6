"""Short texts and remedies for reasons, filled from the reason's parameters.

A key is a code, or CODE/VARIANT for a special case of it. A reason without parameters, such as one parsed from
kube-scheduler's message, falls back to its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from herodotus_record import reasons
from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from herodotus_record.model import Cause, Reason

_MAX_VALUES: Final = 4  # of a list in a node affinity
NO_VALUES: Final[Mapping[str, str]] = {}
TEXTS: Final[Mapping[str, str]] = {
    "disk-conflict": "{disk} is mounted by another pod on the node",
    "claim-in-use/used": "only one pod at a time may use {claims} (ReadWriteOncePod): {pod} on {podNode} uses it",
    "claim-in-use": "only one pod at a time may use {claims} (ReadWriteOncePod)",
    "volume-limit": "{driver}: {attached} of {limit} volumes attached, the pod brings {new}",
    "volume-affinity": "volume {volume} can only be reached from {wants}",
    "no-volume/elsewhere": "claim {claim} is being provisioned on node {selected}",
    "no-volume/allowed": "no volume for claim {claim}, and class {storage_class} makes one only where {wants}",
    "no-volume": "no volume for claim {claim}, and class {storage_class} makes none there",
    "no-space": "class {storage_class} has no room there for the {size} of claim {claim}",
    "claim-volume-missing": "claim {claim} is bound to volume {volume}, which does not exist",
    "volume-zone": "the pod's volumes are in {wants}",
    "features": "the node does not declare {features}",
    "cannot-allocate/extended": "{extendedResource}: requests {needed}; {usable} of {devices} devices (DRA) usable"
    " ({stoppers})",
    "cannot-allocate/used": "request {request} of claim {claim}: {usable} of {devices} devices usable, {needed} needed"
    " ({stoppers}; claim {holders}, used by {users})",
    "cannot-allocate/held": "request {request} of claim {claim}: {usable} of {devices} devices usable, {needed} needed"
    " ({stoppers}; held by {holders})",
    "cannot-allocate": "request {request} of claim {claim}: {usable} of {devices} devices usable, {needed} needed"
    " ({stoppers})",
}

CAUSES: Final[Mapping[Cause, str]] = {
    Cause.SAMPLING: "it may not have evaluated every node (percentageOfNodesToScore)",
    Cause.EXTENDERS: "it calls extenders, which the evaluation does not call",
    Cause.STALE_VIEW: "it must have seen another state of the cluster",
    Cause.UNKNOWN_PLUGIN: "it runs plugins that this version does not know",
    Cause.IMAGE_COUNTS: "it may count the nodes that have an image as they were before",
    Cause.BATCHING: "it may have reused the ranking of an equal pod just before",
    Cause.UNEXPLAINED: "nothing on record explains it, unless its configuration is not the observer's (--config)",
    Cause.NOT_WATCHED: "the watch was interrupted while the pod was placed",
    Cause.NOT_EVALUATED: "the evaluation ended in an error",
    Cause.EVALUATED_LATER: "the cluster has changed since the pod was placed",
}

# With {node} and, in those of `node_results`, what it derives from the node's amounts and from several parameters.
REMEDIES: Final[Mapping[str, str]] = {
    "unschedulable": "uncordon {node}",
    "untolerated-taint": "tolerate {taints} ({node})",
    "untolerated-taint/declared": "{action} (taint {taint})",
    "node-affinity": "change what the pod selects, or label {node} with {wants} if that is true of it",
    "node-affinity/identity": "change what the pod selects, or add a node that matches {wants}",
    "ports": "free host port {ports} on {node}",
    "too-many-pods": "remove a pod from {node}: its limit of {allocatable} pods is reached",
    "too-many-pods/daemon": "give {owner} a PriorityClass above that of a pod on {node}, which it then preempts (its"
    " priority is {priority}), or remove a pod from {node}: its limit of {allocatable} pods is reached",
    "insufficient/daemon": "give {owner} a PriorityClass above that of pods on {node}, which it then preempts (its"
    " priority is {priority}), or free {missing} {resource} on {node}",
    "insufficient": "free {missing} {resource} on {node}",
    "insufficient/nominated": "wait until {nominated} is placed or gone: {node} keeps {kept} {resource} for it",
    "insufficient/unoffered": "find out why {node} offers {allocatable} of its {capacity} {resource}: its device plugin"
    " reports the others as unhealthy, or has stopped",
    "insufficient/unoffered-by-kubelet": "find out why the kubelet of {node} offers {allocatable} of its"
    " {capacity} {resource}: for example, it could not read its file system at start; then restart the kubelet",
    "insufficient/crowded": "request at most {free} {resource} (free now; {node} has {allocatable} in all), or add a"
    " larger node",
    "insufficient/full": "add a node with {requested} {resource} free",
    "insufficient/absent": "add a node that has {hardware}",
    "spread": "raise maxSkew to {skew} for {key}, or move matching pods away from {node}",
    "spread-label": "label {node} with {key}",
    "pod-affinity": "run a pod that matches {wants} in the {key} of {node}",
    "pod-affinity/label": "label {node} with {key}",
    "pod-anti-affinity": "move {pod} out of the {key} of {node}",
    "existing-anti-affinity": "move {pod} out of the {key} of {node}",
    "existing-anti-affinity/labels": "move {pod} out of the {key} of {node}, or change {labels} of this pod if it need"
    " not be kept apart",
    "disk-conflict": "free {disk} on {node}: another pod mounts it",
    "claim-in-use/used": "end {pod} on {podNode}, which uses {claims}; in a rollout, strategy Recreate does",
    "claim-in-use": "delete the pod that uses {claims}",
    "volume-limit": "detach a volume of {driver} from {node}",
    "csi-driver-missing": "install the CSI driver {driver} on {node}, or wait until it has registered there",
    "volume-affinity": "run the pod where volume {volume} is ({wants}), not on {node}",
    "volume-affinity/gone": "bring back node {wants}, which does not exist, or delete the claim of volume {volume} and"
    " restore its data to a new one",
    "no-volume": "add a volume for claim {claim} that {node} can reach",
    "no-volume/allowed": "run the pod where class {storage_class} makes volumes ({wants}), not on {node}",
    "device-claim-elsewhere": "give each pod a claim of its own (resourceClaimTemplateName), or end the other pods that"
    " use the allocated claim: without users it is allocated anew",
    "no-volume/elsewhere": "let claim {claim} be provisioned on {selected}, or make it anew",
    "no-space": "make room for class {storage_class} where {node} can reach it",
    "claim-volume-missing": "restore volume {volume}, or make claim {claim} anew",
    "volume-zone": "run the pod in a zone of its volumes ({wants}), not on {node}",
    "features": "turn on {features} on {node}",
    "cannot-allocate/extended": "free or add devices for {extendedResource} on {node}: {stoppers}",
    "cannot-allocate/used": "end {users} with claim {holders}, or add devices on {node} for request {request} of claim"
    " {claim}",
    "cannot-allocate/held": "end the pods that use claim {holders} on {node}, or add devices there for request"
    " {request} of claim {claim}",
    "cannot-allocate/none": "see whether the DRA driver for request {request} of claim {claim} runs on {node}: no"
    " ResourceSlice has devices for the node",
    "cannot-allocate": "change request {request} of claim {claim}, or add devices that it can use on {node}:"
    " {stoppers}",
}


class ShortReason(NamedTuple):
    """What stops a pod, in a few words that name no node, with the code and parameters of the first reason."""

    text: str
    code: str
    params: Mapping[str, str]


def describe_reason(reason: Reason, version: KubernetesVersion = DEFAULT_VERSION) -> str:
    """Return a short text for the reason why a node was rejected; without such a text, kube-scheduler's sentence."""
    return _filled(TEXTS, _find_key(reason), reason.params) or reasons.format_reason(reason, version)


def describe_remedy(reason: Reason, node: str, derived: Mapping[str, str] = NO_VALUES, variant: str = "") -> str:
    """Return a sentence that says what to change so that the named node no longer rejects the pod for this reason.

    `derived` has values besides the parameters, and `variant` is the key of the template if it is not that of the code.
    """
    values = {**reason.params, **derived, "node": node}
    return (
        _filled(REMEDIES, variant or _find_key(reason), values) or f"resolve on {node}: {reasons.format_reason(reason)}"
    )


def shorten_lists(wants: str) -> str:
    """Return a node affinity as text whose long lists of values end after the first few, so that lines can wrap."""

    def shorten(match: re.Match[str]) -> str:
        values = [value.strip() for value in match[1].split(",")]
        shown = values[:_MAX_VALUES] if len(values) > _MAX_VALUES + 1 else values
        more = f", … {len(values) - len(shown)} more" if len(shown) < len(values) else ""
        return f"({', '.join(shown)}{more})" if more else match[0]

    return re.sub(r"\(([^()]*,[^()]*)\)", shorten, wants)


def list_remedies(code: str) -> list[str]:
    """Return the templates of the remedies for a code: of the usual case first."""
    return [template for key, template in REMEDIES.items() if key.partition("/")[0] == code]


def _find_key(reason: Reason) -> str:
    if reason.code == "claim-in-use" and reason.params.get("pod"):  # "" if the reader may not see it
        return "claim-in-use/used"
    if "extendedResource" in reason.params:
        return f"{reason.code}/extended"
    if reason.code == "cannot-allocate" and reason.params.get("holders"):
        return "cannot-allocate/used" if reason.params.get("users") else "cannot-allocate/held"
    if reason.code == "no-volume" and reason.params.get("wants"):
        return "no-volume/allowed"
    return f"{reason.code}/elsewhere" if "selected" in reason.params else reason.code


def _filled(templates: Mapping[str, str], key: str, values: Mapping[str, str]) -> str | None:
    try:
        return templates[key].format_map(values)
    except KeyError:
        return None
