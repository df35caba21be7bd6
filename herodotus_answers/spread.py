"""Say which topology domains a spread constraint counts, and why the emptiest of them do not take the pod.

Owns: the type, and its sentence. Does not own: the reasons of single nodes (`herodotus_record.reasons`). Pure.

Invariant: a record without the parameters of the domains has no entry: what counts is then not known.
"""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from herodotus_answers.node_results import explain_not_evaluated, list_rejections
from herodotus_answers.rejection_sentences import describe_rejection
from herodotus_record.model import Decision, Evaluation, NodeTable, Reason

_IGNORE: Final = "Ignore"
_TAINT: Final = "untolerated-taint"


class CountedDomain(TypedDict):
    """A topology domain that a constraint counts."""

    domain: Annotated[str, "Value of the topology key."]
    pods: Annotated[int, "Number of matching pods in it."]


class EmptiestNode(TypedDict):
    """A node of a domain with the fewest matching pods."""

    node: Annotated[str, "Name of the node."]
    reason: Annotated[str, "Why it does not take the pod; empty if the record does not say."]


class SpreadDomains(TypedDict):
    """The domains of a spread constraint that rejected nodes."""

    key: Annotated[str, "Node label that separates the domains (topologyKey)."]
    maxSkew: Annotated[int, "Largest difference that the constraint allows."]
    matches: Annotated[bool, "Whether the pod itself matches the constraint's selector."]
    nodeTaintsPolicy: Annotated[str, "The constraint's nodeTaintsPolicy: Honor or Ignore."]
    minDomains: Annotated[int | None, "The constraint's minDomains, if there are fewer domains; else null."]
    domains: Annotated[list[CountedDomain], "Some of the domains, those with the fewest matching pods first."]
    emptiest: Annotated[list[EmptiestNode], "Some of the nodes in the domains with the fewest matching pods."]
    text: Annotated[str, "The domains in a few sentences."]


def build_spread_domains(decision: Decision, table: NodeTable) -> list[SpreadDomains]:
    """Return the domains of each spread constraint that rejected nodes of a pod without a node."""
    if decision.chosen is not None:
        return []
    by_key: dict[str, Reason] = {}
    for column in decision.filters:
        for reason in (reason for verdict in column.verdicts for reason in verdict.reasons):
            if reason.code == "spread" and reason.params.get("domains"):
                by_key.setdefault(reason.params["key"], reason)
    return [_describe(decision, table, reason) for reason in by_key.values()]


def _describe(decision: Decision, table: NodeTable, reason: Reason) -> SpreadDomains:
    params = reason.params
    pairs = [part.rpartition("=") for part in params["domains"].split(", ")]
    names = [name for name in params.get("emptiest", "").split(", ") if name]
    emptiest = [EmptiestNode(node=name, reason=_find_reason(decision, table, name)) for name in names]
    found: SpreadDomains = {
        "key": params["key"],
        "maxSkew": int(params["maxSkew"]),
        "matches": params.get("matches") != "false",
        "nodeTaintsPolicy": params.get("nodeTaintsPolicy", _IGNORE),
        "minDomains": int(params["minDomains"]) if "minDomains" in params else None,
        "domains": [{"domain": value, "pods": int(pods)} for value, sign, pods in pairs if sign],
        "emptiest": emptiest,
        "text": "",
    }
    counts = ", ".join(f"{each['domain']} {each['pods']}" for each in found["domains"])
    more = next((f", {text}" for _, sign, text in pairs if not sign), "")
    sentences = [
        f"{found['key']}, maxSkew {found['maxSkew']}: matching pods in the domains that count: {counts}{more}."
    ]
    if found["minDomains"] is not None:
        sentences.append(f"They are fewer than minDomains {found['minDomains']}: each may have at most maxSkew pods.")
    else:
        by_reason: dict[str, list[str]] = {}
        for each in emptiest:
            by_reason.setdefault(each["reason"], []).append(each["node"])
        for why, nodes in by_reason.items():
            because = f", but {_agree(why, len(nodes))}" if why else ""
            sentences.append(f"{', '.join(nodes)} {'counts' if len(nodes) == 1 else 'count'} as emptiest{because}.")
    if _has_tainted(decision, table, names) and found["nodeTaintsPolicy"] == _IGNORE:
        sentences.append(
            "nodeTaintsPolicy Ignore counts tainted nodes; Honor would leave out those with taints that the pod does"
            " not tolerate."
        )
    if reason.params.get("nodeAffinityPolicy") == _IGNORE:
        sentences.append(
            "nodeAffinityPolicy Ignore counts nodes that the pod does not select; Honor would leave them out."
        )
    if not found["matches"]:
        sentences.append("The pod does not match the constraint's own selector.")
    found["text"] = " ".join(sentences)
    return found


def _agree(why: str, nodes: int) -> str:
    """Return a predicate about one node in the number of several nodes."""
    if nodes == 1:
        return why
    for one, many in (("has ", "have "), ("is ", "are "), ("does ", "do ")):
        if why.startswith(one):
            return many + why.removeprefix(one)
    return why


def _find_reason(decision: Decision, table: NodeTable, name: str) -> str:
    """Return why a node does not take the pod, as a predicate; "" if the record does not say."""
    slot = table.find_slot(name)
    if slot is None or slot >= len(decision.evaluation):
        return ""
    rejections = list_rejections(decision, slot)
    if rejections:
        plugin, verdict = rejections[0]
        return describe_rejection(decision, plugin, verdict.reasons, 1)
    if decision.evaluation[slot] == Evaluation.RESTRICTED:
        return f"is not eligible: {explain_not_evaluated(decision, slot)}"
    return ""


def _has_tainted(decision: Decision, table: NodeTable, names: list[str]) -> bool:
    slots = [slot for name in names if (slot := table.find_slot(name)) is not None and slot < len(decision.evaluation)]
    rejections = (verdict for slot in slots for _, verdict in list_rejections(decision, slot))
    return any(reason.code == _TAINT for verdict in rejections for reason in verdict.reasons)
