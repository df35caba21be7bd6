"""Declare the parameters of each reason: what they mean, and the unit of those that are numbers.

Owns: which parameters a code may have. Does not own: sentences (`reasons`), what a parameter discloses (`disclosure`).
The amounts of a resource are no parameters: they follow from the pod's requests and the node table.

Invariant: every parameter that this version records is declared. A record may lack some of them: one that was read from
kube-scheduler's message has only those that the sentence shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class ReasonParameter(NamedTuple):
    """A parameter of a reason. All values are text; `unit` says what a number counts, and is "" for other values."""

    meaning: str
    unit: str = ""


_CLAIM: Final = ReasonParameter("Name of the PersistentVolumeClaim, with its namespace where several could be meant.")
_CLASS: Final = ReasonParameter("Name of the StorageClass.")
_VOLUME: Final = ReasonParameter("Name of the PersistentVolume.")
_DRIVER: Final = ReasonParameter("Name of the CSI driver.")
_DEVICE_CLAIM: Final = ReasonParameter("Name of the ResourceClaim, or of the pod's reference to it.")
_REQUEST: Final = ReasonParameter("Name of the request in the claim.")
_POD: Final = ReasonParameter("The pod, as NAMESPACE/NAME.")
_GROUP: Final = ReasonParameter("Name of the PodGroup.")
_TOPOLOGY: Final = ReasonParameter("Node label that separates the domains (topologyKey).")
_PLUGINS: Final = ReasonParameter("Names of the plugins, in square brackets.")
_OTHER_POD: Final = ReasonParameter(
    "A pod in the domain that causes it, as NAMESPACE/NAME; empty if it is not known or hidden."
)
_RESOURCE: Final = ReasonParameter("Name of the resource.")
_WEIGHT: Final = ReasonParameter("Weight of the term or terms; negative for anti-affinity.")
_DOMAIN: Final = ReasonParameter("The node's value of that label.")
_KEPT: Final = ReasonParameter("Amount that is kept for pods that are nominated for the node.", "base units")
_NOMINATED: Final = ReasonParameter("These pods, as NAMESPACE/NAME, separated by commas.")

PARAMETERS: Final[Mapping[str, Mapping[str, ReasonParameter]]] = {
    "untolerated-taint": {
        "key": ReasonParameter("Key of the first taint that is not tolerated."),
        "value": ReasonParameter("Its value; empty if it has none."),
        "effect": ReasonParameter("Its effect."),
        "others": ReasonParameter("Further such taints, as KEY=VALUE:EFFECT, separated by commas."),
    },
    "node-affinity": {"wants": ReasonParameter("What the pod's node selector and required node affinity ask for.")},
    "ports": {
        "ports": ReasonParameter("Host ports that are taken, separated by commas."),
        "pod": ReasonParameter("A pod that uses one of them, as NAMESPACE/NAME; empty if it is not known or hidden."),
    },
    "insufficient": {
        "resource": _RESOURCE,
        "parts": ReasonParameter("What makes up the pod's request, such as `main 8 + sidecar side 8`."),
        "allocatable": ReasonParameter("The node's allocatable amount, where it is 0.", "base units"),
        "capacity": ReasonParameter("The node's capacity, where it exceeds the allocatable amount.", "base units"),
        "kept": _KEPT,
        "nominated": _NOMINATED,
    },
    "too-many-pods": {"kept": _KEPT, "nominated": _NOMINATED},
    "spread": {
        "key": _TOPOLOGY,
        "pods": ReasonParameter("Matching pods in the node's domain, with this one.", "pods"),
        "fewest": ReasonParameter("Matching pods in the domain with the fewest.", "pods"),
        "maxSkew": ReasonParameter("Largest difference that the constraint allows.", "pods"),
        "domains": ReasonParameter("Domains that count, as VALUE=PODS, those with the fewest matching pods first."),
        "emptiest": ReasonParameter("Nodes of the domains with the fewest matching pods, separated by commas."),
        "matches": ReasonParameter("`true` if the pod itself matches the constraint's selector, else `false`."),
        "nodeTaintsPolicy": ReasonParameter("The constraint's nodeTaintsPolicy: Honor or Ignore."),
        "nodeAffinityPolicy": ReasonParameter("The constraint's nodeAffinityPolicy if it is Ignore."),
        "minDomains": ReasonParameter("The constraint's minDomains, if there are fewer domains.", "domains"),
    },
    "spread-label": {"key": _TOPOLOGY},
    "pod-affinity": {
        "key": _TOPOLOGY,
        "wants": ReasonParameter("Label selector of the affinity term."),
        "lacks": ReasonParameter("What is lacking: `label` if the node lacks the key, else `pods`."),
        "namespaces": ReasonParameter(
            "The term's namespaces, as `namespace a` or `namespaces with x=y`, and `, which no namespace has` if none"
            " matches; absent if it has all."
        ),
    },
    "pod-anti-affinity": {"key": _TOPOLOGY, "pod": _OTHER_POD},
    "existing-anti-affinity": {
        "key": _TOPOLOGY,
        "pod": _OTHER_POD,
        "labels": ReasonParameter(
            "The rejected pod's labels that the other pod's term selects, as KEY=VALUE, separated by commas."
        ),
    },
    "disk-conflict": {"disk": ReasonParameter("Kind and name of the disk.")},
    "claim-in-use": {
        "claims": ReasonParameter("The pod's ReadWriteOncePod claims that are in use, separated by commas."),
        "pod": ReasonParameter("A pod that uses one of them, as NAMESPACE/NAME; empty if it is not known or hidden."),
        "podNode": ReasonParameter("The node of that pod."),
    },
    "volume-limit": {
        "driver": _DRIVER,
        "limit": ReasonParameter("Volumes that the node can attach.", "volumes"),
        "attached": ReasonParameter("Volumes that are attached.", "volumes"),
        "new": ReasonParameter("Volumes that the pod adds.", "volumes"),
    },
    "csi-driver-missing": {"driver": _DRIVER},
    "claim-lookup": {"claim": _CLAIM, "name": ReasonParameter("Name of the claim without its namespace.")},
    "volume-affinity": {"volume": _VOLUME, "wants": ReasonParameter("Nodes from which the volume can be reached.")},
    "no-volume": {
        "claim": _CLAIM,
        "storage_class": _CLASS,
        "wants": ReasonParameter("Nodes for which the class makes volumes, by their labels; absent if any."),
        "selected": ReasonParameter("Node for which the claim is being provisioned, in place of the class."),
    },
    "no-space": {
        "claim": _CLAIM,
        "storage_class": _CLASS,
        "size": ReasonParameter("Storage that the claim requests, as a quantity."),
    },
    "claim-volume-missing": {"claim": _CLAIM, "volume": _VOLUME},
    "claims-unbound": {"claims": ReasonParameter("The unbound claims, separated by commas.")},
    "claim-not-found": {"claim": _CLAIM},
    "claim-not-made": {"claim": _CLAIM},
    "claim-lost": {"claim": _CLAIM, "volume": _VOLUME},
    "claim-deleted": {"claim": _CLAIM},
    "claim-not-owned": {"claim": _CLAIM, "pod": _POD},
    "volume-zone": {"wants": ReasonParameter("Zone labels of the volumes, with the volume of each.")},
    "class-without-mode": {"storage_class": _CLASS},
    "class-not-found": {"storage_class": _CLASS},
    "volume-not-found": {"volume": _VOLUME},
    "features": {"features": ReasonParameter("Features that the node does not declare, separated by commas.")},
    "cannot-allocate": {
        "claim": _DEVICE_CLAIM,
        "request": _REQUEST,
        "extendedResource": ReasonParameter("The extended resource that devices serve, in place of claim and request."),
        "needed": ReasonParameter("Devices that the request needs.", "devices"),
        "devices": ReasonParameter("Devices that the node has.", "devices"),
        "usable": ReasonParameter("Devices that the request could use.", "devices"),
        "stoppers": ReasonParameter("Why the others cannot be allocated, with their numbers."),
        "holders": ReasonParameter("Claims that have devices of the node, as NAMESPACE/NAME, separated by commas."),
        "users": ReasonParameter("Pods that use these claims, as NAMESPACE/NAME, separated by commas."),
    },
    "device-claim-not-found": {"claim": _DEVICE_CLAIM},
    "device-claim-deleted": {"claim": _DEVICE_CLAIM},
    "device-claim-in-flight": {"claim": _DEVICE_CLAIM},
    "device-claim-not-made": {"pod": _POD},
    "device-claim-unsupported": {"pod": _POD, "claim": _DEVICE_CLAIM},
    "device-claim-not-owned": {"claim": _DEVICE_CLAIM, "pod": _POD},
    "device-claim-not-owned-by-group": {"claim": _DEVICE_CLAIM, "pod": _POD, "group": _GROUP},
    "device-class-not-found": {"request": _REQUEST, "device_class": ReasonParameter("Name of the DeviceClass.")},
    "prioritized-list-disabled": {"claim": _DEVICE_CLAIM, "request": _REQUEST},
    "request-unknown": {"claim": _DEVICE_CLAIM, "request": _REQUEST},
    "extended-resource-missing": {"resource": _RESOURCE},
    "narrowed": {"plugins": _PLUGINS},
    "narrowed-empty": {"plugin": ReasonParameter("Name of the plugin.")},
    "narrowed-disjoint": {"plugins": _PLUGINS},
    "gated": {"gates": ReasonParameter("Names of the pod's scheduling gates, in square brackets.")},
    "preemption": {
        "message": ReasonParameter("Why preemption does not help, as kube-scheduler's counts and sentences.")
    },
    "preemption-found": {
        "node": ReasonParameter("Node that was nominated."),
        "victims": ReasonParameter("Pods that are evicted there.", "pods"),
    },
    "gang-no-group": {"group": _GROUP},
    "group-placements": {
        "count": ReasonParameter("Placements that were tried.", "placements"),
        "status": ReasonParameter("Message about the first of them."),
    },
    "group-error": {"error": ReasonParameter("The error of the other pod.")},
    "not-built": {
        "feature": ReasonParameter("The feature that is not supported."),
        "plugin": ReasonParameter("The plugin that would implement it."),
    },
    "text": {"text": ReasonParameter("The text of a plugin, an extender or an error.")},
}

SCORE_PARAMETERS: Final[Mapping[str, Mapping[str, ReasonParameter]]] = {
    "preferred-node-affinity": {
        "wants": ReasonParameter("What a preferred term of the node affinity asks for, and the node has."),
        "weight": _WEIGHT,
    },
    "preferred-taint": {"taint": ReasonParameter("A PreferNoSchedule taint that the pod does not tolerate.")},
    "image-present": {
        "image": ReasonParameter("An image of the pod that the node has."),
        "size": ReasonParameter("Its size, as a quantity."),
    },
    "spread-pods": {
        "key": _TOPOLOGY,
        "domain": _DOMAIN,
        "pods": ReasonParameter("Pods in the domain that the constraint selects.", "pods"),
    },
    "spread-no-label": {"key": _TOPOLOGY},
    "preferred-pod-affinity": {
        "key": _TOPOLOGY,
        "domain": _DOMAIN,
        "wants": ReasonParameter("Label selector of the preferred term."),
        "pods": ReasonParameter("Pods in the domain that the term selects; each gives the weight.", "pods"),
        "weight": _WEIGHT,
    },
    "preferred-pod-affinity-sum": {
        "key": _TOPOLOGY,
        "domain": _DOMAIN,
        "terms": ReasonParameter("Preferred terms of the pod with this key.", "terms"),
        "pods": ReasonParameter("Pods in the domain that they select, once for each term.", "pods"),
        "weight": _WEIGHT,
    },
    "preferred-by-pods": {
        "key": _TOPOLOGY,
        "domain": _DOMAIN,
        "pods": ReasonParameter("Running pods in the domain whose affinity or anti-affinity selects the pod.", "pods"),
        "weight": _WEIGHT,
    },
}
