"""Find why a pod waits for a node in objects that it names: claims, classes, volumes, templates, nodes.

Owns: the causes and their remedies. Does not own: reading (`cluster_objects`), types (`live`). Pure.

Invariant: a cause is stated only if the object that it is about was read, or if the API server said that there is no
such object. Only what the pod names is read, and events only of a claim in trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import count_event, read_event_time
from herodotus_answers.holders import parse_quantity
from herodotus_answers.live_objects import HOSTNAME, list_pinned
from herodotus_answers.pod_facts import make_cause, make_remedy

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause, Remedy

Json = dict[str, Any]

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_NAMED: Final = 4  # names in a sentence


def find_waiting_causes(pod: Json, objects: ClusterObjects) -> list[LiveCause]:
    """Return why a pod without a node cannot get one as long as the objects that it names are as they are."""
    finder = _Finder(pod, objects)
    return [
        *finder.find_group(),
        *finder.find_claims(),
        *finder.find_devices(),
        *finder.find_resources(),
        *finder.find_nodes(),
    ]


class _Finder:
    """Looks at the objects that one pod names."""

    def __init__(self, pod: Json, objects: ClusterObjects) -> None:
        self._pod, self._spec, self._objects = pod, pod["spec"], objects
        self._namespace = str(pod["metadata"]["namespace"])

    # --- the group ---

    def find_group(self) -> Iterator[LiveCause]:
        """Yield why the pod's group is not tried: its PodGroup does not exist, or has fewer pods than it needs."""
        name = str((self._spec.get("schedulingGroup") or {}).get("podGroupName") or "")
        if not name:
            return
        about = f"PodGroup/{name}"
        if self._objects.is_absent("PodGroup", name, self._namespace):
            text = f"PodGroup {name} does not exist in namespace {self._namespace}"
            text += _list_similar(name, self._list_names("PodGroup", self._namespace))
            remedies = [make_remedy(f"create the PodGroup {name}, or correct podGroupName")]
            yield make_cause("pod-group-missing", text, "spec.schedulingGroup", of=about, remedies=remedies)
        group = self._objects.get("PodGroup", name, self._namespace).object
        policy = ((group or {}).get("spec") or {}).get("schedulingPolicy") or {}
        needed = int((policy.get("gang") or {}).get("minCount") or 0)
        listed = self._objects.list_objects("Pod", self._namespace) if needed else None
        if listed is None or not listed.is_complete or listed.missing:
            return
        members = [pod for pod in listed.items if _is_member(pod, name)]
        if len(members) < needed:
            exist = "1 exists" if len(members) == 1 else f"{len(members)} exist"
            text = f"PodGroup {name} needs {needed} pods before any of them is tried, and {exist}"
            remedies = [make_remedy(f"create the missing pods of PodGroup {name}, or lower its minCount")]
            source = "spec.schedulingPolicy.gang.minCount"
            yield make_cause("pod-group-too-small", text, source, of=about, remedies=remedies)

    # --- volumes ---

    def find_claims(self) -> Iterator[LiveCause]:
        """Yield a cause for each claim of the pod that cannot be used."""
        for volume in self._spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name and volume.get("ephemeral"):
                name = f"{self._pod['metadata']['name']}-{volume['name']}"
            if name:
                yield from self._find_claim(str(name), is_made=bool(volume.get("ephemeral")))

    def _find_claim(self, name: str, *, is_made: bool) -> Iterator[LiveCause]:
        lookup = self._objects.get("PersistentVolumeClaim", name, self._namespace)
        about = f"PersistentVolumeClaim/{name}"
        if lookup.is_absent and not is_made:
            existing = self._list_names("PersistentVolumeClaim", self._namespace)
            text = f"claim {name} does not exist in namespace {self._namespace}{_list_similar(name, existing)}"
            remedies = [make_remedy(f"create the claim {name}, or correct claimName")]
            yield make_cause("claim-missing", text, "spec.volumes", of=about, remedies=remedies)
        claim = lookup.object
        if claim is None:
            return
        spec, status = claim.get("spec") or {}, claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp"):
            yield make_cause("claim-terminating", f"claim {name} is being deleted", "metadata", of=about)
        if status.get("phase") == "Lost":
            text = f"claim {name} is Lost: its volume {spec.get('volumeName')} does not exist"
            yield make_cause("claim-volume-lost", text, "status.phase", of=about, remedies=[_remake(name)])
        elif spec.get("volumeName"):
            yield from self._find_volume(claim)
        elif status.get("phase") != "Bound":
            yield from self._find_unbound(claim)
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
            yield from self._find_user(name)

    def _find_volume(self, claim: Json) -> Iterator[LiveCause]:
        """Yield why the volume that a claim is bound to cannot be reached."""
        name, volume_name = claim["metadata"]["name"], str(claim["spec"]["volumeName"])
        lookup = self._objects.get("PersistentVolume", volume_name)
        if lookup.is_absent:
            text = f"claim {name} is bound to volume {volume_name}, which does not exist"
            yield make_cause(
                "volume-missing",
                text,
                "spec.volumeName",
                of=f"PersistentVolume/{volume_name}",
                remedies=[_remake(name)],
            )
        terms = _terms(((lookup.object or {}).get("spec") or {}).get("nodeAffinity"), "required")
        nodes = self._objects.list_objects("Node") if terms else None
        if not terms or nodes is None or not nodes.is_complete or nodes.missing:
            return
        if any(_matches_any(terms, node) for node in nodes.items):
            return
        wanted = _describe_terms(terms)
        lost = [v for e in _expressions(terms) if e["key"] == HOSTNAME for v in e.get("values") or ()]
        which = (
            f"node {', '.join(lost)}, which does not exist" if lost else f"nodes with {wanted}, and no node has that"
        )
        text = f"volume {volume_name} of claim {name} can only be reached from {which}"
        remedies = [
            _remake(name),
            make_remedy(f"bring node {', '.join(lost)} back" if lost else f"add a node with {wanted}"),
        ]
        yield make_cause(
            "volume-unreachable", text, "spec.nodeAffinity", of=f"PersistentVolume/{volume_name}", remedies=remedies
        )

    def _find_unbound(self, claim: Json) -> Iterator[LiveCause]:
        """Yield why a claim has no volume, if it is not only that it waits for its first consumer."""
        name, spec = str(claim["metadata"]["name"]), claim.get("spec") or {}
        about, class_name = f"PersistentVolumeClaim/{name}", spec.get("storageClassName")
        wanted = str(((spec.get("resources") or {}).get("requests") or {}).get("storage") or "0")
        if class_name is None:
            yield self._describe_no_class(name, about)
            return
        if class_name == "":
            yield self._describe_static(
                claim, wanted, f"claim {name} ({wanted}) asks for no class, so only an existing volume can serve it"
            )
            return
        lookup = self._objects.get("StorageClass", class_name)
        if lookup.is_absent:
            existing = self._list_names("StorageClass")
            text = f"class {class_name} of claim {name} does not exist{_list_similar(class_name, existing)}"
            remedies = [
                make_remedy(f"create the class {class_name}, or make claim {name} anew with a class that exists")
            ]
            yield make_cause(
                "class-missing", text, "spec.storageClassName", of=f"StorageClass/{class_name}", remedies=remedies
            )
            return
        storage_class = lookup.object
        if storage_class is None:
            return
        if storage_class.get("provisioner") == _NO_PROVISIONER:
            yield self._describe_static(
                claim, wanted, f"class {class_name} makes no volumes for claim {name} ({wanted})"
            )
            return
        failure = self._find_provisioning_failure({**claim, "kind": "PersistentVolumeClaim"})
        if failure is not None:
            text = f"claim {name} ({wanted}, class {class_name}) gets no volume: {failure[0]}"
            yield make_cause(
                "provisioning-failed",
                text,
                "Event ProvisioningFailed",
                of=about,
                at=failure[1],
                remedies=[make_remedy(f"mend what {storage_class.get('provisioner')} reports, or use another class")],
            )
            return
        full = self._describe_capacity(name, wanted, class_name, about)
        if full is not None:
            yield full
        elif storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            provisioner = storage_class.get("provisioner")
            text = (
                f"claim {name} is not bound: {provisioner}, the provisioner of class {class_name}, has made no volume"
            )
            yield make_cause(
                "claim-unbound",
                text,
                "status.phase",
                of=about,
                at=claim["metadata"].get("creationTimestamp"),
                remedies=[make_remedy(f"see whether {provisioner} runs")],
            )

    def _describe_no_class(self, name: str, about: str) -> LiveCause:
        classes = self._objects.list_objects("StorageClass").items
        default = [
            c["metadata"]["name"]
            for c in classes
            if ((c["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS)) == "true"
        ]
        names = [str(c["metadata"]["name"]) for c in classes]
        text = f"claim {name} names no storage class, and no class is the default"
        if default:
            text = f"claim {name} names no storage class: it was made before {default[0]} became the default"
            return make_cause("no-class", text, "spec.storageClassName", of=about, remedies=[_remake(name)])
        text += f" (classes: {', '.join(names[:_NAMED])})" if names else "; there is no class at all"
        remedies: list[Remedy] = [make_remedy("create a storage class, and set storageClassName in the claim")]
        if len(names) == 1:
            patch = f'{{"metadata":{{"annotations":{{"{_DEFAULT_CLASS}":"true"}}}}}}'
            remedies = [
                make_remedy(f"make {names[0]} the default class", f"kubectl patch storageclass {names[0]} -p '{patch}'")
            ]
        elif names:
            remedies = [
                make_remedy(f"make one of {', '.join(names[:_NAMED])} the default class, or set storageClassName")
            ]
        return make_cause("no-class", text, "spec.storageClassName", of=about, remedies=remedies)

    def _describe_static(self, claim: Json, wanted: str, beginning: str) -> LiveCause:
        """Return why no existing volume serves a claim for which none is made."""
        spec, name = claim.get("spec") or {}, str(claim["metadata"]["name"])
        class_name = spec.get("storageClassName") or ""
        volumes = self._objects.list_objects("PersistentVolume")
        same = [v for v in volumes.items if (v["spec"].get("storageClassName") or "") == class_name]
        reasons = [_refuse(volume, claim) for volume in same]
        listed = "; ".join(reasons[:_NAMED]) or f"no volume of class {class_name!r} exists"
        remedies = [
            make_remedy(f"add a volume of at least {wanted} for claim {name}, or make the claim anew with what exists")
        ]
        return make_cause(
            "no-fitting-volume", f"{beginning}: {listed}", "spec", of=f"PersistentVolumeClaim/{name}", remedies=remedies
        )

    def _find_provisioning_failure(self, claim: Json) -> tuple[str, str] | None:
        """Return the message of the newest ProvisioningFailed event of a claim and its time, or None if it has none."""
        events = self._objects.list_events(claim)
        failed = [e for e in events if e.get("reason") in ("ProvisioningFailed", "FailedBinding")]
        if not failed:
            return None
        newest = failed[-1]
        times = f" ({count_event(newest)} times)" if count_event(newest) > 1 else ""
        return f"{' '.join(str(newest.get('message') or '').split())}{times}", read_event_time(newest)

    def _describe_capacity(self, name: str, wanted: str, class_name: str, about: str) -> LiveCause | None:
        """Return the cause that no node's storage has room for a claim, or None if one has, or nothing is published."""
        listed = self._objects.list_objects("CSIStorageCapacity")
        capacities = [c for c in listed.items if c.get("storageClassName") == class_name]
        if not capacities or not listed.is_complete:
            return None
        if any(parse_quantity(c.get("capacity") or 0) >= parse_quantity(wanted) for c in capacities):
            return None
        capacities.sort(key=lambda c: -parse_quantity(c.get("capacity") or 0))
        rooms = [f"{_name_topology(c)} {_format_bytes(c.get('capacity'))}" for c in capacities[:_NAMED]]
        more = f", … {len(capacities) - _NAMED} more" if len(capacities) > _NAMED else ""
        text = (
            f"claim {name} wants {wanted} of class {class_name}, and its driver publishes less free capacity everywhere"
        )
        text += f": {', '.join(rooms)}{more}"
        remedies = [make_remedy(f"free or add storage for class {class_name}, or make claim {name} anew with less")]
        return make_cause("no-storage-capacity", text, "CSIStorageCapacity", of=about, remedies=remedies)

    def _find_user(self, claim: str) -> Iterator[LiveCause]:
        """Yield the other pod that uses a claim for one pod at a time."""
        for other in self._objects.list_objects("Pod", self._namespace).items:
            meta, spec = other["metadata"], other["spec"]
            used = {(v.get("persistentVolumeClaim") or {}).get("claimName") for v in spec.get("volumes") or ()}
            ended = (other.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if claim not in used or ended or not spec.get("nodeName") or meta["name"] == self._pod["metadata"]["name"]:
                continue
            state = ", which is terminating" if meta.get("deletionTimestamp") else ""
            text = f"claim {claim} may be used by one pod at a time (ReadWriteOncePod), and pod {meta['name']} on"
            text += f" {spec['nodeName']} uses it{state}"
            remedies = [
                make_remedy(f"wait until {meta['name']} has ended, or end it; a Deployment needs strategy Recreate")
            ]
            yield make_cause(
                "claim-used-by-pod", text, "spec.accessModes", of=f"PersistentVolumeClaim/{claim}", remedies=remedies
            )

    # --- devices and resources ---

    def find_devices(self) -> Iterator[LiveCause]:
        """Yield a cause for each resource claim, template or device class that does not exist."""
        for each in self._spec.get("resourceClaims") or ():
            template, claim = each.get("resourceClaimTemplateName"), each.get("resourceClaimName")
            if template:
                yield from self._find_request("ResourceClaimTemplate", str(template))
            elif claim:
                yield from self._find_request("ResourceClaim", str(claim))

    def _find_request(self, kind: str, name: str) -> Iterator[LiveCause]:
        lookup = self._objects.get(kind, name, self._namespace)
        if lookup.is_absent:
            existing = self._list_names(kind, self._namespace)
            text = f"{kind} {name} does not exist in namespace {self._namespace}{_list_similar(name, existing)}"
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
        spec = lookup.object.get("spec") or {}
        requests = ((spec.get("spec") or spec).get("devices") or {}).get("requests") or ()
        names = {(r.get("exactly") or r).get("deviceClassName") for r in requests}
        for class_name in sorted(filter(None, names)):
            if self._objects.get("DeviceClass", class_name).is_absent:
                text = f"DeviceClass {class_name} of {kind} {name} does not exist"
                text += _list_similar(class_name, self._list_names("DeviceClass"))
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

    def find_resources(self) -> Iterator[LiveCause]:
        """Yield a cause for each extended resource that no node offers."""
        wanted = sorted({r for r in _list_requests(self._spec) if "/" in r})
        nodes = self._objects.list_objects("Node") if wanted else None
        if nodes is None or not nodes.is_complete or nodes.missing:
            return
        for resource in wanted:
            if any(_allocatable(node, resource) > 0 for node in nodes.items):
                continue
            unhealthy = [n for n in nodes.items if _capacity(n, resource) > 0]
            if unhealthy:
                first = unhealthy[0]
                amount, node = _capacity(first, resource), first["metadata"]["name"]
                text = (
                    f"node {node} has a capacity of {amount} {resource}, and 0 allocatable: its device plugin reports"
                )
                text += " none as healthy"
                remedies = [make_remedy(f"see the device plugin on {first['metadata']['name']}")]
                yield make_cause(
                    "devices-unhealthy",
                    text,
                    "status.allocatable",
                    of=f"Node/{first['metadata']['name']}",
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
                    remedies=[make_remedy("request a resource that a node offers")],
                )

    # --- nodes ---

    def find_nodes(self) -> Iterator[LiveCause]:
        """Yield a cause for each node that the pod is pinned to and that does not exist."""
        pinned = list_pinned(self._spec)
        if not pinned:
            return
        absent = [name for name in pinned if self._objects.get("Node", name).is_absent]
        if len(absent) == len(pinned):
            text = f"the pod may only run on node {', '.join(absent[:_NAMED])}, which does not exist"
            yield make_cause(
                "node-missing",
                text,
                "spec.nodeSelector and spec.affinity",
                of=f"Node/{absent[0]}",
                remedies=[make_remedy(f"remove the node selector {HOSTNAME} {absent[0]}, or name a node that exists")],
            )

    def _list_names(self, kind: str, namespace: str = "") -> list[str]:
        return [str(o["metadata"]["name"]) for o in self._objects.list_objects(kind, namespace).items]


def _is_member(pod: Json, group: str) -> bool:
    """Return whether a pod belongs to a PodGroup and has not ended and is not being deleted."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    is_of_group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == group
    return is_of_group and not ended and not pod["metadata"].get("deletionTimestamp")


def _remake(claim: str) -> Remedy:
    return make_remedy(f"delete the claim {claim} and make it anew: what its volume holds is lost")


def _list_similar(name: str, existing: list[str]) -> str:
    """Return a clause on the existing names that are similar, or on all if they are few; "" if there is none."""
    from difflib import get_close_matches  # here, because few pods name an object that does not exist

    names = get_close_matches(name, existing, n=_NAMED, cutoff=0.6) or (existing if len(existing) <= _NAMED else [])
    return f" (there is {', '.join(names)})" if names else ""


def _refuse(volume: Json, claim: Json) -> str:
    """Return why an existing volume does not serve a claim."""
    name, spec, wanted = volume["metadata"]["name"], volume["spec"], claim["spec"]
    phase = (volume.get("status") or {}).get("phase")
    held = spec.get("claimRef") or {}
    amount = str((spec.get("capacity") or {}).get("storage"))
    asked = str(((wanted.get("resources") or {}).get("requests") or {}).get("storage") or "0")
    missing = [m for m in wanted.get("accessModes") or () if m not in (spec.get("accessModes") or ())]
    if held and (held.get("namespace"), held.get("name")) != (
        claim["metadata"]["namespace"],
        claim["metadata"]["name"],
    ):
        state = "is Released by" if phase == "Released" else "belongs to"
        return f"volume {name} {state} claim {held.get('namespace')}/{held.get('name')}"
    if parse_quantity(amount) < parse_quantity(asked):
        return f"volume {name} has {amount}, the claim wants {asked}"
    if missing:
        return f"volume {name} lacks access mode {', '.join(missing)}"
    return (
        f"volume {name} is {phase}"
        if phase != "Available"
        else f"volume {name} is available, and cannot be reached or selected"
    )


def _terms(affinity: Json | None, key: str) -> list[Json]:
    return list((((affinity or {}).get(key)) or {}).get("nodeSelectorTerms") or ())


def _expressions(terms: Iterable[Json]) -> Iterator[Json]:
    for term in terms:
        yield from term.get("matchExpressions") or ()


def _matches_any(terms: Iterable[Json], node: Json) -> bool:
    """Return whether a node may match one of the terms; an operator that is not known counts as a match."""
    return any(all(_matches(e, node) for e in term.get("matchExpressions") or ()) for term in terms)


def _matches(expression: Json, node: Json) -> bool:
    value = (node["metadata"].get("labels") or {}).get(expression["key"])
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return True


def _describe_terms(terms: Iterable[Json]) -> str:
    parts = [f"{e['key']} {e['operator']} {', '.join(e.get('values') or ())}".strip() for e in _expressions(terms)]
    return " or ".join(dict.fromkeys(parts))


def _name_topology(capacity: Json) -> str:
    labels = (capacity.get("nodeTopology") or {}).get("matchLabels") or {}
    return ",".join(str(value) for value in labels.values()) or "everywhere"


def _format_bytes(quantity: object) -> str:
    from herodotus_record.units import format_quantity  # here, because few claims lack room

    return format_quantity("memory", int(parse_quantity(quantity or 0)))


def _list_requests(spec: Json) -> Iterator[str]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            yield from resources.get("requests") or ()
            yield from resources.get("limits") or ()


def _allocatable(node: Json, resource: str) -> int:
    return int(parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0)))


def _capacity(node: Json, resource: str) -> int:
    return int(parse_quantity(((node.get("status") or {}).get("capacity") or {}).get(resource, 0)))


def _list_similar_resources(resource: str, nodes: Iterable[Json]) -> list[str]:
    """Return which nodes offer resources of the same domain, such as slices of a GPU."""
    domain = resource.partition("/")[0]
    described = []
    for node in nodes:
        offered = (node.get("status") or {}).get("allocatable") or {}
        same = [
            f"{amount} {name}"
            for name, amount in sorted(offered.items())
            if name.startswith(f"{domain}/") and parse_quantity(amount) > 0
        ]
        if same:
            described.append(f"{node['metadata']['name']} {', '.join(same)}")
    return described
