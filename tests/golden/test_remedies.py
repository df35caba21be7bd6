"""A node becomes feasible once the changes that `--node X` proposes are made.

The clusters are recordings of kube-scheduler. Every proposed change for a rejected node is made to the objects, and the
pod is decided again.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from herodotus_answers.pod import explain_node
from herodotus_answers.node_results import list_rejections
from scheduler.config import Configuration
from tests.support.recordings import EvaluatedCase, cases_of, decided

Json = dict[str, Any]
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def node_of(case: Json, name: str) -> Json:
    return next(o for o in case["objects"] if o["kind"] == "Node" and o["metadata"]["name"] == name)


def free_amount(case: Json, name: str, amount: str, resource: str) -> None:
    """Increase the node's allocatable by an amount, as if pods had been deleted."""
    allocatable = node_of(case, name)["status"]["allocatable"]
    had = allocatable.get(resource, "0")
    allocatable[resource] = f"{milli(had) + milli(amount)}m" if resource == "cpu" else str(whole(had) + whole(amount))


def milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def whole(text: str) -> int:
    match = re.fullmatch(r"([\d.]+)(\w*)", text)
    assert match, text
    return int(-(-float(match[1]) * UNITS[match[2]] // 1))


def apply_change(case: Json, name: str, step: str) -> bool:
    """Make one proposed change; return False if this test does not know the change."""
    pod, node = case["pod"], node_of(case, name)
    if match := re.fullmatch(rf"free (\S+) (\S+) on {name}", step):
        free_amount(case, name, *match.groups())
    elif match := re.fullmatch(rf"tolerate (.+) \({name}\)", step):
        for taint in match[1].split(" and "):
            key, effect = taint.rsplit(":", 1)
            toleration = {"key": key.partition("=")[0], "operator": "Exists", "effect": effect}
            pod["spec"].setdefault("tolerations", []).append(toleration)
    elif step == f"uncordon {name}":
        node["spec"].pop("unschedulable", None)
        taints = [t for t in node["spec"].get("taints") or [] if t["key"] != "node.kubernetes.io/unschedulable"]
        node["spec"]["taints"] = taints
    elif match := re.fullmatch(rf"label {name} so that it matches ([\w./-]+)=([\w.-]+)", step):
        node["metadata"].setdefault("labels", {})[match[1]] = match[2]
    else:
        return False
    return True


def slot_of(of: EvaluatedCase, name: str) -> int:
    slot = of.table.find_slot(name)
    assert slot is not None
    return slot


@pytest.mark.parametrize(("family", "least"), [("edge", 2), ("mixed", 20), *(pytest.param(*each, marks=pytest.mark.wide) for each in (("resources", 40), ("taints", 60)))])
def test_a_node_is_feasible_after_the_proposed_changes(family: str, least: int) -> None:
    checked = 0
    for case in cases_of(family):
        question = {k: v for k, v in case.items() if k not in ("expect", "config")}
        before = decided(question, Configuration())
        for slot, name in enumerate(before.table.names):
            if not name or not list_rejections(before.decision, slot):
                continue
            steps = explain_node(before.decision, before.table, slot)["possibleChanges"]
            changed = copy.deepcopy(question)
            if not all(apply_change(changed, name, step) for step in steps):
                continue
            after = decided(changed, Configuration())
            left = list_rejections(after.decision, slot_of(after, name))
            if any(step.startswith("label ") for step in steps):  # the node counts as a domain to spread over only now
                left = [(plugin, verdict) for plugin, verdict in left if plugin != "PodTopologySpread"]
            assert not left, f"{case['id']} {name}: {steps}, and then {left}"
            checked += 1
    assert checked >= least, checked
