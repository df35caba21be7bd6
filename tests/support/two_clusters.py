"""Records of two clusters with the same names, and the rights that reading them needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from herodotus_record.model import Decision, Frame, Owner
from tests.builders import CORDONED, MONDAY_US, a_decision, a_table
from tests.endpoint.service import rows

OTHER, ELSEWHERE = "00000000-0000-4000-8000-00000000c2c2", "00000000-0000-4000-8000-0000000000c2"
POD = "checkout-7d9f-x2k"
HERE, THERE = ("worker-1", "worker-2", "worker-3"), ("there-1", "there-2")
OWNER = Owner("ReplicaSet", "checkout-7d9f")
RESOURCES = (
    "decisions",
    "podexplanations",
    "podhistories",
    "nodecomparisons",
    "pendingpods",
    "agreements",
    "preemptions",
    "workloadplacements",
    "podgroupplacements",
)
IN_SHOP = {(verb, resource) for verb in ("get", "list", "watch") for resource in RESOURCES}
CLUSTER_WIDE = {(verb, "nodehistories") for verb in ("get", "list")} | {("list", "balances"), ("list", "incarnations")}
ALL_OF_SHOP = {("ada", verb, resource, "shop") for verb, resource in IN_SHOP}
OF_NODES = {("ada", verb, resource, "") for verb, resource in CLUSTER_WIDE}


def in_group(decision: Decision) -> Decision:
    return replace(decision, pod=replace(decision.pod, pod_group="train"))


def here() -> list[Frame]:
    return [rows(a_table(HERE)), in_group(a_decision(owner=OWNER))]


def there(**what: Any) -> list[Frame]:
    """A decision for the same namespace, pod and UID in another cluster, later than ours."""
    table = a_table(THERE)
    cordoned = {node: {"NodeName": CORDONED} for node in THERE}
    decision = a_decision(
        nodes=THERE,
        rejected=cordoned,
        owner=OWNER,
        incarnation=ELSEWHERE,
        cluster=OTHER,
        **{"started_us": MONDAY_US + 60_000_000} | what,
    )
    decision = replace(in_group(decision), id=f"{decision.id[:-2]}c2")
    return [rows(table, incarnation=ELSEWHERE, cluster=OTHER), decision]
