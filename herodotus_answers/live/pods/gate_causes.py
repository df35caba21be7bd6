"""Find who removes the scheduling gates of a pod, and what Kueue says of the pods that it holds at its gate.

Owns: these causes and their remedies. Does not own: other states of pods (`pod_state`), which words of Kueue count
(`kueue_words`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.kueue_words import find_words
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.pod_facts import (
    find_owner,
    kubectl,
    make_cause,
    make_event_cause,
    make_remedy,
    make_state,
    quote_patch,
)
from herodotus_record.units import begin_sentence

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, LiveState, Remedy

Json = dict[str, Any]
_KUEUE: Final = "kueue.x-k8s.io/"
# By the domain of a scheduling gate: who removes it.
_GATE_OWNERS: Final = {
    "kueue.x-k8s.io": "Kueue, when it admits the pod's Workload",
    "scheduling.volcano.sh": "Volcano, when it admits the pod's PodGroup",
    "volcano.sh": "Volcano, when it admits the pod's PodGroup",
    "multiarch.openshift.io": "the Multiarch Tuning Operator",
    "grove.io": "Grove, when the pod gang exists",
    "karpenter.sh": "Karpenter",
}


def find_gated_state(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod with scheduling gates."""
    gates = [str(gate["name"]) for gate in pod["spec"]["schedulingGates"]]
    causes = [_explain_gate(pod, name, position, objects) for position, name in enumerate(gates)]
    events = objects.list_events({**pod, "kind": "Pod"})
    warnings = [event for event in events if event.get("type") == "Warning"]
    causes += [make_event_cause("gate-event", "", event, now) for event in warnings[-1:]]
    said = list(_find_kueue_words(pod, gates, events, objects, now))
    causes += said
    owners = list(dict.fromkeys(_find_gate_owner(name) for name in gates))
    named = "gate" if len(gates) == 1 else "gates"
    headline = (
        f"Waits for its scheduling {named} {', '.join(gates)}: no scheduler tries the pod before"
        f" {'it is' if len(gates) == 1 else 'they are'} removed"
    )
    headline += f". {begin_sentence(said[0]['text'])}" if said else ""
    actor = ", ".join(owner.partition(",")[0] for owner in owners if owner) or "whoever set the gate"
    return make_state("pod-gated", headline, actor, causes, objects.unread)


def _find_kueue_words(
    pod: Json, gates: list[str], events: list[Json], objects: ClusterObjects, now: datetime
) -> Iterator[LiveCause]:
    """Yield why Kueue does not admit a pod that has its gate, and why it stopped it before."""
    if not any(gate.startswith(_KUEUE) for gate in gates):
        return
    stop, refusal = find_words({**pod, "kind": "Pod"}, events, objects)
    if refusal is not None:
        advice = find_remedy("kueue", str(refusal.get("message")), owner=f"Pod/{pod['metadata']['name']}")
        remedies = [make_remedy(advice)] if advice else []
        yield make_event_cause("gate-event", "Kueue does not admit it: ", refusal, now, remedies=remedies)
    if stop is not None and stop.get("reason"):
        yield make_event_cause("gate-event", "Kueue stopped it before: ", stop, now)


def _find_gate_owner(gate: str) -> str:
    """Return who removes a scheduling gate: a known owner, which a comma and "when …" may follow, or its controller.

    The gate's domain names the controller. A gate whose name has no domain gives "".
    """
    domain = gate.partition("/")[0] if "/" in gate else ""
    known = next((who for of, who in _GATE_OWNERS.items() if domain == of or domain.endswith(f".{of}")), "")
    return known or (f"the controller of {domain}" if domain else "")


def _explain_gate(pod: Json, gate: str, position: int, objects: ClusterObjects) -> LiveCause:
    owner = _find_gate_owner(gate)
    managers = [
        str(entry.get("manager"))
        for entry in pod["metadata"].get("managedFields") or ()
        if "f:schedulingGates" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    text = f"gate {gate}: {owner} removes it" if owner and "," not in owner else f"gate {gate}"
    if owner and "," in owner:
        who, _, when = owner.partition(", ")
        text = f"gate {gate}: {who} removes it, {when}"
    elif not owner:
        text = f"gate {gate}: its name has no domain, so which controller removes it is not known"
    text += f" (set by {managers[-1]})" if managers else ""
    labels = pod["metadata"].get("labels") or {}
    queue = labels.get("kueue.x-k8s.io/queue-name")
    others = [str(each["name"]) for each in pod["spec"]["schedulingGates"]]
    if queue and gate.startswith(_KUEUE):
        text += f" (LocalQueue {queue})"
    elif queue and not any(name.startswith(_KUEUE) for name in others):
        text += f"; Kueue (LocalQueue {queue}) does not hold the pod: it has none of Kueue's gates"
    path = f"/spec/schedulingGates/{position}"
    patch = [{"op": "test", "path": f"{path}/name", "value": gate}, {"op": "remove", "path": path}]
    command = kubectl(pod, f"patch pod {pod['metadata']['name']}", "--type=json", "-p", quote_patch(patch))
    remedies: list[Remedy] = []
    if not owner:
        made = find_owner(pod, objects)
        again = f"; new pods of {made.label} may get it again" if made else ""
        remedies = [make_remedy(f"remove the gate, if no controller is to remove it{again}", command)]
    return make_cause("scheduling-gate", text, "spec.schedulingGates", remedies=remedies)
