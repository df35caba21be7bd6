"""Rare fields that the API server accepts: odd selectors, amounts that fit no int64.

Owns: changes of manifests. Does not own: how often they are applied (`random_cluster`).
"""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

ABSURD = ("1e99", "9E", "8Ei", "100T", "9000T", "9223372036854775807", "20000000000000000000", "7500P")
NO_LABELS = ("-3", "+5", "a b", "ü", "a" * 64, "x_")


def name_nodes(rng: random.Random, terms: list[Json], node_names: list[str]) -> None:
    """Add field terms to the terms of a volume's node affinity, beside its labels or in place of them."""
    for term in terms:
        operator = rng.choice(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [rng.choice(node_names)]}]
        if rng.random() < 0.5:
            del term["matchExpressions"]


def claim_absurd_amounts(rng: random.Random, status: Json) -> None:
    """Set a node's allocatable amounts above those of any machine."""
    amounts = {**status["allocatable"], **{r: rng.choice(ABSURD) for r in rng.choice((("cpu",), ("memory",)))}}
    status |= {"allocatable": amounts, "capacity": amounts}


def prefer_what_is_no_label(rng: random.Random, spec: Json) -> None:
    """Add a preferred node affinity with values that no label can have."""
    operator = rng.choice(("In", "NotIn", "Gt", "Lt"))
    requirement = {"key": rng.choice(("rank", "disk")), "operator": operator, "values": [rng.choice(NO_LABELS)]}
    term = {"weight": rng.randrange(1, 101), "preference": {"matchExpressions": [requirement]}}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(term)


def request_absurd_amounts(rng: random.Random, spec: Json) -> None:
    """Request more than any machine has, in one container or in two."""
    spec.pop("resources", None)  # the API server demands that those of the pod are not smaller
    for container in spec["containers"][: rng.choice((1, 2))]:
        resources, resource = container["resources"], rng.choice(("cpu", "memory"))
        resources.setdefault("requests", {})[resource] = rng.choice(ABSURD)
        resources.get("limits", {}).pop(resource, None)


def number_taints(rng: random.Random, spec: Json) -> None:
    """Add a taint whose value is mostly a number, to half of the nodes."""
    if rng.random() < 0.5:
        effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        taint = {"key": "level", "value": rng.choice(("0", "3", "7", "950", "x", "007")), "effect": effect}
        spec["taints"] = [*(spec.get("taints") or ()), taint]


def compare_numbers(rng: random.Random, spec: Json) -> None:
    """Add a toleration that compares numbers, to two of three pods."""
    if rng.random() < 0.67:
        toleration = {
            "key": "level",
            "operator": rng.choice(("Lt", "Gt")),
            "value": rng.choice(("1", "5", "-8", "900")),
        }
        spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]
