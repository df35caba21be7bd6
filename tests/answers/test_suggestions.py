"""Suggestions as sentences, structured changes and commands, for each kind of owner."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from herodotus_answers.live.objects import HASH_LABEL
from herodotus_answers.suggestions import build_suggestions, find_owner
from herodotus_record.disclosure import HIDDEN, mask_decision
from herodotus_record.model import Decision, Owner, Reason, Suggestion
from herodotus_record.reasons import CHANGES
from tests.builders import a_decision
from tests.support.answers import as_json
from tests.support.namespaces import OneNamespace
from tests.support.suggestions import LOWER, LOWERED, SPEC

Json = dict[str, Any]

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "count": "2", "templateCount": "0"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


def decided(suggestion: Suggestion, owner: Owner | None = None, labels: dict[str, str] | None = None) -> Decision:
    decision = a_decision(pod="web-1", namespace="shop", owner=owner)
    return replace(decision, pod=replace(decision.pod, labels=labels or {}), suggestions=(suggestion,))


def build(suggestion: Suggestion, owner: Owner | None = None, labels: dict[str, str] | None = None) -> Json:
    (found,) = build_suggestions(decided(suggestion, owner, labels))
    return as_json(found)


def patches(command: str) -> list[Any]:
    """Return the documents that the command passes to kubectl patch."""
    words = shlex.split(command)
    return [json.loads(words[i + 1]) for i, word in enumerate(words) if word == "-p"]


def in_template(spec: Json) -> Json:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("owner", "labels", "start", "end", "deletes"),
    [
        (
            Owner("ReplicaSet", "web-5f7"),
            {"pod-template-hash": "5f7"},
            "kubectl -n shop patch deployment web -p ",
            "",
            [],
        ),
        (
            Owner("ReplicaSet", "web-5f7"),
            {},
            "kubectl -n shop patch replicaset web-5f7 -p ",
            " && kubectl -n shop delete pod web-1",
            ["Pod/web-1"],
        ),
        (
            Owner("StatefulSet", "web"),
            {},
            "kubectl -n shop patch statefulset web -p ",
            " && kubectl -n shop delete pod web-1",
            ["Pod/web-1"],
        ),
        (Owner("DaemonSet", "web"), {}, "kubectl -n shop patch daemonset web -p ", "", []),
    ],
    ids=["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"],
)
def test_the_command_changes_the_template_of_the_owner(
    owner: Owner, labels: dict[str, str], start: str, end: str, deletes: list[str]
) -> None:
    found = build(LOWER, owner, labels)
    assert found["command"].startswith(start)
    assert found["command"].endswith(f"'{end}")
    assert patches(found["command"]) == [in_template(SPEC)]
    assert found["deletes"] == deletes


def test_a_pod_without_an_owner_is_replaced() -> None:
    found = build(LOWER)
    first, patch, last = found["command"].split(" | ")
    assert (first, last) == ("kubectl -n shop get pod web-1 -o json", "kubectl -n shop replace --force -f -")
    assert patches(patch) == [{"spec": SPEC}]
    assert (found["object"], found["deletes"]) == ("Pod/web-1", ["Pod/web-1"])


def test_a_job_is_replaced_without_the_marks_of_its_first_run() -> None:
    found = build(LOWER, Owner("Job", "nightly"))
    (patch,) = patches(found["command"])
    labels = patch["spec"]["template"]["metadata"]["labels"]
    assert patch["spec"]["selector"] is None
    assert labels == {"controller-uid": None, "batch.kubernetes.io/controller-uid": None}
    assert found["command"].endswith("kubectl -n shop replace --force -f -")
    assert found["deletes"] == ["Job/nightly"]


def test_an_owner_of_an_unknown_kind_has_no_command() -> None:
    found = build(LOWER, Owner("Rollout", "web"))
    assert (found["object"], found["command"], found["deletes"]) == ("Rollout/web", None, [])


def test_a_change_is_structured_and_a_sentence() -> None:
    assert build(LOWER, Owner("StatefulSet", "web")) | {"command": ""} == {
        "kind": "set-request",
        "object": "StatefulSet/web",
        "field": "spec.template.spec.containers[name=app].resources.requests[cpu]",
        "from": "2",
        "to": "1700m",
        "also": [],
        "node": "worker-1",
        "costs": ["application"],
        "text": "lower the cpu request of container app from 2 to 1700m",
        "command": "",
        "deletes": ["Pod/web-1"],
        "rollsOut": ["StatefulSet/web"],
        "rights": [
            {"verb": "patch", "resource": "statefulsets.apps", "namespace": "shop"},
            {"verb": "delete", "resource": "pods", "namespace": "shop"},
        ],
        "checked": True,
        "helps": 0,
    }


@pytest.mark.parametrize(
    ("count", "added"),
    [
        ("2", [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}]),
        ("0", [{"op": "add", "path": "/spec/tolerations", "value": [TOLERATION]}]),
    ],
)
def test_a_toleration_is_added_to_a_pod_without_an_owner(count: str, added: list[Json]) -> None:
    found = build(Suggestion("n", (Reason("add-toleration", TAINT | {"count": count}),)))
    assert found["command"].startswith("kubectl -n shop patch pod web-1 --type=json -p ")
    assert patches(found["command"]) == [added]
    assert (found["object"], found["deletes"]) == ("Pod/web-1", [])


def test_the_template_of_the_owner_gets_the_toleration() -> None:
    tolerated = Suggestion("n", (Reason("add-toleration", TAINT),))
    added = [{"op": "add", "path": "/spec/template/spec/tolerations", "value": [TOLERATION]}]
    for kind, deletes in (("StatefulSet", ["Pod/web-1"]), ("DaemonSet", []), ("Job", ["Job/web"])):
        found = build(tolerated, Owner(kind, "web"))
        assert (patches(found["command"])[-1], found["deletes"]) == (added, deletes)
    assert build(tolerated, Owner("Rollout", "web"))["command"] is None


def test_one_of_several_terms_is_removed_after_a_test_that_it_is_the_one() -> None:
    term = Reason("remove-pod-anti-affinity", {"key": "zone", "index": "1"})
    found = build(Suggestion("n", (term,)), Owner("ReplicaSet", "web-5f7"), {"pod-template-hash": "5f7"})
    path = "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/1"
    test, removal = {"op": "test", "path": f"{path}/topologyKey", "value": "zone"}, {"op": "remove", "path": path}
    assert patches(found["command"]) == [[test, removal]]
    assert found["command"].startswith("kubectl -n shop patch deployment web --type=json -p ")
    assert found["rollsOut"] == ["Deployment/web"]


def test_changes_that_no_command_makes_have_none() -> None:
    taint = Reason("clear-taint", {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"})
    found = build(Suggestion("n", (taint, LOWERED), json.dumps(SPEC)))
    assert (found["command"], found["costs"], found["deletes"]) == (None, ["node", "application"], [])
    assert found["text"].startswith("free disk space on n, whose kubelet reports disk pressure (taint ")
    larger = build(Suggestion("", (Reason("add-node", {"from": "4 cpu", "to": "6 cpu"}),)))
    assert (larger["command"], larger["costs"]) == (None, ["capacity"])
    for size, words in (("4 cpu", " (4 cpu)"), (None, "")):
        more = Reason("add-node-like", {"like": "a"} | ({"size": size} if size else {}))
        assert build(Suggestion("", (more,)))["text"] == f"add one more node like a{words}", "earlier records lack it"


def test_with_another_change_the_template_gets_the_toleration() -> None:
    both = Suggestion("n", (Reason("add-toleration", TAINT), LOWERED), json.dumps(SPEC))
    found = build(both, Owner("StatefulSet", "web"))
    added = [{"op": "add", "path": "/spec/template/spec/tolerations", "value": [TOLERATION]}]
    assert patches(found["command"]) == [added, in_template(SPEC)]
    assert [change["kind"] for change in found["also"]] == ["set-request"]


def test_changes_of_a_node_come_first() -> None:
    label = Reason("label-node", {"key": "disk", "value": "ssd", "from": "hdd"})
    found = build(Suggestion("n", (Reason("uncordon"), label, LOWERED), json.dumps(SPEC)), Owner("DaemonSet", "web"))
    assert found["command"].split(" && ")[:2] == [
        "kubectl uncordon n",
        "kubectl label node n disk=ssd --overwrite",
    ]
    assert found["text"].startswith("uncordon n and label n with disk=ssd and lower the cpu request")


def test_every_change_has_a_sentence_and_a_field() -> None:
    every = {"key": "k", "value": "v", "effect": "e", "from": "1", "to": "2", "ports": "80/TCP", "container": "c"}
    every |= {"group": "containers", "resource": "cpu", "leaving": "a/b", "like": "m"}
    for code in CHANGES:
        found = build(Suggestion("n", (Reason(code, every),), "{}"))
        assert found["kind"] == code
        assert found["field"], code
        assert "{" not in found["text"]


@pytest.mark.parametrize(
    ("leaving", "named"),
    [
        ("a/b, a/c", "(a/b, a/c)"),
        (", ".join(f"a/{i}" for i in range(9)), "(a/0, a/1, a/2, a/3, … 5 more)"),
        ("", "(of lower priority)"),
    ],
)
def test_a_fix_that_evicts_names_the_first_of_its_victims(leaving: str, named: str) -> None:
    change = Reason("set-priority-class", {"from": "0", "to": "c", "leaving": leaving})
    assert build(Suggestion("n", (change,), "{}"))["text"].endswith(f"then evicts pods from n {named}")


@pytest.mark.parametrize(
    ("owner", "labels", "resource", "field"),
    [
        (Owner("ReplicaSet", "web-5f7"), {"pod-template-hash": "5f7"}, "deployment", "strategy"),
        (Owner("DaemonSet", "web"), {}, "daemonset", "updateStrategy"),
    ],
)
@pytest.mark.parametrize(("leaving", "named"), [("shop/web-0", "shop/web-0"), ("", "a pod")])
def test_a_rollout_that_deletes_first_changes_the_strategy_of_its_kind(
    owner: Owner, labels: dict[str, str], resource: str, field: str, leaving: str, named: str
) -> None:
    change = Reason("set-rollout-strategy", {"leaving": leaving} if leaving else {})  # earlier records name no pod
    found = build(Suggestion("n", (change,), ""), owner, labels)
    assert f"as {named} of the earlier template holds its place until the new pod is available" in found["text"]
    assert found["command"].startswith(f"kubectl -n shop patch {resource} web -p ")
    limits = {"maxSurge": 0, "maxUnavailable": 1}
    assert patches(found["command"]) == [{"spec": {field: {"type": "RollingUpdate", "rollingUpdate": limits}}}]
    assert found["field"] == f"spec.{field}.rollingUpdate.maxSurge"
    assert found["rights"] == [{"verb": "patch", "resource": f"{resource}s.apps", "namespace": "shop"}]
    assert found["rollsOut"] == []


def test_a_reader_who_may_not_see_the_pod_gets_no_command_with_its_spec() -> None:
    masked = mask_decision(decided(LOWER, Owner("StatefulSet", "web")), OneNamespace("other"))
    assert masked.suggestions[0].patch == HIDDEN
    (found,) = build_suggestions(masked)
    assert (found["command"], found["from"], found["to"]) == (None, HIDDEN, HIDDEN)


def test_a_replica_set_that_a_deployment_does_not_name_stays_the_owner() -> None:
    pod = decided(LOWER, Owner("ReplicaSet", "web-abc"), {HASH_LABEL: "xyz"}).pod
    assert find_owner(pod) == ("ReplicaSet", "web-abc")
