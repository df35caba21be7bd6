"""Find why a volume that one node at a time may use cannot be attached: who uses its claim elsewhere.

Owns: this cause and its remedies. Does not own: other volume errors (`kubelet_causes`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_answers.live.objects import has_ended, is_static
from herodotus_answers.live.pod_facts import find_owner, kubectl, list_claims, make_cause, make_remedy

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy
    from herodotus_answers.live.pod_facts import Owner

Json = dict[str, Any]
_RECREATE = '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'


def list_users(pod: Json, claim: str, objects: ClusterObjects) -> list[Json]:
    """Return the other pods that have a node, have not ended, and use a claim of the pod."""
    users = []
    for other in objects.list_objects("Pod", pod["metadata"]["namespace"]).items:
        used = {(v.get("persistentVolumeClaim") or {}).get("claimName") for v in other["spec"].get("volumes") or ()}
        is_other = other["metadata"]["name"] != pod["metadata"]["name"]
        if claim in used and is_other and other["spec"].get("nodeName") and not has_ended(other):
            users.append(other)
    return users


def explain_attachment(pod: Json, volume: str, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause for a Multi-Attach error, or None if nothing shows where the volume is attached."""
    node, namespace = pod["spec"]["nodeName"], pod["metadata"]["namespace"]
    claim = find_claim(pod, volume, objects)
    if claim is None:
        return None
    name = str(claim["metadata"]["name"])
    users = [each for each in list_users(pod, name, objects) if each["spec"]["nodeName"] != node]
    modes = ", ".join(claim["spec"].get("accessModes") or ())
    text = f"claim {name} ({modes}, volume {volume}) may be attached to one node at a time"
    source, of = "Pods, VolumeAttachments", f"PersistentVolumeClaim/{name}"
    if users:
        user = users[0]
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        is_terminating = bool(user["metadata"].get("deletionTimestamp"))
        kept = _explain_user(user, objects, now)
        text += f", and pod {user['metadata']['name']}{more} on {user['spec']['nodeName']} uses it"
        text += ", which is terminating" if is_terminating else ""
        text += f": {kept['text']}" if kept else ""
        remedies = kept["remedies"] if kept else release_claim(pod, user, claim, objects)
        look = f"kubectl herodotus pod {user['metadata']['name']} -n {namespace}" if is_terminating or kept else ""
        return make_cause("volume-attached-elsewhere", text, source, of=of, remedies=remedies, inspect=look)
    for attachment in objects.list_objects("VolumeAttachment").items:
        spec = attachment["spec"]
        if (spec.get("source") or {}).get("persistentVolumeName") == volume and spec.get("nodeName") != node:
            attached, name = spec["nodeName"], attachment["metadata"]["name"]
            text += f", and VolumeAttachment {name} still has it on {attached}"
            if objects.get("Node", attached).is_absent:
                text += ", a node that no longer exists"
                remedy = make_remedy(
                    f"see why driver {spec.get('attacher')} does not detach it; once the machine of {attached} is off,"
                    f" remove the finalizers of VolumeAttachment {name}"
                )
            else:
                text += "; no pod of the namespace uses it there"
                remedy = make_remedy(
                    f"see whether {attached} runs and its driver detaches: kube-controller-manager detaches a volume"
                    " from a lost node after 6 minutes, or at once with the taint node.kubernetes.io/out-of-service"
                )
            look = f"kubectl describe volumeattachment {name}"
            return make_cause("volume-attached-elsewhere", text, source, of=of, remedies=[remedy], inspect=look)
    return None


def find_claim(pod: Json, volume: str, objects: ClusterObjects) -> Json | None:
    """Return the claim of the pod that is bound to a volume, or None."""
    for each in list_claims(pod):
        claim = objects.get("PersistentVolumeClaim", each.name, pod["metadata"]["namespace"]).object
        if claim is not None and claim["spec"].get("volumeName") == volume:
            return claim
    return None


def _explain_user(user: Json, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return what keeps a terminating pod from its end, or that the node of a pod is lost; None if nothing is known."""
    from herodotus_answers.live.pods.node_causes import find_node_problem, list_node_repairs
    from herodotus_answers.live.pods.termination_causes import find_termination_causes

    if user["metadata"].get("deletionTimestamp"):
        causes = find_termination_causes(user, objects, now)
        return next((cause for cause in causes if cause["remedies"]), None)
    problem = find_node_problem(user, objects, now)
    if problem is not None:
        problem["remedies"] = list_node_repairs(user, objects, problem)
    return problem


def release_claim(pod: Json, user: Json, claim: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return how a pod gets a claim that another pod uses, and that one pod or one node at a time may use."""
    name, waiting = user["metadata"]["name"], pod["metadata"]["name"]
    if user["metadata"].get("deletionTimestamp"):
        return [make_remedy(f"wait until {name} has ended, or find out what keeps it")]
    owner, other = find_owner(pod, objects), find_owner(user, objects)
    is_of_one_pod = "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ())
    together = "" if is_of_one_pod else f"run the pods that share {claim['metadata']['name']} on one node, or "
    share = make_remedy(f"{together}give each its own claim, or use a volume with ReadWriteMany")
    if other is None:
        command = None if is_static(user) else kubectl(user, f"delete pod {name}")
        what = f"end {name}, which no controller makes anew, if {waiting} is to have the claim"
        return [make_remedy(what, command), share]
    if owner != other:
        what = f"end {name} and keep {other.label} from making it anew, if {waiting} is to have the claim"
        return [make_remedy(what, _scale_to_zero(user, other, objects)), share]
    if owner.kind != "Deployment":
        return [share]
    command = kubectl(pod, f"patch deployment {owner.name}", "-p", f"'{_RECREATE}'")
    what = f"end the old pod before the new one starts: strategy Recreate in {owner.label}, for one replica"
    return [make_remedy(what, command), share]


def _scale_to_zero(user: Json, owner: Owner, objects: ClusterObjects) -> str | None:
    """Return the command that ends the only pod of a workload; None if it has more, or keeps no number of pods."""
    found = objects.get(owner.kind, owner.name, user["metadata"]["namespace"]).object
    if owner.kind not in ("Deployment", "StatefulSet", "ReplicaSet") or found is None:
        return None
    only = (found.get("spec") or {}).get("replicas", 1) == 1
    return kubectl(user, f"scale {owner.kind.lower()} {owner.name}", "--replicas=0") if only else None
