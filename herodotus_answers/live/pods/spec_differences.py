"""Compare what scheduling reads of two pods: the fields of their specs that differ, with the values of both.

Owns: which fields are compared, and the sentences. Does not own: requests and priority, which records hold
(`changes`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]
NONE: Final = "none"
_OF_ONE_POD: Final = ("-hash", "/pod-name", "/pod-index")  # labels that controllers set
_OWN_LABELS: Final = "none but the labels that tell the pods of a workload apart"
_MAX_TEXT: Final = 160  # two lines of a terminal
_ADDED_BY_ADMISSION: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def add_spec_differences(comparison: Json, pods: Sequence[Json]) -> Json:
    """Return a PodComparison that names the fields which differ between the two pods, from the earlier to the later.

    `pods` are the Pod objects in the order of the document. They replace the entry that some fields differ.
    """
    differences = comparison["differences"]
    earlier, later = sorted(
        zip(comparison["pods"], pods, strict=True), key=lambda side: side[0]["attempt"]["startedAt"]
    )
    texts = compare_specs(earlier[1], later[1]) or [_OWN_LABELS] * _differ_in_own_labels(pods)
    if not texts:
        return comparison
    others = [change for change in differences["changes"] if change["what"] != "pod"]
    own = [change for change in others if change["what"] in ("requests", "priority")]
    rest = [change for change in others if change["what"] not in ("requests", "priority")]
    changes = [*own, *({"what": "pod", "about": "pod", "text": text} for text in texts), *rest]
    return comparison | {"differences": differences | {"changes": changes}}


def compare_specs(before: Json, after: Json) -> list[str]:
    """Return a sentence for each field that scheduling reads and that differs, such as `claims none → 1`."""
    sentences = []
    for name, describe in _FIELDS.items():
        values = tuple(describe(pod.get("spec") or {}) for pod in (before, after))
        if values[0] != values[1]:
            sentences.append(f"{name} {_shorten(values[0])} → {_shorten(values[1])}")
    was, has = ((pod.get("metadata") or {}).get("labels") or {} for pod in (before, after))
    keys = (key for key in sorted(was.keys() | has.keys()) if was.get(key) != has.get(key))
    return sentences + [
        f"label {key} {_shorten(was.get(key, NONE))} → {_shorten(has.get(key, NONE))}"
        for key in keys
        if not key.endswith(_OF_ONE_POD)
    ]


def _differ_in_own_labels(pods: Sequence[Json]) -> bool:
    """Return whether two pods differ in a label that their controller gives each pod."""
    one, other = (
        {k: v for k, v in (pod["metadata"].get("labels") or {}).items() if k.endswith(_OF_ONE_POD)} for pod in pods
    )
    return one != other


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _describe_tolerations(spec: Json) -> str:
    return _join(_describe_toleration(t) for t in spec.get("tolerations") or () if not _is_default(t))


def _is_default(toleration: Json) -> bool:
    return toleration.get("key") in _ADDED_BY_ADMISSION and toleration.get("effect") == "NoExecute"


def _describe_toleration(toleration: Json) -> str:
    key, operator, value = (str(toleration.get(name) or "") for name in ("key", "operator", "value"))
    effect = f":{toleration['effect']}" if toleration.get("effect") else ""
    if operator == "Exists" or (operator != "Equal" and not value):
        return f"{key or 'every taint'}{effect}"
    sign = "=" if operator in ("", "Equal") else f" {operator} "
    return f"{key}{sign}{value}{effect}"


def _describe_selector(spec: Json) -> str:
    return _join(f"{key}={value}" for key, value in (spec.get("nodeSelector") or {}).items())


def _describe_affinity(kind: str, rule: str) -> Callable[[Json], str]:
    def describe(spec: Json) -> str:
        terms = ((spec.get("affinity") or {}).get(kind) or {}).get(rule)
        if isinstance(terms, dict):
            terms = terms.get("nodeSelectorTerms")
        return " or ".join(_describe_term(term) for term in terms or ()) or NONE

    return describe


def _describe_term(term: Json) -> str:
    """Return a term of an affinity: of nodes or of pods, required or preferred with a weight."""
    weight = f"weight {term['weight']}: " if "weight" in term else ""
    inner = term.get("preference") or term.get("podAffinityTerm") or term
    expressions = [*(inner.get("matchExpressions") or ()), *(inner.get("matchFields") or ())]
    selector = inner.get("labelSelector") or {}
    expressions += selector.get("matchExpressions") or ()
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [_describe_expression(expression) for expression in expressions]
    by = f" by {inner['topologyKey']}" if "topologyKey" in inner else ""
    return f"{weight}{' and '.join(parts) or 'everything'}{by}"


def _describe_expression(expression: Json) -> str:
    values = ", ".join(expression.get("values") or ())
    return f"{expression['key']} {expression['operator']}{f' ({values})' if values else ''}"


def _describe_spread(spec: Json) -> str:
    return _join(
        f"{each['topologyKey']} maxSkew {each['maxSkew']} {each['whenUnsatisfiable']}"
        for each in spec.get("topologySpreadConstraints") or ()
    )


def _describe_ports(spec: Json) -> str:
    ports = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    return _join(f"{port['hostPort']}/{port.get('protocol', 'TCP')}" for port in ports if port.get("hostPort"))


def _describe_claims(spec: Json) -> str:
    """Return the number of claims: their names differ between pods of one template."""
    claims = [volume for volume in spec.get("volumes") or () if "persistentVolumeClaim" in volume]
    return str(len(claims)) if claims else NONE


def _describe_field(name: str, default: str = NONE) -> Callable[[Json], str]:
    def describe(spec: Json) -> str:
        value = spec.get(name)
        return default if value in (None, "", [], {}) else value if isinstance(value, str) else json.dumps(value)

    return describe


def _join(texts: Any) -> str:
    return ", ".join(sorted(texts)) or NONE


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_FIELDS: Final[Mapping[str, Callable[[Json], str]]] = {
    "schedulerName": _describe_field("schedulerName", "default-scheduler"),
    "tolerations": _describe_tolerations,
    "nodeSelector": _describe_selector,
    **{
        f"{words} {kind}": _describe_affinity(kind, rule)
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        for words, rule in (("required", _REQUIRED), ("preferred", _PREFERRED))
    },
    "topologySpreadConstraints": _describe_spread,
    "host ports": _describe_ports,
    "claims": _describe_claims,
    "runtimeClassName": _describe_field("runtimeClassName"),
    "schedulingGates": _describe_field("schedulingGates"),
    "resourceClaims": _describe_field("resourceClaims"),
    "preemptionPolicy": _describe_field("preemptionPolicy", "PreemptLowerPriority"),
}
