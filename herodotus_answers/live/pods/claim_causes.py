"""Find why the claims of a pod cannot be used: claims, classes, volumes, provisioners, capacity.

Owns: these causes and their remedies. Does not own: other objects that a pod names (`waiting_causes`), attachments
(`attachment_causes`), reading (`cluster_objects`). Pure.

Invariant: a cause is stated only if the object that it is about was read, or if the API server said that there is no
such object. Events are read only of a claim in trouble.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.messages.volumes import LACKS_SPACE
from herodotus_answers.live.node_rules import describe_terms, list_required_terms, matches_any_term, read_labels
from herodotus_answers.live.objects import HOSTNAME
from herodotus_answers.live.pod_facts import (
    describe_elsewhere,
    describe_similar,
    find_manager,
    find_owner,
    format_times,
    kubectl,
    list_claims,
    make_cause,
    make_remedy,
    name_source,
)
from herodotus_answers.live.pods.attachment_causes import list_users, release_claim
from herodotus_answers.live.quota_amounts import raise_quota
from herodotus_answers.live.unit_slips import describe_slip
from herodotus_answers.quantities import format_available_amount, read_quantity

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"  # set by the scheduler, for the provisioner
_PROTECTION: Final = "kubernetes.io/pvc-protection"  # removed when no pod uses the claim
# What a driver says of an attempt while an earlier one, which failed in time only, still runs.
_REPEATED: Final = re.compile(r"code = Aborted|operation with the given .* already exists")
_NODE_NOT_FOUND: Final = re.compile(r'node "([^"]+)" not found')
_NAMED: Final = 4  # names in a sentence
_CLASS: Final = ("StorageClass", "storageClassName")
_UNREAD: Final = ("Forbidden", "Unknown")
# Labels that nodes of old releases had, and the labels that took their place.
_DEPRECATED_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


def find_claim_causes(pod: Json, objects: ClusterObjects, only: str = "") -> list[LiveCause]:
    """Return a cause for each claim of the pod that cannot be used, or for the claim `only`."""
    finder = _ClaimFinder(pod, objects)
    causes = [
        cause
        for _, name, is_made in list_claims(pod)
        for cause in (finder.find_claim(name, is_made=is_made) if only in ("", name) else ())
    ]
    return causes if causes or only else list(finder.find_apart())


def find_unread_claims(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each claim of the pod that cannot be read, or whose volume or class cannot be read."""
    namespace = str(pod["metadata"]["namespace"])
    for claim in list_claims(pod):
        lookup = objects.get("PersistentVolumeClaim", claim.name, namespace)
        if lookup.missing in _UNREAD:
            text = f"claim {claim.name} cannot be read: whether it has a volume, and where, is not known"
            yield _make_unread(claim.name, text, "spec.volumes", "PersistentVolumeClaim", claim.name)
        spec = (lookup.object or {}).get("spec") or {}
        kind, field = ("PersistentVolume", "volumeName") if spec.get("volumeName") else _CLASS
        name = str(spec.get(field) or "")
        if not name or objects.get(kind, name).missing not in _UNREAD:
            continue
        text = f"claim {claim.name} asks for a volume of class {name}; that StorageClass cannot be read"
        if kind == "PersistentVolume":
            text = (
                f"claim {claim.name} ({_name_class(spec)}) has volume {name}, which cannot be read: from where it can"
            )
            text += " be reached is not known"
        yield _make_unread(claim.name, text, f"spec.{field}", kind, name)


def _make_unread(claim: str, text: str, source: str, kind: str, name: str) -> LiveCause:
    """Return the cause that an object on which a claim depends cannot be read."""
    remedy = make_remedy(f"ask someone who may read {kind} objects", f"kubectl describe {kind.lower()} {name}")
    return make_cause("claim-unread", text, source, of=f"PersistentVolumeClaim/{claim}", remedies=[remedy])


def describe_finalizers(claim: Json) -> str:
    """Return a clause on who keeps a claim that is being deleted, besides the pods that use it; "" for no other."""
    names = [each for each in claim["metadata"].get("finalizers") or () if each != _PROTECTION]
    return f" and kept by {', '.join(names)} (metadata.finalizers) until its controller has finished" if names else ""


class _Remake:
    """How a claim is made anew; a remedy says in its format what the new one has, as in `{remake:with less}`."""

    def __init__(self, describe: Callable[[str], str]) -> None:
        self._describe = describe

    def __format__(self, how: str) -> str:
        return self._describe(how)


class _ClaimFinder:
    """Looks at the claims of one pod and at what they name."""

    def __init__(self, pod: Json, objects: ClusterObjects) -> None:
        self._pod, self._spec, self._objects = pod, pod["spec"], objects
        self._namespace = str(pod["metadata"]["namespace"])

    def find_apart(self) -> Iterator[LiveCause]:
        """Yield the cause that no node reaches all volumes of the pod, each of which some node reaches."""
        reached: list[tuple[str, str, list[Json]]] = []
        for each in self._spec.get("volumes") or ():
            name = (each.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self._objects.get("PersistentVolumeClaim", name, self._namespace).object if name else None
            volume = str(((claim or {}).get("spec") or {}).get("volumeName") or "")
            found = self._objects.get("PersistentVolume", volume).object if volume else None
            terms = list_required_terms(((found or {}).get("spec") or {}).get("nodeAffinity"), "required")
            if terms:
                reached.append((str(name), volume, terms))
        nodes = self._objects.list_objects("Node") if len(reached) > 1 else None
        if nodes is None or not nodes.is_complete or nodes.missing:
            return
        if any(all(matches_any_term(terms, node) for _, _, terms in reached) for node in nodes.items):
            return
        listed = "; ".join(f"{volume} (claim {name}) from {describe_terms(terms)}" for name, volume, terms in reached)
        remedies = [make_remedy("make one of the claims anew where the others are: what its volume holds is lost")]
        text = f"no node can reach all volumes of the pod: {listed}"
        yield make_cause("volumes-apart", text, "spec.nodeAffinity", remedies=remedies)

    def _remake(self, name: str, how: str) -> str:
        """Return how to make a claim anew: where its spec comes from a template, the template has to change."""
        made = next((each for each in list_claims(self._pod) if each.name == name), None)
        if made is not None and made.is_ephemeral:
            where = f"the volumeClaimTemplate of volume {made.volume} in {name_source(self._pod, self._objects)}"
            return f"correct {where}, so that new pods get claims {how}"
        owner = find_owner(self._pod, self._objects)
        found = self._objects.get(owner.kind, owner.name, self._namespace).object if owner else None
        templates = ((found or {}).get("spec") or {}).get("volumeClaimTemplates") or ()
        if owner is None or not any(
            f"{each['metadata']['name']}-{self._pod['metadata']['name']}" == name for each in templates
        ):
            return f"make claim {name} anew {how}"
        if manager := find_manager(self._pod, self._objects):
            return f"let {manager}, which makes {owner.label}, ask for claims {how}"
        again = f"kubectl delete statefulset {owner.name} -n {self._namespace} --cascade=orphan"
        return (
            f"make {owner.label} anew with volumeClaimTemplates {how} ({again} keeps its pods), and delete claim {name}"
            " and the pod, which it then makes anew"
        )

    def _find_unmade(self, name: str, about: str) -> Iterator[LiveCause]:
        """Yield why the claim of an ephemeral volume was not created, if an event says so."""
        for event in reversed(self._objects.list_events({**self._pod, "kind": "Pod"})):
            message = " ".join(str(event.get("message") or "").split())
            if event.get("reason") == "FailedBinding" and f"create PVC {name}: " in message:
                why = message.partition(f"create PVC {name}: ")[2]
                text, at = (
                    f"claim {name} of the pod's ephemeral volume cannot be created: {why}",
                    read_event_time(event),
                )
                volume = next((each.volume for each in list_claims(self._pod) if each.name == name), name)
                source = f"the volumeClaimTemplate of volume {volume} in {name_source(self._pod, self._objects)}"
                advice = find_remedy("claim", why, source=source, namespace=self._namespace)
                remedy = raise_quota(why, self._namespace, self._objects) or make_remedy(advice)
                yield make_cause("claim-not-created", text, "Event FailedBinding", of=about, at=at, remedies=[remedy])
                return

    def _describe_terminating(self, claim: Json, about: str) -> LiveCause:
        """Return the cause that a claim is being deleted, with the pods and the finalizers that keep it."""
        name = str(claim["metadata"]["name"])
        users = [each["metadata"]["name"] for each in list_users(self._pod, name, self._objects)]
        keeps = f", and {', '.join(users[:_NAMED])} still {'uses' if len(users) == 1 else 'use'} it" if users else ""
        text = f"claim {name} is being deleted{describe_finalizers(claim)}{keeps}: no new pod can use it"
        ends = f"end {', '.join(users[:_NAMED])}, " if users else ""
        remedy = make_remedy(
            f"{ends}let the claim go and make it anew: what its volume holds is lost, unless the volume's reclaim"
            " policy is Retain"
        )
        look = f"kubectl describe pvc {name} -n {self._namespace}"
        return make_cause("claim-terminating", text, "metadata", of=about, remedies=[remedy], inspect=look)

    def _find_requested(self, claim: Json) -> Iterator[LiveCause]:
        """Yield why a claim is not bound to the volume that it names."""
        name, volume_name = str(claim["metadata"]["name"]), str(claim["spec"]["volumeName"])
        lookup = self._objects.get("PersistentVolume", volume_name)
        about = f"PersistentVolumeClaim/{name}"
        if lookup.is_absent:
            similar = describe_similar(volume_name, self._objects.list_names("PersistentVolume"))
            text = f"claim {name} asks for volume {volume_name}, which does not exist{similar}"
            remedies = [make_remedy(f"create volume {volume_name}, or {self._remake(name, 'without volumeName')}")]
            yield make_cause(
                "volume-missing", text, "spec.volumeName", of=f"PersistentVolume/{volume_name}", remedies=remedies
            )
        if lookup.object is None:
            return
        why = _refuse(lookup.object, claim)
        text = f"claim {name} asks for volume {volume_name} and is not bound to it: {why}"
        remedy = make_remedy(
            f"{self._remake(name, 'with a volume and a class that go together')}, or correct {volume_name}"
        )
        remedies = self._add_left_over([remedy], [lookup.object], claim)
        yield make_cause("no-fitting-volume", text, "spec.volumeName", of=about, remedies=remedies)

    def find_claim(self, name: str, *, is_made: bool) -> Iterator[LiveCause]:
        lookup = self._objects.get("PersistentVolumeClaim", name, self._namespace)
        about = f"PersistentVolumeClaim/{name}"
        if lookup.is_absent and is_made:
            yield from self._find_unmade(name, about)
        if lookup.is_absent and not is_made:
            existing = self._objects.list_names("PersistentVolumeClaim", self._namespace)
            other = describe_elsewhere("PersistentVolumeClaim", name, self._objects) or describe_similar(name, existing)
            text = f"claim {name} does not exist in namespace {self._namespace}{other}"
            remedies = [make_remedy(f"create the claim {name} in namespace {self._namespace}, or correct claimName")]
            yield make_cause("claim-missing", text, "spec.volumes", of=about, remedies=remedies)
        claim = lookup.object
        if claim is None:
            return
        spec, status = claim.get("spec") or {}, claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp"):
            yield self._describe_terminating(claim, about)
        if status.get("phase") == "Lost":
            text = f"claim {name} is Lost: its volume {spec.get('volumeName')} does not exist"
            yield make_cause("claim-volume-lost", text, "status.phase", of=about, remedies=[_remake(name)])
        elif spec.get("volumeName") and status.get("phase") != "Bound":
            yield from self._find_requested(claim)
        elif spec.get("volumeName"):
            yield from self._find_volume(claim)
        elif status.get("phase") != "Bound":
            yield from self._find_unbound(claim)
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
            yield from self._find_user(claim)

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
        terms = list_required_terms(((lookup.object or {}).get("spec") or {}).get("nodeAffinity"), "required")
        nodes = self._objects.list_objects("Node") if terms else None
        if not terms or nodes is None or not nodes.is_complete or nodes.missing:
            return
        if any(matches_any_term(terms, node) for node in nodes.items):
            return
        wanted = describe_terms(terms)
        lost = [v for e in _expressions(terms) if e["key"] == HOSTNAME for v in e.get("values") or ()]
        which = (
            f"node {', '.join(lost)}, which does not exist" if lost else f"nodes with {wanted}, and no node has that"
        )
        text = f"volume {volume_name} of claim {name} can only be reached from {which}"
        remedies = [
            *_label_nodes(terms, nodes.items),
            make_remedy(f"bring node {', '.join(lost)} back" if lost else f"add a node with {wanted}"),
            _remake(name),  # last, because it loses data
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
            existing = self._objects.list_names("StorageClass")
            text = f"claim {name} asks for class {class_name}, which does not exist"
            text += describe_similar(class_name, existing)
            remedies = [
                make_remedy(f"create the class {class_name}, or {self._remake(name, 'with a class that exists')}")
            ]
            yield make_cause(
                "class-missing", text, "spec.storageClassName", of=f"StorageClass/{class_name}", remedies=remedies
            )
            return
        storage_class = lookup.object or {}  # without it, an event about the claim may still say why
        if storage_class.get("provisioner") == _NO_PROVISIONER:
            yield self._describe_static(
                claim, wanted, f"class {class_name} makes no volumes for claim {name} ({wanted})"
            )
            return
        node = str((claim["metadata"].get("annotations") or {}).get(_SELECTED_NODE) or "")
        if node and self._objects.get("Node", node).is_absent:
            yield self._describe_lost_node(claim, wanted, node)
            return
        failure = self._find_provisioning_failure({**claim, "kind": "PersistentVolumeClaim"})
        if failure is not None and (node or not self._is_about_lost_node(failure[0])):
            yield self._describe_failure(claim, wanted, failure, node, storage_class)
            return
        if not storage_class:
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

    def _is_about_lost_node(self, message: str) -> bool:
        """Return whether a provisioner failed for a node that does not exist, and that was selected earlier."""
        match = _NODE_NOT_FOUND.search(message)
        return match is not None and self._objects.get("Node", match[1]).is_absent

    def _describe_failure(
        self, claim: Json, wanted: str, failure: tuple[str, str | None], node: str, storage_class: Json
    ) -> LiveCause:
        """Return the cause that a provisioner failed, with its words. `node` is the one that was selected, or ""."""
        name, class_name = str(claim["metadata"]["name"]), str(claim["spec"]["storageClassName"])
        driver = str(storage_class.get("provisioner") or f"the provisioner of class {class_name}")
        facts = {"driver": driver, "storage_class": class_name, "remake": _Remake(lambda how: self._remake(name, how))}
        remedies = [make_remedy(find_remedy("provision", failure[0], **facts))]
        text = f"claim {name} ({wanted}, class {class_name}){describe_slip('storage', wanted)} gets no volume"
        if node:
            text += f" on node {node}, which a scheduler selected"
        if (
            node
            and re.search(LACKS_SPACE, failure[0], re.IGNORECASE)
            and len(self._objects.list_objects("Node").items) > 1
        ):
            what = f"remove the annotation {_SELECTED_NODE} from claim {name}: the scheduler then selects a node anew"
            what += f" (cordon {node} until then, which may be selected again)"
            remedies.append(make_remedy(what, kubectl(claim, f"annotate pvc {name}", f"{_SELECTED_NODE}-")))
        of = f"PersistentVolumeClaim/{name}"
        text, source = f"{text}: {failure[0]}", "Event ProvisioningFailed"
        return make_cause("provisioning-failed", text, source, of=of, at=failure[1], remedies=remedies)

    def _describe_lost_node(self, claim: Json, wanted: str, node: str) -> LiveCause:
        """Return the cause that the node for which a scheduler chose to have a claim's volume made does not exist."""
        name, class_name = str(claim["metadata"]["name"]), claim["spec"]["storageClassName"]
        text = f"the volume of claim {name} ({wanted}, class {class_name}) is to be made on node {node}, which a"
        text += f" scheduler selected and which does not exist: the annotation {_SELECTED_NODE} excludes other nodes"
        what = f"remove the annotation from claim {name}: the scheduler then selects a node that exists"
        remedy = make_remedy(what, kubectl(claim, f"annotate pvc {name}", f"{_SELECTED_NODE}-"))
        of, at = f"PersistentVolumeClaim/{name}", claim["metadata"].get("creationTimestamp")
        return make_cause("selected-node-missing", text, "metadata.annotations", of=of, at=at, remedies=[remedy])

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
            text = (
                f"claim {name} names no storage class. {default[0]} is the default now, and kube-controller-manager has"
            )
            text += " not given it to the claim yet"
            remedy = make_remedy("see whether kube-controller-manager runs: it gives waiting claims the default class")
            look = "kubectl get pods -n kube-system -l component=kube-controller-manager"
            return make_cause("no-class", text, "spec.storageClassName", of=about, remedies=[remedy], inspect=look)
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

    def _add_left_over(self, remedies: list[Remedy], volumes: Iterable[Json], claim: Json) -> list[Remedy]:
        """Return the remedies with those that free volumes which are kept for claims that are gone, and would serve.

        A volume with the data of an earlier claim of the same name is the first choice. One with the data of another
        claim is the last, because that data can then be read and overwritten.
        """
        left = [volume for volume in volumes if self._is_left_over(volume) and not _misfits(volume, claim)]
        own, others = (
            [_free(volume, claim) for volume in left if _is_held_for(volume, claim) is is_own]
            for is_own in (True, False)
        )
        return [*own, *remedies, *others]

    def _is_left_over(self, volume: Json) -> bool:
        """Return whether a volume is kept for a claim that is gone: one of its name may have been made since."""
        held = volume["spec"].get("claimRef") or {}
        is_kept = volume["spec"].get("persistentVolumeReclaimPolicy", "Retain") == "Retain"
        if (volume.get("status") or {}).get("phase") != "Released" or not held or not is_kept:
            return False
        found = self._objects.get("PersistentVolumeClaim", str(held.get("name")), str(held.get("namespace")))
        is_other = found.object is not None and held.get("uid") not in (None, found.object["metadata"].get("uid"))
        return found.is_absent or is_other

    def _describe_static(self, claim: Json, wanted: str, beginning: str) -> LiveCause:
        """Return why no existing volume serves a claim for which none is made."""
        spec, name = claim.get("spec") or {}, str(claim["metadata"]["name"])
        class_name = spec.get("storageClassName") or ""
        volumes = self._objects.list_objects("PersistentVolume")
        same = [v for v in volumes.items if (v["spec"].get("storageClassName") or "") == class_name]
        reasons = [_refuse(volume, claim) for volume in same]
        listed = "; ".join(reasons[:_NAMED]) or f"no volume of class {class_name!r} exists"
        remedy = make_remedy(
            f"add a volume of at least {wanted} for claim {name}, or {self._remake(name, 'with what exists')}"
        )
        remedies = self._add_left_over([remedy], same, claim)
        return make_cause(
            "no-fitting-volume", f"{beginning}: {listed}", "spec", of=f"PersistentVolumeClaim/{name}", remedies=remedies
        )

    def _find_provisioning_failure(self, claim: Json) -> tuple[str, str] | None:
        """Return the message of the newest ProvisioningFailed event of a claim and its time, or None if it has none.

        A message that an earlier attempt still runs only counts if there is no other: that attempt's says more.
        """
        events = self._objects.list_events(claim)
        failed = [e for e in events if e.get("reason") in ("ProvisioningFailed", "FailedBinding")]
        if not failed:
            return None
        newest = next(
            (event for event in reversed(failed) if not _REPEATED.search(str(event.get("message")))), failed[-1]
        )
        times = f" ({often})" if (often := format_times(newest)) else ""
        return f"{' '.join(str(newest.get('message') or '').split())}{times}", read_event_time(newest)

    def _describe_capacity(self, name: str, wanted: str, class_name: str, about: str) -> LiveCause | None:
        """Return the cause that no node's storage has room for a claim, or None if one has, or nothing is published."""
        listed = self._objects.list_objects("CSIStorageCapacity")
        capacities = [c for c in listed.items if c.get("storageClassName") == class_name]
        if not capacities or not listed.is_complete:
            return None
        if any(read_quantity(c.get("capacity") or 0) >= read_quantity(wanted) for c in capacities):
            return None
        capacities.sort(key=lambda c: -read_quantity(c.get("capacity") or 0))
        sizes = [format_available_amount("storage", read_quantity(c.get("capacity") or 0)) for c in capacities[:_NAMED]]
        rooms = [f"{_name_topology(c)} {size}" for c, size in zip(capacities, sizes, strict=False)]
        more = f", … {len(capacities) - _NAMED} more" if len(capacities) > _NAMED else ""
        text = (
            f"claim {name} wants {wanted} of class {class_name}, and its driver publishes less free capacity everywhere"
        )
        text += f": {', '.join(rooms)}{more}"
        remedies = [make_remedy(f"free or add storage for class {class_name}, or {self._remake(name, 'with less')}")]
        return make_cause("no-storage-capacity", text, "CSIStorageCapacity", of=about, remedies=remedies)

    def _find_user(self, claim: Json) -> Iterator[LiveCause]:
        """Yield the other pod that uses a claim for one pod at a time."""
        name = claim["metadata"]["name"]
        for other in list_users(self._pod, name, self._objects):
            meta, spec = other["metadata"], other["spec"]
            state = ", which is terminating" if meta.get("deletionTimestamp") else ""
            text = f"claim {name} may be used by one pod at a time (ReadWriteOncePod), and pod {meta['name']} on"
            text += f" {spec['nodeName']} uses it{state}"
            remedies = release_claim(self._pod, other, claim, self._objects)
            look = f"kubectl herodotus pod {meta['name']} -n {self._namespace}" if state else ""
            of = f"PersistentVolumeClaim/{name}"
            yield make_cause("claim-used-by-pod", text, "spec.accessModes", of=of, remedies=remedies, inspect=look)


def _label_nodes(terms: list[Json], nodes: Iterable[Json]) -> Iterator[Remedy]:
    """Yield how to label a node that lacks only the deprecated form of a label that it has, which a volume demands."""
    for node in nodes:
        labels = read_labels(node)
        added = {old: labels[new] for old, new in _DEPRECATED_LABELS.items() if new in labels and old not in labels}
        if not matches_any_term(terms, {"metadata": {**node["metadata"], "labels": labels | added}}):
            continue
        demanded = {each["key"] for each in _expressions(terms)}
        pairs = [f"{key}={value}" for key, value in added.items() if key in demanded]
        name = str(node["metadata"]["name"])
        text = f"label {name} {' and '.join(pairs)}, the deprecated form of a label that it has"
        yield make_remedy(text, f"kubectl label node {name} {' '.join(pairs)}")
        return


def _remake(claim: str) -> Remedy:
    return make_remedy(f"delete the claim {claim} and make it anew: what its volume holds is lost")


def _refuse(volume: Json, claim: Json) -> str:
    """Return why an existing volume does not serve a claim."""
    name, spec = volume["metadata"]["name"], volume["spec"]
    phase = (volume.get("status") or {}).get("phase")
    held = spec.get("claimRef") or {}
    if held and not _is_held_for(volume, claim):
        state = "is Released by" if phase == "Released" else "belongs to"
        return f"volume {name} {state} claim {held.get('namespace')}/{held.get('name')}"
    if misfit := _misfits(volume, claim):
        return misfit
    if held and phase == "Released":
        return f"volume {name} is Released by an earlier claim {held.get('namespace')}/{held.get('name')}"
    return (
        f"volume {name} is {phase}"
        if phase != "Available"
        else f"volume {name} is available, and cannot be reached or selected"
    )


def _is_held_for(volume: Json, claim: Json) -> bool:
    """Return whether a volume is kept for a claim of this name and namespace."""
    held, meta = volume["spec"].get("claimRef") or {}, claim["metadata"]
    return (held.get("namespace"), held.get("name")) == (meta["namespace"], meta["name"])


def _free(volume: Json, claim: Json) -> Remedy:
    """Return the remedy that makes a volume available again, which is kept for a claim that is gone."""
    name, held, wanted = volume["metadata"]["name"], volume["spec"]["claimRef"], claim["metadata"]["name"]
    owner = f"{held.get('namespace')}/{held.get('name')}"
    text = f"remove claimRef of volume {name}, which is then bound to {wanted}: it has the data of the earlier claim"
    text += f" {owner}"
    if not _is_held_for(volume, claim):
        text = f"remove claimRef of volume {name}, only if nobody needs the data of {owner} on it any more: {wanted} is"
        text += " then bound to it, and its pods can read and overwrite that data"
    patch = '[{"op":"remove","path":"/spec/claimRef"}]'
    return make_remedy(text, f"kubectl patch pv {name} --type=json -p '{patch}'")


def _misfits(volume: Json, claim: Json) -> str:
    """Return why a volume that nobody has could not serve a claim; "" if nothing in their specs stands against it."""
    name, spec, wanted = volume["metadata"]["name"], volume["spec"], claim["spec"]
    amount = str((spec.get("capacity") or {}).get("storage"))
    asked = str(((wanted.get("resources") or {}).get("requests") or {}).get("storage") or "0")
    missing = [m for m in wanted.get("accessModes") or () if m not in (spec.get("accessModes") or ())]
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return f"volume {name} has {_name_class(spec)}, the claim {_name_class(wanted)}"
    if read_quantity(amount) < read_quantity(asked):
        return f"volume {name} has {amount}, the claim wants {asked}"
    if missing:
        has = ", ".join(spec.get("accessModes") or ()) or "none"
        return f"volume {name} lacks access mode {', '.join(missing)} (it has {has})"
    selected = (wanted.get("selector") or {}).get("matchLabels") or {}
    labels = volume["metadata"].get("labels") or {}
    lacking = [f"{key}={value}" for key, value in selected.items() if labels.get(key) != value]
    if lacking:
        return f"volume {name} lacks the label {', '.join(lacking)}, which the claim selects"
    modes = [each.get("volumeMode") or "Filesystem" for each in (spec, wanted)]
    if modes[0] != modes[1]:
        return f"volume {name} has volumeMode {modes[0]}, the claim wants {modes[1]}"
    return ""


def _name_class(spec: Json) -> str:
    return f"class {spec['storageClassName']}" if spec.get("storageClassName") else "no class"


def _expressions(terms: Iterable[Json]) -> Iterator[Json]:
    for term in terms:
        yield from term.get("matchExpressions") or ()


def _name_topology(capacity: Json) -> str:
    labels = (capacity.get("nodeTopology") or {}).get("matchLabels") or {}
    return ",".join(str(value) for value in labels.values()) or "everywhere"
