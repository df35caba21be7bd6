"""Find why a pod waits for a node in objects that it names: claims, templates, devices, nodes.

Owns: these causes and their remedies. Does not own: claims (`claim_causes`), reading (`cluster_objects`), types
(`declarations`). Pure.

Invariant: a cause is stated only if the object that it is about was read, or if the API server said that there is no
such object. Only what the pod names is read, and events only of a claim in trouble.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.node_rules import list_required_terms, read_labels, selects_node
from herodotus_answers.live.objects import HOSTNAME, is_active, list_pinned
from herodotus_answers.live.pod_facts import (
    change_templates,
    clean,
    describe_elsewhere,
    describe_similar,
    find_owner,
    format_since,
    list_unknown_keys,
    make_cause,
    make_remedy,
    name_source,
    read_conditions,
)
from herodotus_answers.live.pods.affinity_causes import find_affinity_causes, find_unknown_keys
from herodotus_answers.live.pods.claim_causes import find_claim_causes
from herodotus_answers.live.pods.device_plugins import find_excluded_driver, find_missing_plugin, list_open_nodes
from herodotus_answers.live.pods.new_node_causes import find_new_node_causes
from herodotus_answers.live.pods.template_overrides import describe_added_request
from herodotus_answers.live.quota_amounts import raise_quota
from herodotus_answers.live.unit_slips import find_unit_slip
from herodotus_answers.pod_templates import read_template
from herodotus_answers.quantities import read_quantity
from herodotus_record.node_labels import names_identity
from herodotus_record.units import join_limited, natural_sort_key

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]

# What kube-scheduler's message says of nodes without a CSI driver, and of those without devices for a claim; and how a
# DeviceClass selects the devices of a driver.
_NO_CSI_DRIVER: Final = re.compile(r"(\S+) CSI driver is not installed on the node")
_NO_DEVICES: Final = "cannot allocate all claims"
_DRIVER_OF_CLASS: Final = re.compile(r"device\.driver\s*==\s*[\"']([\w.-]+)[\"']")
_ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"  # a namespace's label
# Labels of nodes that stand for a service of a cloud: AWS Fargate, and virtual kubelets such as Azure's virtual nodes.
_SERVERLESS: Final = (("eks.amazonaws.com/compute-type", "fargate"), ("type", "virtual-kubelet"))
_NAMED: Final = 4  # names in a sentence
# A request of at most this is not looked at: the unit of a larger one may be a slip. In the API's units.
_LARGE: Final = {"cpu": 99, "memory": 1 << 38, "ephemeral-storage": 1 << 42}


def find_waiting_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why a pod without a node cannot get one as long as the objects that it names are as they are.

    `now` is the time to which ages refer.
    """
    finder, new_nodes = _Finder(pod, objects), list(find_new_node_causes(pod, objects, now))
    return [
        *finder.find_group(),
        *find_claim_causes(pod, objects),
        *find_affinity_causes(pod, objects),
        *find_unknown_keys(pod, objects),
        *finder.find_devices(),
        *finder.find_drivers(),
        *finder.find_resources(),
        *finder.find_unit_slips(),
        *finder.find_nodes(),
        *finder.find_unready_nodes(now),
        *finder.find_serverless_node(),
        *new_nodes,
        *(() if new_nodes else finder.find_labels()),  # a new node may bring the label
    ]


def _list_device_classes(spec: Json) -> list[str]:
    """Return the device classes that the spec of a ResourceClaim, or of a template, names."""
    requests = ((spec.get("spec") or spec).get("devices") or {}).get("requests") or ()
    alternatives = (r.get("firstAvailable") or (r.get("exactly") or r,) for r in requests)
    return sorted({str(n) for several in alternatives for each in several if (n := each.get("deviceClassName"))})


class _Finder:
    """Looks at the objects that one pod names."""

    def __init__(self, pod: Json, objects: ClusterObjects) -> None:
        self._pod, self._spec, self._objects = pod, pod["spec"], objects
        self._namespace = str(pod["metadata"]["namespace"])

    # --- the group ---

    def find_group(self) -> Iterator[LiveCause]:
        """Yield why the pod's group is not tried: its PodGroup does not exist, or has fewer pods than it needs."""
        name = _read_group(self._spec)
        if not name:
            return
        about = f"PodGroup/{name}"
        if self._objects.is_absent("PodGroup", name, self._namespace):
            text = f"PodGroup {name} does not exist in namespace {self._namespace}"
            text += describe_similar(name, self._objects.list_names("PodGroup", self._namespace))
            remedies = [make_remedy(f"create the PodGroup {name}, or correct podGroupName")]
            yield make_cause("pod-group-missing", text, "spec.schedulingGroup", of=about, remedies=remedies)
        group = self._objects.get("PodGroup", name, self._namespace).object
        policy = ((group or {}).get("spec") or {}).get("schedulingPolicy") or {}
        needed = int((policy.get("gang") or {}).get("minCount") or 0)
        listed = self._objects.list_objects("Pod", self._namespace) if needed else None
        if listed is None or not listed.is_complete or listed.missing:
            return
        members = [pod for pod in listed.items if is_active(pod) and _read_group(pod["spec"]) == name]
        source = "spec.schedulingPolicy.gang.minCount"
        if len(members) < needed:
            exist = "1 exists" if len(members) == 1 else f"{len(members)} exist"
            named = _join_sorted(pod["metadata"]["name"] for pod in members)
            text = f"PodGroup {name} needs {needed} pods before any of them is tried, and {exist} ({named})"
            remedies = [make_remedy(f"create the missing pods of PodGroup {name}, or lower its minCount")]
            yield make_cause("pod-group-too-small", text, source, of=about, remedies=remedies)
            return
        others = [pod for pod in members if pod["metadata"]["name"] != self._pod["metadata"]["name"]]
        gated = [pod for pod in others if pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName")]
        untried = [pod for pod in others if pod not in gated and _is_untried(pod)]
        if (gated or untried) and len(members) - len(gated) - len(untried) < needed:
            text = f"PodGroup {name} waits until {needed} of its {len(members)} pods can have a node together"
            text += f": {'; '.join([*map(_describe_gated, gated[:_NAMED]), *_describe_untried(untried)])}"
            first = str((gated or untried)[0]["metadata"]["name"])
            see = f"kubectl herodotus pod {first} -n {self._namespace}"
            yield make_cause("pod-group-waits", text, source, of=about, inspect=see)

    # --- devices and resources ---

    def find_devices(self) -> Iterator[LiveCause]:
        """Yield a cause for each resource claim, template or device class that does not exist."""
        for each in self._spec.get("resourceClaims") or ():
            template, claim = each.get("resourceClaimTemplateName"), each.get("resourceClaimName")
            if template:
                yield from self._find_request("ResourceClaimTemplate", str(template))
                yield from self._find_unmade(str(each["name"]), str(template))
            elif claim:
                yield from self._find_request("ResourceClaim", str(claim))

    def _find_unmade(self, claim: str, template: str) -> Iterator[LiveCause]:
        """Yield why no ResourceClaim was made from a template for a claim of the pod, if an event says so."""
        made = (self._pod.get("status") or {}).get("resourceClaimStatuses") or ()
        if any(each.get("name") == claim for each in made):
            return
        for event in reversed(self._objects.list_events({**self._pod, "kind": "Pod"})):
            message = " ".join(str(event.get("message") or "").split())
            if event.get("reason") != "FailedResourceClaimCreation" or f"{claim}: " not in message:
                continue
            why = message.partition(f"{claim}: ")[2]
            text = f"ResourceClaim {claim} of the pod cannot be created: {why}"
            source = f"ResourceClaimTemplate {template}"
            advice = find_remedy("claim", why, source=source, namespace=self._namespace)
            remedy = raise_quota(why, self._namespace, self._objects) or make_remedy(advice)
            if _ADMIN_ACCESS in why:
                label = f"kubectl label namespace {self._namespace} {_ADMIN_ACCESS}=true"
                remedy = make_remedy(
                    f"label namespace {self._namespace} {_ADMIN_ACCESS}=true, so that its pods may have admin access to"
                    " devices (an administrator), or remove adminAccess from the template",
                    label,
                )
            told, at = "Event FailedResourceClaimCreation", read_event_time(event)
            yield make_cause("device-claim-not-created", text, told, at=at, remedies=[remedy])
            return

    def _find_request(self, kind: str, name: str) -> Iterator[LiveCause]:
        lookup = self._objects.get(kind, name, self._namespace)
        if lookup.is_absent:
            text = f"{kind} {name} does not exist in namespace {self._namespace}"
            text += describe_elsewhere(kind, name, self._objects) or describe_similar(
                name, self._objects.list_names(kind, self._namespace)
            )
            code = "claim-template-missing" if kind == "ResourceClaimTemplate" else "device-claim-missing"
            yield make_cause(
                code,
                text,
                "spec.resourceClaims",
                of=f"{kind}/{name}",
                remedies=[make_remedy(f"create the {kind} {name}, or name one that exists")],
            )
        if lookup.object is None:
            return
        if kind == "ResourceClaim" and lookup.object["metadata"].get("deletionTimestamp"):
            yield self._describe_terminating(lookup.object)
        elif kind == "ResourceClaim":
            yield from self._find_lost_allocation(lookup.object)
        spec = lookup.object.get("spec") or {}
        for class_name in _list_device_classes(spec):
            if self._objects.get("DeviceClass", class_name).is_absent:
                text = f"{kind} {name} asks for DeviceClass {class_name}, which does not exist"
                text += describe_similar(class_name, self._objects.list_names("DeviceClass"))
                yield make_cause(
                    "device-class-missing",
                    text,
                    "deviceClassName",
                    of=f"DeviceClass/{class_name}",
                    remedies=[
                        make_remedy(
                            f"install the driver that brings DeviceClass {class_name}, or name a class that exists"
                        )
                    ],
                )

    def _find_lost_allocation(self, claim: Json) -> Iterator[LiveCause]:
        """Yield the cause that a claim has the devices of a node that does not exist, with the pods that keep it so."""
        name, status = str(claim["metadata"]["name"]), claim.get("status") or {}
        terms = list_required_terms(status.get("allocation"), "nodeSelector")
        named = {str(v) for term in terms for each in term.get("matchFields") or () for v in each.get("values") or ()}
        if not named or not all(self._objects.get("Node", node).is_absent for node in named):
            return
        users = [str(each["name"]) for each in status.get("reservedFor") or () if each.get("resource") == "pods"]
        text = f"ResourceClaim {name} has devices of node {_join_sorted(named)}, which does not exist"
        text += f", and is reserved for {_join_sorted(users)}" if users else ""
        what = (
            f"delete {_join_sorted(users)}, which cannot run there"
            if users
            else f"delete claim {name} and make it anew"
        )
        remedy = make_remedy(f"{what}: a claim without users is allocated anew" if users else what)
        source = "status.allocation"
        yield make_cause("devices-lost", text, source, of=f"ResourceClaim/{name}", remedies=[remedy])

    def find_drivers(self) -> Iterator[LiveCause]:
        """Yield where the node plugins of drivers do not run without which nodes are rejected, and why not."""
        message = str((read_conditions(self._pod).get("PodScheduled") or {}).get("message"))
        drivers = dict.fromkeys(_NO_CSI_DRIVER.findall(message))
        drivers |= dict.fromkeys(self._list_device_drivers()) if _NO_DEVICES in message else {}
        nodes = self._objects.list_objects("Node") if drivers else None
        if nodes is None or nodes.missing:
            return
        open_nodes = list_open_nodes(self._spec, nodes.items)
        causes = (find_excluded_driver(driver, open_nodes, self._objects) for driver in drivers)
        yield from filter(None, causes)

    def _list_device_drivers(self) -> Iterator[str]:
        """Yield the drivers of the device classes that the pod's claims name; the class is named after most drivers."""
        for each in self._spec.get("resourceClaims") or ():
            kind = "ResourceClaimTemplate" if each.get("resourceClaimTemplateName") else "ResourceClaim"
            name = each.get("resourceClaimTemplateName") or each.get("resourceClaimName")
            spec = (self._objects.get(kind, name, self._namespace).object or {}).get("spec") or {} if name else {}
            for class_name in _list_device_classes(spec):
                found = (self._objects.get("DeviceClass", class_name).object or {}).get("spec") or {}
                selectors = (selector.get("cel") or {} for selector in found.get("selectors") or ())
                named = [driver for cel in selectors for driver in _DRIVER_OF_CLASS.findall(str(cel.get("expression")))]
                yield from named or [class_name]

    def _describe_terminating(self, claim: Json) -> LiveCause:
        """Return the cause that a resource claim is being deleted, with the pods that keep it."""
        name, own = str(claim["metadata"]["name"]), self._pod["metadata"]["name"]
        reserved = (claim.get("status") or {}).get("reservedFor") or ()
        users = [str(each["name"]) for each in reserved if each.get("resource") == "pods" and each["name"] != own]
        named, uses = _join_sorted(users), "uses" if len(users) == 1 else "use"
        text = f"ResourceClaim {name} is being deleted{f', and {named} still {uses} it' if users else ''}: no new pod"
        remedies = [make_remedy(f"{f'end {named} and ' if users else ''}make the claim anew once it is gone")]
        look = f"kubectl describe resourceclaim {name} -n {self._namespace}"
        if not users:
            remedies = [make_remedy("see what keeps the claim: its finalizers name who has to let it go")]
        return make_cause(
            "device-claim-terminating",
            f"{text} can use it",
            "metadata.deletionTimestamp, status.reservedFor",
            of=f"ResourceClaim/{name}",
            at=claim["metadata"]["deletionTimestamp"],
            remedies=remedies,
            inspect=look,
        )

    def find_resources(self) -> Iterator[LiveCause]:
        """Yield a cause for each extended resource that no node offers, or that nodes with devices do not offer."""
        wanted = sorted({r for r in _list_requests(self._spec) if "/" in r})
        condition = read_conditions(self._pod).get("PodScheduled") or {}
        nodes = self._objects.list_objects("Node") if wanted else None
        if nodes is None or not nodes.is_complete or nodes.missing:
            return
        for resource in wanted:
            if any(_read_amount(node, "allocatable", resource) > 0 for node in nodes.items):
                if f"Insufficient {resource}" in str(condition.get("message")):  # where else might there be more
                    missing = find_missing_plugin(self._spec, resource, nodes.items, self._objects)
                    yield from [missing] if missing else []
                continue
            unhealthy = next((n for n in nodes.items if _read_amount(n, "capacity", resource) > 0), None)
            if unhealthy is not None:
                amount, node = _read_amount(unhealthy, "capacity", resource), unhealthy["metadata"]["name"]
                text = (
                    f"node {node} has a capacity of {amount} {resource}, and 0 allocatable: its device plugin reports"
                )
                text += " none as healthy"
                remedies = [make_remedy(f"see the device plugin on {node}")]
                yield make_cause(
                    "devices-unhealthy",
                    text,
                    "status.allocatable",
                    of=f"Node/{node}",
                    remedies=remedies,
                )
                continue
            others = _list_similar_resources(resource, nodes.items)
            if others:
                text = f"no node offers {resource}; under other names: {'; '.join(others[:_NAMED])}"
                yield make_cause(
                    "resource-other-name",
                    text,
                    "status.allocatable",
                    remedies=[make_remedy(f"request in place of {resource} what a node offers: {others[0]}")],
                )
            elif missing := find_missing_plugin(self._spec, resource, nodes.items, self._objects):
                yield missing
            elif added := describe_added_request(self._pod, resource, self._objects):
                what = f"find what adds {resource}, and leave the pods out there; or add a node that has {resource}"
                yield make_cause(
                    "resource-added",
                    f"no node offers {resource}, and {added}",
                    "spec.containers.resources",
                    remedies=[make_remedy(what)],
                    inspect="kubectl get mutatingwebhookconfigurations",
                )

    def find_unit_slips(self) -> Iterator[LiveCause]:
        """Yield a cause for each request that no node can hold and whose unit is surely a slip."""
        for container in (*(self._spec.get("containers") or ()), *(self._spec.get("initContainers") or ())):
            requests = (container.get("resources") or {}).get("requests") or {}
            for resource in ("cpu", "memory", "ephemeral-storage"):
                if read_quantity(requests.get(resource, 0)) <= _LARGE[resource]:
                    continue
                nodes = self._objects.list_objects("Node")
                if nodes.missing or not nodes.is_complete or not nodes.items:
                    return
                largest = max(_read_exact(node, resource) for node in nodes.items)
                slip = find_unit_slip(resource, requests[resource], largest)
                if slip is None or read_quantity(requests[resource]) <= largest:
                    continue
                text = f"no node has what container {container['name']} requests: {slip.text}"
                advice = f"request {slip.meant} {resource} for container {container['name']}, if that was meant, in"
                remedies = [make_remedy(f"{advice} {name_source(self._pod, self._objects)}")]
                yield make_cause("unit-slip", text, "spec.containers.resources", remedies=remedies)

    # --- nodes ---

    def find_nodes(self) -> Iterator[LiveCause]:
        """Yield a cause for each node that the pod is pinned to and that does not exist."""
        pinned = list_pinned(self._spec)
        if not pinned:
            return
        absent = [name for name in pinned if self._objects.get("Node", name).is_absent]
        if len(absent) == len(pinned):
            names, is_one = ", ".join(absent[:_NAMED]), len(absent) == 1
            text = f"the pod may only run on node {names}, which {'does' if is_one else 'do'} not exist"
            is_selector = HOSTNAME in (self._spec.get("nodeSelector") or {})
            field = "spec.nodeSelector" if is_selector else "spec.affinity.nodeAffinity"
            what = f"node selector {HOSTNAME} {names}" if is_selector else f"required node affinity to {names}"
            remedy = make_remedy(
                f"remove the {what}, or name a node that exists, in {name_source(self._pod, self._objects)}"
            )
            yield make_cause("node-missing", text, field, of=f"Node/{absent[0]}", remedies=[remedy])

    def find_unready_nodes(self, now: datetime) -> Iterator[LiveCause]:
        """Yield what the kubelet of a node reports, if no node that the pod selects is ready."""
        message = str((read_conditions(self._pod).get("PodScheduled") or {}).get("message"))
        nodes = self._objects.list_objects("Node") if "untolerated taint" in message else None
        if nodes is None or nodes.missing or not nodes.is_complete:
            return
        selected = [node for node in nodes.items if selects_node(self._spec, node)]
        ready = {str(node["metadata"]["name"]): read_conditions(node).get("Ready") or {} for node in selected}
        reporting = [name for name, condition in ready.items() if condition.get("status") == "False"]
        if not reporting or any(condition.get("status") == "True" for condition in ready.values()):
            return
        first, others = min(reporting, key=natural_sort_key), len(ready) - 1
        since, said = ready[first].get("lastTransitionTime"), clean(ready[first].get("message"))
        text = f"node {first} is not ready{format_since(since, now)}: {said or ready[first].get('reason')}"
        if others:
            text += f"; {'the other node is' if others == 1 else f'the {others} others are'} not ready either"
        remedy = make_remedy(find_remedy("node", said, node=first, owner="the pod"))
        source = "Node status.conditions[Ready]"
        yield make_cause("node-not-ready", text, source, of=f"Node/{first}", at=since, remedies=[remedy])

    def find_serverless_node(self) -> Iterator[LiveCause]:
        """Yield the cause that a DaemonSet's pod is for a node that a cloud made for other pods."""
        owner, pinned = find_owner(self._pod, self._objects), list_pinned(self._spec)
        if owner is None or owner.kind != "DaemonSet" or len(pinned) != 1:
            return
        labels = read_labels(self._objects.get("Node", pinned[0]).object or {"metadata": {}})
        found = next(((key, value) for key, value in _SERVERLESS if labels.get(key) == value), None)
        if found is None:
            return
        key, value = found
        text = (
            f"node {pinned[0]} is no machine of its own ({key}={value}): it takes the pods that its cloud made it for,"
        )
        text += f" and none of {owner.label}"
        daemon_set = self._objects.get("DaemonSet", owner.name, self._namespace).object
        template = read_template("DaemonSet", daemon_set or {}).get("spec") or {}
        what = f"leave out nodes with {key}={value} by a node affinity (NotIn)"
        affinity = {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
        changed = change_templates(self._pod, {"affinity": {"nodeAffinity": required}}, what, self._objects)
        if daemon_set is None or (template.get("affinity") or {}).get("nodeAffinity") or changed is None:
            changed = make_remedy(f"{what} in {name_source(self._pod, self._objects)}")
        yield make_cause("node-serverless", text, "Node metadata.labels", of=f"Node/{pinned[0]}", remedies=[changed])

    def find_labels(self) -> Iterator[LiveCause]:
        """Yield a cause for each label of the node selector that operators set by hand and no node has.

        Labels of a domain, and AKS's agentpool, come from clouds and agents, so that another node would have them.
        """
        selector = self._spec.get("nodeSelector") or {}
        keys = sorted(key for key in selector if "/" not in key and not names_identity(key))
        for key, near in list_unknown_keys(keys, self._objects):
            if near:
                continue
            wanted = f"{key}={selector[key]}"
            text = f"no node has the label {key}, and the pod's node selector wants {wanted}"
            what = f"give the label {wanted} to the nodes that are meant for such pods, or add nodes that have it"
            yield make_cause("node-label-unknown", text, "spec.nodeSelector", remedies=[make_remedy(what)])


def _is_untried(pod: Json) -> bool:
    """Return whether no scheduler has reported an attempt at a pod without a node."""
    return not pod["spec"].get("nodeName") and not read_conditions(pod).get("PodScheduled")


def _describe_gated(pod: Json) -> str:
    gates = ", ".join(str(gate["name"]) for gate in pod["spec"]["schedulingGates"])
    return f"{pod['metadata']['name']} waits for its scheduling gates ({gates})"


def _describe_untried(pods: Sequence[Json]) -> list[str]:
    names = _join_sorted(pod["metadata"]["name"] for pod in pods)
    return [f"{names} {'was' if len(pods) == 1 else 'were'} not tried yet"] if pods else []


def _join_sorted(names: Iterable[str]) -> str:
    return join_limited(sorted(names, key=natural_sort_key), _NAMED)


def _read_group(spec: Json) -> str:
    """Return the name of the PodGroup of a pod; "" if it belongs to none."""
    return str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")


def _list_requests(spec: Json) -> Iterator[str]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            yield from resources.get("requests") or ()
            yield from resources.get("limits") or ()


def _read_amount(node: Json, field: str, resource: str) -> int:
    """Return the amount of a resource in a field of a node's status, `allocatable` or `capacity`."""
    return int(read_quantity(((node.get("status") or {}).get(field) or {}).get(resource, 0)))


def _list_similar_resources(resource: str, nodes: Iterable[Json]) -> list[str]:
    """Return which nodes offer resources of the same domain, such as slices of a GPU."""
    domain = resource.partition("/")[0]
    described = []
    for node in nodes:
        offered = (node.get("status") or {}).get("allocatable") or {}
        same = [
            f"{amount} {name}"
            for name, amount in sorted(offered.items())
            if name.startswith(f"{domain}/") and read_quantity(amount) > 0
        ]
        if same:
            described.append(f"{node['metadata']['name']} {', '.join(same)}")
    return described


def _read_exact(node: Json, resource: str) -> Fraction:
    return read_quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))
