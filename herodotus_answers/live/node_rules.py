"""Compare nodes with what a pod spec or a volume demands of them: labels, node affinity, tolerations.

For answers about objects that no engine has evaluated. Owns: these comparisons. Does not own: what they mean. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

_ZONE: Final = "topology.kubernetes.io/zone"
# Types of conditions with which a node-problem-detector or a provider's agent reports a fault that gives no taint.
_FAULT: Final = re.compile(r"Problem|Deadlock|Read-?only|Corrupt|Frequent|Shutdown|Error|Fail|Fatal|Unhealthy", re.I)


def read_labels(node: Json) -> dict[str, str]:
    """Return the labels of a node."""
    return node["metadata"].get("labels") or {}


def read_zone(node: Json) -> str:
    """Return the zone of a node, "" if it has none."""
    return str(read_labels(node).get(_ZONE, ""))


def describe_taint(taint: Json) -> str:
    """Return a taint as KEY=VALUE:EFFECT, or KEY:EFFECT if it has no value."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"


def list_required_terms(
    affinity: Json | None, field: str = "requiredDuringSchedulingIgnoredDuringExecution"
) -> list[Json]:
    """Return the node selector terms of a pod's nodeAffinity, or of a volume's with field `required`."""
    return list(((affinity or {}).get(field) or {}).get("nodeSelectorTerms") or ())


def list_pod_terms(pod_spec: Json) -> list[Json]:
    """Return the node selector terms of which a pod requires one."""
    return list_required_terms((pod_spec.get("affinity") or {}).get("nodeAffinity"))


def matches_any_term(terms: Iterable[Json], node: Json) -> bool:
    """Return whether a node matches one of the terms. A term without requirements matches none."""
    return any(_matches(term, node) for term in terms)


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a label selector. One that is absent matches nothing, an empty one everything."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def selects_node(pod_spec: Json, node: Json) -> bool:
    """Return whether the node selector and the required node affinity of a pod select a node."""
    terms = list_pod_terms(pod_spec)
    return not list_lacking_labels(pod_spec, node) and (not terms or matches_any_term(terms, node))


def list_lacking_labels(pod_spec: Json, node: Json) -> list[str]:
    """Return the labels of a pod's nodeSelector that a node lacks, as KEY=VALUE."""
    labels = read_labels(node)
    return [f"{key}={value}" for key, value in (pod_spec.get("nodeSelector") or {}).items() if labels.get(key) != value]


def describe_terms(terms: Iterable[Json]) -> str:
    """Return node selector terms for a sentence, such as `zone In a or zone In b`."""
    described = []
    for term in terms:
        parts = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
        words = (f"{each['key']} {each['operator']} {', '.join(each.get('values') or ())}".strip() for each in parts)
        described.append(" and ".join(words))
    return " or ".join(dict.fromkeys(described))


def list_faults(node: Json) -> list[Json]:
    """Return the conditions, besides the kubelet's own, with which an agent on a node reports that a part is faulty.

    They are true if the type names a fault, and false if it names a part that is to be ready, such as StorageReady.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    return [each for each in conditions if each.get("status") == _find_faulty_status(str(each.get("type")))]


def describe_fault(condition: Json) -> str:
    """Return a condition of a faulty part, with what its agent says, such as `KernelDeadlock (task blocked)`."""
    said = " ".join(str(condition.get("message") or condition.get("reason") or "").split()).rstrip(".")
    state = "" if condition.get("status") == "True" else f"={condition.get('status')}"
    return f"{condition['type']}{state}{f' ({said})' if said else ''}"


def _find_faulty_status(condition: str) -> str:
    """Return the status with which a condition reports a fault; "" if it reports none."""
    if condition.endswith("Ready"):
        return "" if condition == "Ready" else "False"
    return "True" if _FAULT.search(condition) else ""


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    """Return whether one of the tolerations is for a taint."""
    return any(_is_for(each, taint) for each in tolerations)


def _is_for(toleration: Json, taint: Json) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    if (effect and effect != taint["effect"]) or (key and key != taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _matches(term: Json, node: Json) -> bool:
    fields = {"metadata.name": str(node["metadata"]["name"])}
    parts = [(each, read_labels(node)) for each in term.get("matchExpressions") or ()]
    parts += [(each, fields) for each in term.get("matchFields") or ()]
    return bool(parts) and all(_meets(each, values) for each, values in parts)


def _meets(requirement: Json, values: Mapping[str, str]) -> bool:
    key, operator = str(requirement["key"]), str(requirement["operator"])
    wanted: Sequence[str] = requirement.get("values") or ()
    has = values.get(key)
    if operator in ("Gt", "Lt"):
        try:
            return has is not None and (int(has) > int(wanted[0]) if operator == "Gt" else int(has) < int(wanted[0]))
        except (ValueError, IndexError):
            return False
    if operator in ("Exists", "DoesNotExist"):
        return (has is not None) == (operator == "Exists")
    return (has in wanted) == (operator == "In")
