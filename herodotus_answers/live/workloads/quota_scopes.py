"""Say which pods a ResourceQuota counts, and what change of the pods takes them out of its scopes.

Owns: the scopes of a quota as selectors, and these changes but for requests, whose amounts `amount_causes` knows. Does
not own: what a quota refuses (`amount_causes`, `admission`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from herodotus_answers.live.pod_facts import make_remedy
from herodotus_answers.live.workloads.template_changes import change_template

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import Remedy
    from herodotus_answers.live.workload_objects import Workload

Json = Mapping[str, Any]


def list_selectors(quota: Json | None) -> list[Json]:
    """Return the selectors that a pod has to match all for a quota to count it, each with scopeName and operator."""
    spec = (quota or {}).get("spec") or {}
    selectors: list[Json] = [{"scopeName": str(scope), "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*selectors, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def has_scope(quota: Json | None, scope: str) -> bool:
    """Return whether a quota counts only pods of a scope."""
    return any(selector.get("scopeName") == scope for selector in list_selectors(quota))


def describe_scope(quota: Json | None) -> str:
    """Return which pods a quota counts, in parentheses, if it does not count all."""
    scopes = []
    for each in list_selectors(quota):
        name, operator = str(each.get("scopeName")), str(each.get("operator"))
        has_operator = name == "PriorityClass"  # the others have no operator but Exists
        scopes.append(" ".join([name, operator, ", ".join(each.get("values") or ())]).strip() if has_operator else name)
    return f" (of pods with {' and '.join(scopes)})" if scopes else ""


def list_ways_out(selectors: Iterable[Json], effect: str, workload: Workload) -> Iterator[Remedy]:
    """Yield the changes of the pods after which they do not match one of `selectors`. `effect` says what follows.

    To state no requests is none of them: such pods are the first to be evicted.
    """
    for each in selectors:
        scope, operator = each.get("scopeName"), each.get("operator")
        if scope == "PriorityClass":
            names = " or ".join(each.get("values") or ())
            what = {
                "In": f"another priority class than {names}",
                "NotIn": f"priority class {names}",
                "DoesNotExist": "a priority class",
                "Exists": "no priority class" if workload.pod_spec.get("priorityClassName") else "",  # else the default
            }.get(str(operator))
            if what:
                yield make_remedy(f"give the pods {what}, which also decides whom they preempt: {effect}")
        elif scope == "Terminating" and "activeDeadlineSeconds" in workload.pod_spec:
            limit = workload.pod_spec["activeDeadlineSeconds"]
            text = f"give the pods no activeDeadlineSeconds, now {limit}: {effect}"
            yield change_template(
                workload, text, {"activeDeadlineSeconds": None}, "a pod then runs until it ends itself"
            )
        elif scope == "NotTerminating" and workload.kind in ("Job", "CronJob"):  # others may have no deadline
            text = "give the pods activeDeadlineSeconds, after which the kubelet ends a pod, in the pod template of"
            yield make_remedy(f"{text} {workload.label}: {effect}")
        elif scope == "CrossNamespacePodAffinity":
            text = "let the pod affinity and anti-affinity be about pods of their own namespace alone: give their terms"
            yield make_remedy(f"{text} no namespaces and no namespaceSelector: {effect}")
