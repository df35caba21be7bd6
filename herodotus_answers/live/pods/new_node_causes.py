"""Find why the node that an autoscaler makes for a pod is not there: launches that failed, machines that do not join.

Owns: these causes and their remedies. Does not own: verdicts of node groups (`node_groups`), what messages ask for
(`messages`), reading (`cluster_objects`). Pure.

Invariant: a cause follows from what an autoscaler or a controller of machines wrote. Of the events about a pod, only
the last nomination and the last scale-up count: what was tried before is over.

Sources: Karpenter v1 (pkg/controllers/nodeclaim/lifecycle), cluster-autoscaler 1.30 to 1.34, Cluster API, OpenShift.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.pod_facts import (
    clean,
    format_ago,
    format_since,
    make_cause,
    make_remedy,
    name_event,
    parse_time,
    read_conditions,
    read_reporter,
)
from herodotus_answers.node_groups import is_of_autoscaler
from herodotus_answers.quantities import read_quantity

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]
# A machine that has not joined after this time will hardly do so: Karpenter and cluster-autoscaler give up after 15m.
_USUAL: Final = timedelta(minutes=5)
_NOMINATED: Final = re.compile(r"\bnodeclaim/(?P<claim>[\w.-]*\w)|\bnode/(?P<node>[\w.-]*\w)")
_GROUP: Final = re.compile(r"\{(\S+) (\d+)->(\d+)")  # of a TriggeredScaleUp: the group, and its size before and after
# What cluster-autoscaler and Karpenter say of groups that may not grow.
_LIMIT: Final = re.compile(
    r"max (?:node group size|limit|cluster \S+(?: \S+)? limit)(?: is)? reached"
    r'|exceed limits for nodepool:? "?(?P<pool>[\w.-]+)'
)
_POOL_LABEL: Final = "karpenter.sh/nodepool"
_MACHINES: Final = ("MachineSet", "MachineDeployment", "MachinePool")
# Conditions of a Machine of Cluster API, in the order in which it gets a node.
_OF_MACHINES: Final = ("InfrastructureReady", "BootstrapReady", "Ready", "NodeHealthy")
_STATUS: Final = "cluster-autoscaler-status"  # the ConfigMap that cluster-autoscaler's events about groups are about
_STEPS: Final = {  # of a NodeClaim, in their order, with what is so as long as one is not True
    "Launched": "is not launched",
    "Registered": "is launched, and its node has not joined the cluster",
    "Initialized": "has a node that is not initialized",
}


def has_autoscaler(objects: ClusterObjects) -> bool:
    """Return whether cluster-autoscaler keeps its status in the cluster, or Karpenter has a NodePool."""
    has_status = objects.get("ConfigMap", _STATUS, "kube-system").object is not None
    return has_status or bool(objects.list_objects("NodePool", is_optional=True).items)


def find_new_node_causes(pod: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield why the node that an autoscaler makes for a pod is not there, or does not have what the pod requests."""
    events = [
        event
        for event in objects.list_events({**pod, "kind": "Pod"})
        if is_of_autoscaler(str(event.get("reason")), read_reporter(event))
    ]
    newest = {str(event["reason"]): event for event in events}
    nominated, failed = newest.get("Nominated"), newest.get("FailedScaleUp")
    scaled = newest.get("TriggeredScaleUp")
    if nominated is not None and not _is_before(nominated, newest.get("FailedScheduling")):
        yield from _explain_nomination(pod, nominated, objects, now)
    if failed is not None and not _is_before(failed, scaled):
        yield _make_failure(f"{read_reporter(failed)} could not add a node for it", failed, now, "the node group")
    elif scaled is not None and not _is_before(scaled, newest.get("NotTriggerScaleUp")):
        yield from _explain_scale_up(scaled, objects, now)
    else:
        yield from _find_limits(events, now)
    yield from _find_pool(pod, objects, now)


def _find_limits(events: list[Json], now: datetime) -> Iterator[LiveCause]:
    """Yield the cause that groups are at a limit, if the last event of an autoscaler that refuses a node says so."""
    refusals = [event for event in events if event["reason"] in ("NotTriggerScaleUp", "FailedScheduling")]
    message, at = (clean(refusals[-1].get("message")), read_event_time(refusals[-1])) if refusals else ("", "")
    if not (match := _LIMIT.search(message)):
        return
    who = read_reporter(refusals[-1])
    text = f"{who} adds no node for it, last{format_ago(at, now)}: {message}"
    what = "raise the maximum size of a node group that the pod fits: groups at their maximum are left out"
    if match["pool"]:
        what = f"raise spec.limits of NodePool {match['pool']}, if it may grow"
    elif "cluster" in match[0]:
        what = "raise the limit of the whole cluster in cluster-autoscaler's configuration, such as --cores-total"
    remedies = [make_remedy(f"{what} (whoever runs the cluster)")]
    yield make_cause("new-node-refused", text, name_event(refusals[-1]), at=at, remedies=remedies)


def _find_pool(pod: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield the cause that the NodePool whose nodes the pod selects is not ready, so that Karpenter leaves it out."""
    name = (pod["spec"].get("nodeSelector") or {}).get(_POOL_LABEL)
    pools = objects.list_objects("NodePool", fields=f"metadata.name={name}", is_optional=True).items if name else []
    for pool in pools:
        conditions = read_conditions(pool)
        ready = conditions.get("Ready") or {}
        if pool["metadata"]["name"] != name or ready.get("status") != "False":
            continue
        stuck = next(
            (each for each in conditions.values() if each.get("status") == "False" and each is not ready), ready
        )
        why = ": ".join(filter(None, (str(stuck.get("type")), clean(stuck.get("message")))))
        at = ready.get("lastTransitionTime")
        text = f"NodePool {name}, whose nodes the pod selects, is not ready{format_since(at, now)} ({why}): Karpenter"
        text += " makes no node of it"
        reference = (((pool.get("spec") or {}).get("template") or {}).get("spec") or {}).get("nodeClassRef") or {}
        node_class = " ".join(filter(None, (reference.get("kind"), reference.get("name")))) or "its NodeClass"
        remedies = [
            make_remedy(f"make NodePool {name} ready: see the conditions of {node_class} (whoever runs the cluster)")
        ]
        of, source = f"NodePool/{name}", "NodePool status.conditions[Ready]"
        yield make_cause("new-node-refused", text, source, of=of, at=at, remedies=remedies)


def _make_failure(what: str, event: Json, now: datetime, machine: str, of: str | None = None) -> LiveCause:
    """Return the cause that an event reports: `what` failed, with the remedy for its message about `machine`."""
    message, at = clean(event.get("message")), read_event_time(event)
    remedies = [make_remedy(find_remedy("new-node", f"{event['reason']} {message}", machine=machine))]
    text = f"{what}{format_ago(at, now)}: {message}"
    return make_cause("new-node-failed", text, name_event(event), of=of, at=at, remedies=remedies)


def _is_before(event: Json, other: Json | None) -> bool:
    return other is not None and read_event_time(event) < read_event_time(other)


# --- Karpenter ------------------------------------------------------------------------------------------------------


def _explain_nomination(pod: Json, event: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield what keeps a pod from the NodeClaim or node for which Karpenter nominated it."""
    names: dict[str, str] = {}
    for match in _NOMINATED.finditer(str(event.get("message"))):
        names |= {kind: name for kind, name in match.groupdict().items() if name}
    name, node_name = names.get("claim") or "", names.get("node") or ""
    claim, is_known = _read_node_claim(name, objects)
    if claim is not None:
        cause = _explain_node_claim(claim, now)
        yield from [cause] if cause else []
        node_name = str((claim.get("status") or {}).get("nodeName") or node_name)
        if cause is not None:
            return
    node = objects.get("Node", node_name).object if node_name else None
    if node is not None:
        yield from _find_lacking(pod, node)
        return
    at = read_event_time(event)
    failed = _find_warning(objects, "NodeClaim", name, at) if name and claim is None else None
    if failed is not None:
        what = f"NodeClaim {name}, which Karpenter made for it, got no machine"
        yield _make_failure(what, failed, now, f"NodeClaim {name}", of=f"NodeClaim/{name}")
    elif name and not is_known:
        yield _describe_awaited(f"the node of NodeClaim {name}, which Karpenter makes for it", event, now)


def _read_node_claim(name: str, objects: ClusterObjects) -> tuple[Json | None, bool]:
    """Return a NodeClaim, None if it is not there; and whether NodeClaims could be read."""
    if not name:
        return None, True
    listed = objects.list_objects("NodeClaim", fields=f"metadata.name={name}", is_optional=True)
    is_known = not listed.missing and (bool(listed.items) or objects.is_served("NodeClaim"))
    return next((each for each in listed.items if each["metadata"]["name"] == name), None), is_known


def _explain_node_claim(claim: Json, now: datetime) -> LiveCause | None:
    """Return the cause that a NodeClaim has not got a node that is ready, with the step that it waits for."""
    name, status, conditions = str(claim["metadata"]["name"]), claim.get("status") or {}, read_conditions(claim)
    step = next((each for each in _STEPS if (conditions.get(each) or {}).get("status") != "True"), "")
    if not step:
        return None
    condition = conditions.get(step) or {}
    at = condition.get("lastTransitionTime") or claim["metadata"].get("creationTimestamp")
    message = clean(condition.get("message"))
    text = f"NodeClaim {name}, which Karpenter made for it, {_STEPS[step]}{format_since(at, now)}"
    text += f": {message}" if message else ""
    provider = status.get("providerID")
    machine = str(status.get("nodeName") or (f"machine {provider}" if provider else f"the machine of NodeClaim {name}"))
    asked = f"{condition.get('reason')} {message}"
    is_early = now - (parse_time(at) or now) < _USUAL and not (step == "Launched" and message)
    remedy = "wait: machines often take some minutes" if is_early else find_remedy("new-node", asked, machine=machine)
    source, of = f"NodeClaim status.conditions[{step}]", f"NodeClaim/{name}"
    return make_cause("new-node-not-ready", text, source, of=of, at=at, remedies=[make_remedy(remedy)])


def _find_lacking(pod: Json, node: Json) -> Iterator[LiveCause]:
    """Yield each device resource that a pod requests, and that the node which was made for it does not offer."""
    name, offered = str(node["metadata"]["name"]), (node.get("status") or {}).get("allocatable") or {}
    requests = {
        resource
        for container in pod["spec"].get("containers") or ()
        for resource in ((container.get("resources") or {}).get("requests") or {})
        if "/" in resource and not read_quantity(offered.get(resource, 0))
    }
    for resource in sorted(requests):
        text = (
            f"node {name}, which Karpenter made for it, offers no {resource}: no device plugin has registered it there"
        )
        remedy = make_remedy(f"make the device plugin of {resource} run on {name}, and see the log of its pod there")
        yield make_cause(
            "new-node-not-ready", text, "Event Nominated, status.allocatable", of=f"Node/{name}", remedies=[remedy]
        )


# --- cluster-autoscaler ---------------------------------------------------------------------------------------------


def _explain_scale_up(event: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield what became of the nodes for which cluster-autoscaler enlarged a group, unless a node has come since."""
    groups, at = _GROUP.findall(str(event.get("message"))), read_event_time(event)
    for group, _, _ in groups:
        kind, name = group.partition("/")[0], group.rpartition("/")[2]
        failed = _find_warning(objects, "Machine", f"{name}-", at) if kind in _MACHINES else None
        failed = failed or _find_warning(objects, "ConfigMap", _STATUS, at, about=name)
        if failed is None:
            if kind in _MACHINES and (stuck := _explain_machine(name, at, objects, now)) is not None:
                yield stuck
                return
            continue
        involved = failed["involvedObject"]
        of = f"Machine/{involved['name']}" if involved["kind"] == "Machine" else None
        machine = f"Machine {involved['name']}" if of else f"a node of group {name}"
        what = f"{machine}, which the autoscaler asked for, could not be made"
        yield _make_failure(what, failed, now, machine, of=of)
        return
    nodes = objects.list_objects("Node")
    has_come = any(_read_start(node) >= at for node in nodes.items)
    if groups and not has_come and not nodes.missing:
        listed = ", ".join(f"{group.rpartition('/')[2]} {before}->{after}" for group, before, after in groups)
        yield _describe_awaited(f"a new node of {listed}", event, now)


def _explain_machine(group: str, since: str, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return what the newest Machine of a group, made since a time, reports while it has no node; None if nothing.

    Its events may be older than the API server keeps them, or of a namespace whose events cannot be read.
    """
    made = [
        machine
        for machine in objects.list_objects("Machine", is_optional=True).items
        if str(machine["metadata"]["name"]).startswith(f"{group}-")
        and str(machine["metadata"].get("creationTimestamp") or "") >= since
        and not (machine.get("status") or {}).get("nodeRef")
    ]
    newest = max(made, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    conditions = read_conditions(newest) if newest is not None else {}
    waits = (each for kind in _OF_MACHINES if (each := conditions.get(kind)) and each.get("status") != "True")
    condition = next((each for each in waits if each.get("reason") or each.get("message")), None)
    if newest is None or condition is None:
        return None
    name, reason, message = newest["metadata"]["name"], condition.get("reason"), clean(condition.get("message"))
    said, at = ": ".join(filter(None, (reason, message))), condition.get("lastTransitionTime")
    text = f"Machine {name}, which the autoscaler asked for, has no node{format_since(at, now)}: {said}"
    is_early = now - (parse_time(at) or now) < _USUAL and condition.get("severity") not in ("Error", "Warning")
    remedy = "wait: machines often take some minutes" if is_early else ""
    remedies = [make_remedy(remedy or find_remedy("new-node", said, machine=f"Machine {name}"))]
    source = f"Machine status.conditions[{condition['type']}]"
    return make_cause("new-node-not-ready", text, source, of=f"Machine/{name}", at=at, remedies=remedies)


def _read_start(node: Json) -> str:
    """Return since when a node has existed at least: a restored or imported one is older than its object."""
    ready = (read_conditions(node).get("Ready") or {}).get("lastTransitionTime")
    return min(filter(None, (node["metadata"].get("creationTimestamp"), ready)), default="")


def _describe_awaited(what: str, event: Json, now: datetime) -> LiveCause:
    """Return the cause that a node which an autoscaler asked for has not come: to wait for, or overdue."""
    at = read_event_time(event)
    is_overdue = now - (parse_time(at) or now) >= _USUAL
    text = f"{what}, has not joined" if "," in what else f"{what} has not joined"
    text += f" (asked for{format_ago(at, now)})"
    remedy = "see why the machine does not join: what the autoscaler and the cloud say about it, its boot log, its role"
    remedy += " and its way to the API server"
    remedies = [make_remedy(remedy if is_overdue else "wait: machines often take some minutes")]
    return make_cause("new-node-awaited", text, name_event(event), at=at, remedies=remedies)


def _find_warning(objects: ClusterObjects, kind: str, name: str, since: str, about: str = "") -> Json | None:
    """Return the last warning since a time about an object whose name begins with `name`, or None.

    Its message has to name `about`. Events of namespaces that cannot be read do not count.
    """
    is_whole = kind != "Machine"
    fields = f"involvedObject.kind={kind}" + (f",involvedObject.name={name}" if is_whole else "")
    listed = objects.list_objects("Event", fields=fields, is_optional=True).items
    events = [
        event
        for event in listed
        if event.get("type") == "Warning"
        and (event.get("involvedObject") or {}).get("kind") == kind
        and str((event.get("involvedObject") or {}).get("name")).startswith(name)
        and read_event_time(event) >= since
        and about in str(event.get("message"))
    ]
    return max(events, key=read_event_time, default=None)
