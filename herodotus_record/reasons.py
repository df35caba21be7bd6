"""Define reason codes and kube-scheduler's sentences for them, which no other module declares.

Owns: the catalogue, `format_reason` (code to sentence) and `parse_reason` (sentence to code). Does not own: which
plugin returns which reason, what parameters mean (`reason_parameters`). The sentences are from kube-scheduler v1.36,
pkg/scheduler/framework/plugins/*, and from framework/types.go for the message that sums them up. `EARLIER` has what
earlier versions said instead.

Invariant: `parse_reason(format_reason(r, version)) == r` for every version and every reason whose parameters the
sentence shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Final

from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from herodotus_record.model import Reason

# The version of the vocabulary: codes of reasons and changes, outcomes and parameters. Raise it with every addition.
# What is published is neither renamed nor removed nor given another meaning (docs/reasons.md).
VERSION: Final = 1
# {name} shows a parameter (`reason_parameters`). Those that a sentence does not show are used by Herodotus' own texts.
CATALOGUE: Final[dict[str, str]] = {
    # NodeUnschedulable, NodeName, TaintToleration
    "unschedulable": "node(s) were unschedulable",
    "node-name": "node(s) didn't match the requested node name",
    "untolerated-taint": "node(s) had untolerated taint(s)",
    # NodeAffinity
    "node-affinity": "node(s) didn't match Pod's node affinity/selector",
    "enforced-node-affinity": "node(s) didn't match scheduler-enforced node affinity",
    "affinity-conflict": "pod affinity terms conflict",
    # NodePorts
    "ports": "node(s) didn't have free ports for the requested pod ports",
    # NodeResourcesFit
    "too-many-pods": "Too many pods",
    "insufficient": "Insufficient {resource}",
    # PodTopologySpread
    "spread": "node(s) didn't match pod topology spread constraints",
    "spread-label": "node(s) didn't match pod topology spread constraints (missing required label)",
    # InterPodAffinity
    "pod-affinity": "node(s) didn't match pod affinity rules",
    "pod-anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "existing-anti-affinity": "node(s) didn't satisfy existing pods anti-affinity rules",
    # VolumeRestrictions
    "disk-conflict": "node(s) had no available disk",
    "claim-in-use": (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another"
        " pod"
    ),
    # NodeVolumeLimits
    "volume-limit": "node(s) exceed max volume count",
    "csi-driver-missing": "{driver} CSI driver is not installed on the node",
    "claim-lookup": 'looking up PVC {claim}: persistentvolumeclaim "{name}" not found',
    # VolumeBinding
    "volume-affinity": "node(s) didn't match PersistentVolume's node affinity",
    "no-volume": "node(s) didn't find available persistent volumes to bind",
    "no-space": "node(s) did not have enough free storage",
    "claim-volume-missing": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "claims-unbound": "pod has unbound immediate PersistentVolumeClaims",
    "claim-not-found": 'persistentvolumeclaim "{claim}" not found',
    "claim-not-made": 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"',
    "claim-lost": 'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"',
    "claim-deleted": 'persistentvolumeclaim "{claim}" is being deleted',
    "claim-not-owned": "PVC {claim} was not created for pod {pod} (pod is not owner)",
    # VolumeZone
    "volume-zone": "node(s) had no available volume zone",
    "claim-unnamed": "PersistentVolumeClaim had no name",
    "claim-without-class": "PersistentVolumeClaim had no pv name and storageClass name",
    "claim-without-volume": "PersistentVolume had no name",
    "class-without-mode": 'VolumeBindingMode not set for StorageClass "{storage_class}"',
    "class-not-found": 'storageclass.storage.k8s.io "{storage_class}" not found',
    "volume-not-found": 'persistentvolume "{volume}" not found',
    # NodeDeclaredFeatures
    "features": "node(s) didn't match Pod's required features",
    # DynamicResources
    "cannot-allocate": "cannot allocate all claims",
    "invalid-pools": "invalid resource pools were encountered",
    "device-claim-elsewhere": "resourceclaim not available on the node",
    "device-claim-not-found": 'could not find ResourceClaim "{claim}"',
    "device-claim-deleted": 'resourceclaim "{claim}" is being deleted',
    "device-claim-in-flight": "resource claim {claim} is in the process of being allocated",
    "device-claim-not-made": 'pod "{pod}": ResourceClaim not created yet',
    "device-claim-unsupported": 'pod "{pod}", spec.resourceClaim "{claim}": none of the supported fields are set',
    "device-claim-not-owned": "ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)",
    "device-claim-not-owned-by-group": "ResourceClaim {claim} was not created for Pod {pod} (neither Pod nor PodGroup"
    " {group} is the owner)",
    "group-claim-unreserved": "ResourceClaim unreserved for PodGroup",
    "device-class-not-found": "request {request}: device class {device_class} does not exist",
    "prioritized-list-disabled": "resource claim {claim}, request {request}: has subrequests, but the"
    " DRAPrioritizedList feature is disabled",
    "request-unknown": "resource claim {claim}, request {request}: unknown request type",
    "extended-claim-left": "cannot schedule extended resource claim",
    "extended-resource-missing": "cannot fit resource",
    "device-claim-deallocated": "deallocation of ResourceClaim completed",
    "extended-claim-deleted": "deletion of ResourceClaim completed",
    "still-unschedulable": "still not schedulable",
    # the framework itself
    "narrowed": "node(s) didn't satisfy plugin(s) {plugins}",
    "narrowed-empty": "node(s) didn't satisfy plugin {plugin}",
    "narrowed-disjoint": "node(s) didn't satisfy plugin(s) {plugins} simultaneously",
    "gated": "waiting for scheduling gates: {gates}",
    "no-nodes": "no nodes available to schedule pods",
    # DynamicResources and DefaultPreemption (PostFilter)
    "no-claims": "no new claims to deallocate",
    "state-not-found": "not found",
    "no-victims": "No preemption victims found for incoming pod",
    "preemption-unhelpful": "Preemption is not helpful for scheduling",
    "preemption": "preemption: {message}",
    "preemption-found": "preemption: found a potential placement for pod on node {node}, preempting {victims} victims",
    "preemption-terminating": "not eligible due to a terminating pod on the nominated node.",
    "preemption-no-candidate": "no candidate node for preemption",
    "preemption-never": "not eligible due to preemptionPolicy=Never.",
    "preempting": "waiting for the preemption for this pod to be finished",
    "preempting-group": "waiting for the preemption for this pod group to be finished",
    "preemption-no-group": "pod group for pod not found",
    "preemption-placement": "not eligible due to placement-based pod group scheduling limitation",
    "preemption-by-group": "not eligible due to workload aware preemption enabled",
    "preemption-off": "switched off by --disable-preemption.",
    # GangScheduling
    "gang-no-group": 'waiting for pods\'s pod group "{group}" to appear in scheduling queue',  # upstream's spelling
    "gang-too-few": "waiting for minCount pods from a gang to appear in scheduling queue",
    "gang-waiting": "waiting for minCount pods from a gang to be scheduled",
    "group-unschedulable": "pod group is unschedulable",
    "group-preempting": "pod group is waiting for preemption to complete",
    "group-placements": "0/{count} placements are available, first placement status: {status}",
    "no-placements": "no feasible placements found",
    "group-preemption-topology": "workload aware preemption is not supported for pod groups with"
    " scheduling constraints",
    "group-preemption-off": "default preemption plugin is not registered, workload aware preemption is disabled",
    "group-no-victims": "No preemption victims found for incoming preemptor",
    "group-error": "failed to schedule other pod from a pod group: {error}",
    "permit-waits": "one or more plugins asked to wait and no plugin rejected pod",
    # Herodotus' own: this version does not support a feature, and does not place the pod as if it were unused
    "not-built": "Herodotus does not support {feature} yet (plugin {plugin})",
    # the error of a plugin, or the text of an out-of-tree plugin
    "text": "{text}",
}
# Reasons against nodes that the pod's own spec leaves out. Who asks about the pod asks what stops the other nodes.
EXCLUDED_BY_POD: Final = frozenset(
    ("node-affinity", "enforced-node-affinity", "node-name", "narrowed", "narrowed-empty", "narrowed-disjoint")
)
# Changes that a record suggests, as imperatives without a full stop (`herodotus_answers.suggestions` completes them).
CHANGES: Final[dict[str, str]] = {
    "await-end": "wait for the end of {leaving} on {node}, now terminating",
    "uncordon": "uncordon {node}",
    "label-node": "label {node} with {key}={value}",
    "add-toleration": "tolerate the taint {taint}",
    "set-request": "lower the {resource} request{container} from {from} to {to}",
    "remove-host-port": "give up host port {ports}{container}",
    "remove-taint": "remove the taint {taint} from {node}",
    "open-node": "remove the taint {taint} from {node}, which opens it to all pods",
    "clear-taint": "{action} (taint {taint})",
    "set-node-selector": "change the node selector from {key}={from} to {key}={to}",
    "rename-node-selector": "select {to}={value}, which nodes have, instead of {key}={value}",
    "remove-node-selector": "remove {key}={from} from the node selector",
    "set-node-affinity": "change the required node affinity: {difference}",
    "remove-node-affinity": "remove the required node affinity {from}",
    "set-taints-policy": "do not count nodes whose taints the pod does not tolerate when it is spread over {key}"
    " (nodeTaintsPolicy: Honor)",
    "set-affinity-policy": "do not count nodes that the pod does not select when it is spread over {key}"
    " (nodeAffinityPolicy: Honor)",
    "remove-min-domains": "remove minDomains {from} for {key}",
    "set-max-skew": "raise maxSkew from {from} to {to} for {key}",
    "set-when-unsatisfiable": "spread over {key} only where possible (ScheduleAnyway)",
    "remove-pod-affinity": "remove the required pod affinity for {key}",
    "remove-pod-anti-affinity": "remove the required pod anti-affinity for {key}",
    "set-priority-class": "raise the priority from {from} with the priority class {to}: the scheduler then evicts"
    " pods from {node} ({leaving})",
    "set-rollout-strategy": "let the rollout delete an old pod before it creates a new one (maxSurge 0,"
    " maxUnavailable 1), as {leaving} of the earlier template holds its place until the new pod is available",
    "add-node": "add a node that can hold {to}: the largest can hold {from}",
    "add-node-like": "add one more node like {like} ({size})",
    "add-node-of-kind": "add a node with {key}={value}: the nodes have {from}, which needs another image",
}

# What made up a score, as nouns (`ScoreReasons`).
SCORES: Final[dict[str, str]] = {
    "preferred-node-affinity": "preferred {wants} (weight {weight})",
    "preferred-taint": "taint {taint}",
    "image-present": "image {image} ({size})",
    "spread-pods": "{pods} matching pod(s) in {key} {domain}",
    "spread-no-label": "no label {key}",
    "preferred-pod-affinity": "{pods} pod(s) {wants} in {key} {domain} (weight {weight})",
    "preferred-pod-affinity-sum": "{terms} terms in {key} {domain} (weight {weight} together)",
    "preferred-by-pods": "{pods} pod(s) in {key} {domain} whose affinity is about this one (weight {weight} together)",
}


# What kube-scheduler said before a version: (code, first version with the sentence of the catalogue, sentence before).
EARLIER: Final[tuple[tuple[str, KubernetesVersion, str], ...]] = (
    ("untolerated-taint", KubernetesVersion(34, 2), "node(s) had untolerated taint {{{key}: {value}}}"),  # #134740
    ("volume-affinity", KubernetesVersion(33, 0), "node(s) had volume node affinity conflict"),  # #129887
    (  # #129145
        "claim-in-use",
        KubernetesVersion(34, 0),
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    ),
    (
        "device-claim-not-owned",
        KubernetesVersion(36, 0),
        "ResourceClaim {claim} was not created for pod {pod} (pod is not owner)",
    ),
    (
        "features",
        KubernetesVersion(36, 0),
        "node declared features check failed - unsatisfied requirements: {features}",
    ),
)
# Parts of errors, which have no code: (first version with the new words, new words, words before).
_EARLIER_ERRORS: Final = (
    (KubernetesVersion(35, 0), "must be no more than 63 bytes", "must be no more than 63 characters"),
)


def format_reason(reason: Reason, version: KubernetesVersion = DEFAULT_VERSION) -> str:
    """Return the sentence of a version of kube-scheduler for a reason.

    A code of a newer version of Herodotus, for which this version has no sentence, is shown with its parameters, so
    that a record stays readable one version ahead.
    """
    template = _list_sentences(version).get(reason.code) or SCORES.get(reason.code)
    if template is None:
        shown = ", ".join(f"{name}={value}" for name, value in sorted(reason.params.items()))
        return f"{reason.code} ({shown})" if shown else reason.code
    return template.format_map(_Known(reason.params))


def format_condition_reason(code: str) -> str:
    """Return a code as Kubernetes spells reasons of conditions: UntoleratedTaint for `untolerated-taint`.

    The API server accepts no hyphens there.
    """
    return "".join(word[:1].upper() + word[1:] for word in code.split("-"))


def format_error(message: str, version: KubernetesVersion) -> str:
    """Return a plugin's error message with sentences that changed replaced by those of this kube-scheduler version."""
    for since, new, before in _EARLIER_ERRORS:
        if version < since:
            message = message.replace(new, before)
    return message


@cache
def _list_sentences(version: KubernetesVersion) -> Mapping[str, str]:
    """Return the sentence of each code in the words of a version of kube-scheduler."""
    return CATALOGUE | {code: sentence for code, since, sentence in EARLIER if version < since}


def parse_reason(words: str) -> Reason:
    """Return the reason that a sentence of kube-scheduler, of any version, expresses.

    If the catalogue lacks the sentence, the reason has the code `text` and the sentence as its parameter.
    """
    for code, pattern in _list_patterns():
        match = pattern.fullmatch(words)
        if match:
            return Reason(code, match.groupdict())
    return Reason("text", {"text": words})


def format_fit_error(
    nodes_total: int, per_node: Iterable[tuple[str, int]], pre_filter: str = "", post_filter: str = ""
) -> str:
    """Return the FailedScheduling message of a pod that fits on no node, as kube-scheduler's FitError prints it.

    `per_node` holds pairs of a sentence and the number of nodes with it; a node with several reasons counts for each.
    It is ignored if PreFilter rejected the whole pod with the sentence `pre_filter`. `post_filter` is the sentence at
    the end.
    """
    message = f"0/{nodes_total} nodes are available:"
    if pre_filter:
        message += f" {pre_filter}."
    else:
        histogram: Counter[str] = Counter()
        for words, count in per_node:
            histogram[words] += count
        # sorted as whole strings, "10 x" before "2 y", as kube-scheduler does
        parts = sorted(f"{count} {words}" for words, count in histogram.items())
        if parts:
            message += f" {', '.join(parts)}."
    return f"{message} {post_filter}" if post_filter else message


class _Known(dict[str, str]):
    """The parameters of a reason, for filling in a sentence; a missing parameter is shown as `<name>`."""

    def __missing__(self, name: str) -> str:
        return f"<{name}>"


def _pattern(template: str) -> re.Pattern[str]:
    """Return a pattern for the sentences that a template can produce, with a named group for each parameter."""
    parts = ((re.escape(text), name) for text, name, _, _ in Formatter().parse(template))
    return re.compile("".join(text + (f"(?P<{name}>.*)" if name else "") for text, name in parts))


@cache
def _list_patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return each code with the pattern of its sentence, the most specific first: fewer parameters, then longer.

    Only readers of logs and messages need them, and compiling them takes a hundredth of a scheduler's start.
    """
    return [
        (code, _pattern(template))
        for code, template in sorted(
            (*CATALOGUE.items(), *((code, sentence) for code, _, sentence in EARLIER)),
            key=lambda item: (item[1].count("{"), -len(item[1])),
        )
        if code != "text"
    ]
