"""What a reader may not see is taken out here, before anything is written down from it.

Owns: which namespaces a value of the store tells of, and the value without what is hidden. Does not own: who may see
what (`access`), documents. Pure.

A decision belongs to its pod's namespace, and whoever may read it sees it whole, but for the pods of other namespaces
that it names: victims of a preemption, pods that are in the way. A node's history tells of pods and workloads of every
namespace. What a plugin of one's own writes into a message is not understood, and is shown: it is the text of the pod's
own events; only names that stand elsewhere in the record are found in it.

Invariant: `masked(value, sight)` names no pod, workload or namespace that `sight` does not see, and equals `value`
where all of it is seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from herodotus_endpoint.store import Involved, NodeFacts, Stored
from herodotus_record.model import Decision, FilterColumn, PluginVerdict, Preemption, Reason, Verdict
from herodotus_record.placements import Tally
from herodotus_record.reviews import Reviewed

HIDDEN: Final = "(hidden)"  # no Kubernetes name can be this
POD: Final = "pod"  # the parameter of a reason that names another pod, NAMESPACE/NAME

Value = TypeVar("Value", Stored, Involved, NodeFacts, Reviewed)


@dataclass(frozen=True)
class Sight:
    """The namespaces whose decisions a reader may get."""

    namespaces: frozenset[str] = frozenset()
    everything: bool = False

    def sees(self, namespace: str) -> bool:
        """Whether what is in a namespace may be shown."""
        return self.everything or namespace in self.namespaces


def namespaces_in(value: Stored | Involved | NodeFacts | Reviewed) -> frozenset[str]:
    """Every namespace that the value tells of."""
    if isinstance(value, NodeFacts):
        return frozenset(name.partition("/")[0] for name in {*value.workloads, *value.decided} if "/" in name)
    names = _named(value)
    return frozenset(name.partition("/")[0] for name in names) | {value.decision.pod.namespace}


def masked(value: Value, sight: Sight) -> Value:
    """The value as a reader may see it."""
    if all(sight.sees(namespace) for namespace in namespaces_in(value)):
        return value
    return replace(value, **_changed(value, sight))


def _changed(value: Stored | Involved | NodeFacts | Reviewed, sight: Sight) -> dict[str, Any]:
    """The fields that hide something."""
    if isinstance(value, NodeFacts):
        return {"workloads": _workloads(value.workloads, sight), "decided": _decided(value.decided, sight)}
    hidden = {name for name in _named(value) if not sight.sees(name.partition("/")[0])}
    outcomes = tuple(replace(o, message=_text(o.message, hidden)) for o in value.outcomes)
    shown: dict[str, Any] = {"decision": _decision(value.decision, hidden, sight), "outcomes": outcomes}
    if isinstance(value, Stored) and value.origins is not None:
        shown["origins"] = replace(value.origins, seen=_decision(value.origins.seen, hidden, sight))
    return shown


def _named(value: Stored | Involved | Reviewed) -> set[str]:
    """As `_pods`, of each decision that it holds."""
    origins = value.origins if isinstance(value, Stored) else None
    return _pods(value.decision) | (_pods(origins.seen) if origins else set())


def _pods(decision: Decision) -> set[str]:
    """Every other pod that is named, as NAMESPACE/NAME."""
    verdicts = [v for f in decision.filters for v in f.verdicts]
    verdicts += [p.verdict for p in (*decision.pre_filters, *decision.post_filters)]
    named = {reason.params.get(POD, "") for verdict in verdicts for reason in verdict.reasons}
    named |= {victim for c in (decision.preemption.candidates if decision.preemption else ()) for victim in c.victims}
    return {name for name in named if "/" in name}


def _decision(d: Decision, hidden: set[str], sight: Sight) -> Decision:
    pod, identity = d.pod, d.id
    if not sight.sees(pod.namespace):  # in a node's history: that there was a pod, and how the node fared
        pod = replace(pod, namespace=HIDDEN, name=HIDDEN, uid="", labels={}, owner=None, digest="")
        identity = HIDDEN
    return replace(
        d,
        id=identity,
        pod=pod,
        key=replace(d.key, pod_uid=pod.uid),
        message=_text(d.message, hidden) if sight.sees(d.pod.namespace) else "",
        filters=tuple(_filter(f, hidden) for f in d.filters),
        pre_filters=tuple(_plugin(p, hidden) for p in d.pre_filters),
        post_filters=tuple(_plugin(p, hidden) for p in d.post_filters),
        preemption=_preemption(d.preemption, hidden) if d.preemption else None,
        inputs=d.inputs if sight.sees(d.pod.namespace) else (),
    )


def _filter(f: FilterColumn, hidden: set[str]) -> FilterColumn:
    return replace(f, verdicts=tuple(_verdict(v, hidden) for v in f.verdicts))


def _plugin(p: PluginVerdict, hidden: set[str]) -> PluginVerdict:
    return replace(p, verdict=_verdict(p.verdict, hidden))


def _verdict(v: Verdict, hidden: set[str]) -> Verdict:
    return replace(v, reasons=tuple(_reason(r, hidden) for r in v.reasons))


def _reason(r: Reason, hidden: set[str]) -> Reason:
    """A pod in the way becomes "a pod", as where the scheduler itself does not say which."""
    params = {k: "" if k == POD and value in hidden else _text(value, hidden) for k, value in r.params.items()}
    return replace(r, params=params)


def _preemption(p: Preemption, hidden: set[str]) -> Preemption:
    """Hidden victims are still counted."""
    candidates = (
        replace(c, victims=tuple(HIDDEN if victim in hidden else victim for victim in c.victims)) for c in p.candidates
    )
    return replace(p, candidates=tuple(candidates))


def _workloads(counts: Counter[str], sight: Sight) -> Counter[str]:
    """Those that are hidden are one."""
    shown: Counter[str] = Counter()
    for name, count in counts.items():
        shown[_workload(name, sight)] += count
    return shown


def _decided(decided: Mapping[str, Mapping[str, Tally]], sight: Sight) -> dict[str, dict[str, Tally]]:
    """What decided for those that are hidden is told together."""
    shown: dict[str, dict[str, Tally]] = {}
    for name, by in decided.items():
        mine = shown.setdefault(_workload(name, sight), {})
        for reason, tally in by.items():
            mine[reason] = tally.plus(mine[reason]) if reason in mine else tally
    return shown


def _workload(name: str, sight: Sight) -> str:
    """The name, or what stands for those that are not seen; `other` has no namespace."""
    namespace, slash, _ = name.partition("/")
    return name if not slash or sight.sees(namespace) else HIDDEN


def _text(text: str, hidden: set[str]) -> str:
    """A text without the hidden pods' names; the longest first, for one may begin as another does."""
    if not any(name in text for name in hidden):
        return text
    names = "|".join(re.escape(name) for name in sorted(hidden, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{names})(?![\w.-])", HIDDEN, text)
