"""Find what is wrong with the node of a pod: it is gone, not ready, shut down, faulty or closed, and what repairs it.

Owns: these causes, and when the pod is evicted from such a node. Does not own: rules of nodes (`node_rules`), nodes
that have no pods yet (`new_node_causes`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.node_rules import describe_fault, describe_taint, list_faults, tolerates
from herodotus_answers.live.objects import is_of_daemon_set
from herodotus_answers.live.pod_facts import (
    clean,
    find_owner,
    format_seconds,
    format_since,
    kubectl,
    make_cause,
    make_remedy,
    parse_time,
    read_conditions,
)

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_SHUT_DOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
_CORDON: Final = "node.kubernetes.io/unschedulable"
_UNREACHABLE: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")


def find_node_problem(pod: Json, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause if the pod's node does not exist or is not ready; None if it is ready or cannot be read."""
    name = pod["spec"]["nodeName"]
    lookup = objects.get("Node", name)
    if lookup.is_absent:
        text = f"node {name} does not exist: it was removed, or spec.nodeName is wrong"
        return make_cause("node-not-found", text, "Node NotFound", of=f"Node/{name}")
    if lookup.object is None:
        return None
    ready = read_conditions(lookup.object).get("Ready")
    if ready is None or ready.get("status") == "True":
        return None
    since = ready.get("lastTransitionTime")
    message = clean(ready.get("message") or ready.get("reason"))
    state = "unreachable" if ready.get("status") == "Unknown" else "not ready"
    text = f"node {name} is {state} (Ready={ready.get('status')}){format_since(since, now)}"
    text += f": {message}" if message else ""
    if _is_shut_down(lookup.object):
        text += f"; its cloud provider reports that it is shut down (taint {_SHUT_DOWN})"
    return make_cause("node-not-ready", text, "Node status.conditions[Ready]", of=f"Node/{name}", at=since)


def is_reporting(node: str, objects: ClusterObjects) -> bool:
    """Return whether the kubelet of a node reports, so that it runs, whether the node is ready or not."""
    found = objects.get("Node", node).object
    if found is None or _is_shut_down(found):
        return False
    return (read_conditions(found).get("Ready") or {}).get("status") in ("True", "False")


def repair_node(node: str, objects: ClusterObjects) -> list[Remedy]:
    """Return what makes a node ready: what its kubelet reports, or that the kubelet reports again."""
    if not is_reporting(node, objects):
        return [make_remedy(f"start the kubelet of {node} again, or repair the node")]
    ready = read_conditions(objects.get("Node", node).object or {}).get("Ready") or {}
    message = clean(ready.get("message") or ready.get("reason"))
    return [make_remedy(find_remedy("node", message, node=node, owner="the pod"))]


def _is_shut_down(node: Json) -> bool:
    """Return whether the cloud provider of a node says that it does not run, so that nothing on it does."""
    return any(taint.get("key") == _SHUT_DOWN for taint in (node.get("spec") or {}).get("taints") or ())


def release_node(node: str, objects: ClusterObjects) -> list[Remedy]:
    """Return how the pods and volumes of a node that is shut down are released; [] if it may run."""
    if not _is_shut_down(objects.get("Node", node).object or {}):
        return []
    text = f"release the pods and volumes of {node}, which is shut down, and remove the taint once it runs again"
    return [make_remedy(text, f"kubectl taint nodes {node} {_OUT_OF_SERVICE}")]


def find_node_faults(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each fault that an agent on the pod's node reports, though its kubelet is ready."""
    name = pod["spec"]["nodeName"]
    for condition in list_faults(objects.get("Node", name).object or {}):
        source, at = f"Node status.conditions[{condition['type']}]", condition.get("lastTransitionTime")
        remedy = make_remedy(f"repair or replace {name}, and keep new pods off it until then", f"kubectl cordon {name}")
        text = f"node {name} reports {describe_fault(condition)}"
        yield make_cause("node-fault", text, source, of=f"Node/{name}", at=at, remedies=[remedy])


def explain_closed_node(pod: Json, node: str, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause that the node for which a pod is nominated takes no pods now; None if it may take it.

    A pod that ends there makes no room that the pod could use.
    """
    problem = find_node_problem({"spec": {"nodeName": node}}, objects, now)
    found = objects.get("Node", node).object
    if found is None:
        return None
    tolerations, spec = pod["spec"].get("tolerations") or (), found.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if each.get("effect") in ("NoSchedule", "NoExecute")]
    closing = [describe_taint(each) for each in taints if each["key"] != _CORDON and not tolerates(tolerations, each)]
    is_cordoned = spec.get("unschedulable") and not tolerates(tolerations, {"key": _CORDON, "effect": "NoSchedule"})
    if problem is not None:
        why, remedies = problem["text"], repair_node(node, objects)
    elif is_cordoned:
        why, remedies = f"{node} is cordoned", [make_remedy(f"uncordon {node}", f"kubectl uncordon {node}")]
    elif closing:
        why = f"{node} has the taint {closing[0]}, which the pod does not tolerate"
        remedies = [make_remedy(f"remove the taint from {node} when it may take pods again, or wait for another node")]
    else:
        return None
    text = f"it is nominated for {node}, but {why}: pods that end there make no room for it"
    return make_cause(
        "nominated-node-closed", text, "Node spec, status.nominatedNodeName", of=f"Node/{node}", remedies=remedies
    )


def describe_eviction_from(pod: Json, objects: ClusterObjects, now: datetime) -> str:
    """Return when the pod is evicted from its node that is not ready, in a sentence without a full stop."""
    node = objects.get("Node", pod["spec"]["nodeName"]).object or {}
    taints = [
        t
        for t in (node.get("spec") or {}).get("taints") or ()
        if t.get("key") in _UNREACHABLE and t.get("effect") == "NoExecute"
    ]
    if not taints:
        return "its node has no NoExecute taint, so the pod is not evicted as long as that is so"
    taint = taints[0]
    tolerating = [t for t in pod["spec"].get("tolerations") or () if tolerates([t], taint)]
    if not tolerating:
        return f"it does not tolerate {taint['key']}:NoExecute and is evicted at once"
    limits = [t["tolerationSeconds"] for t in tolerating if t.get("tolerationSeconds") is not None]
    if not limits:
        return f"it tolerates {taint['key']}:NoExecute without a limit and is never evicted for it"
    added, limit = parse_time(taint.get("timeAdded")), max(0, min(limits))
    if added is None:
        return f"it will be evicted {limit}s after its node got the taint {taint['key']}:NoExecute"
    left = (added + timedelta(seconds=limit) - now).total_seconds()
    when = f"in {format_seconds(left)}" if left > 0 else f"since {format_seconds(-left)}"
    word = "will be evicted" if left > 0 else "should have been evicted"
    return f"it {word} {when} (tolerates {taint['key']}:NoExecute for {limit}s)"


def list_node_repairs(pod: Json, objects: ClusterObjects, cause: LiveCause) -> list[Remedy]:
    """Return what to do about a pod whose node is gone or does not respond."""
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    owner = find_owner(pod, objects)
    follows = f"; {owner.label} then makes a new one" if owner else "; nothing makes a new one"
    command = kubectl(pod, f"delete pod {name}", "--force", "--grace-period=0")
    if cause["code"] == "node-not-found":
        return [make_remedy(f"delete the pod{follows}", command)]
    if owner is not None and is_of_daemon_set(owner.label):  # the new one is for the same node
        return [*repair_node(node, objects), *release_node(node, objects)]
    if is_reporting(node, objects):
        delete = make_remedy(f"delete the pod{follows}", kubectl(pod, f"delete pod {name}"))
        return [*repair_node(node, objects), delete]
    return [
        *repair_node(node, objects),
        *release_node(node, objects),
        make_remedy(f"only if {node} is off for good: delete the pod by force{follows}", command),
    ]
