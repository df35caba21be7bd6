"""A reader of one namespace asks every route of the application, and gets no name of a pod of another namespace.

Each field of a record that can name a pod, or hold a text of others, holds the canary: the name of a pod of `ci`. The
routes come from the application's own table, so that a new route cannot be forgotten.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from herodotus_record import notes
from herodotus_record.model import (
    Candidate,
    Code,
    Decision,
    Frame,
    InputColumn,
    Inputs,
    Outcome,
    Owner,
    PluginVerdict,
    Preemption,
    Reason,
    Source,
    Verdict,
)
from tests.builders import CORDONED, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.api.test_reviews import answering, review
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import API, Service, a_service, rows

CANARY = "canary"
NEAR = CANARY[:-1]  # what requests name: an error repeats it, and must not suggest the canary
SHOP = f"{API}/namespaces/<namespace>"
OF_CI = f"ci/{CANARY}-0"
SAID = f'admission webhook denied the request: pods "{CANARY}-0" of {OF_CI} are protected'
NODES = ("worker-1", "worker-2", "worker-3")
OWNER = Owner("ReplicaSet", "checkout-7d9f")
FAILED, PLACED, WATCHED, OLDER, PLAIN = (f"checkout-7d9f-{letter}" for letter in "abcde")
PODS = (FAILED, PLACED, WATCHED, OLDER, PLAIN)
RESOURCES = (
    "decisions",
    "podexplanations",
    "podhistories",
    "nodecomparisons",
    "pendingpods",
    "agreements",
    "preemptions",
)
IN_SHOP = {(verb, resource) for verb in ("get", "list", "watch") for resource in (*RESOURCES, "workloadplacements")}
CLUSTER_WIDE = {(verb, "nodehistories") for verb in ("get", "list")} | {("list", "balances"), ("list", "incarnations")}
FORMS = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadataList;v=v1"
    ";g=meta.k8s.io",
)
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"all": "true"},
    {"columns": "true"},
    {"node": "worker-1"},
    {"node": NEAR},
    {"attempt": "1"},
    {"attempt": "7"},
    {"since": str(MONDAY_US // 1_000_000)},
    {"with": PLACED},
    {"a": "worker-1", "b": "worker-2"},
    {"includeObject": "Object"},
    {"watch": "true", "timeoutSeconds": "1", "resourceVersion": "0", "includeObject": "Object"},
    {"watch": "true", "timeoutSeconds": "1", "resourceVersion": "1"},
    {"labelSelector": f"app={CANARY}"},
    {"fieldSelector": "status.state=Unschedulable"},
    {"pod": FAILED},
    {"weights": "ImageLocality=5"},
    {"name": FAILED, "namespace": "shop"},
    {"name": "worker-1"},
    {"victim": FAILED},
)


def every_note() -> tuple[Reason, ...]:
    """A note of every code, with the canary in each parameter that may name a pod or hold a text."""
    values = defaultdict(lambda: "1") | dict.fromkeys(("nominated", "victim"), OF_CI)
    values |= {"error": SAID, "message": f"0/3 nodes are available: 3 {SAID}.", "node": "worker-1"}
    return tuple(Reason(code, _filled(template, values)) for code, template in notes.CATALOGUE.items())


def _filled(template: str, values: defaultdict[str, str]) -> dict[str, str]:
    return {name: values[name] for name in ("plugin", *values, "extender", "verb") if f"{{{name}}}" in template}


def in_the_way() -> Verdict:
    return Verdict(
        Code.UNSCHEDULABLE,
        (
            Reason("existing-anti-affinity", {"key": "zone", "pod": OF_CI}),
            Reason("text", {"text": SAID}),
            Reason(f"{CANARY}-code", {"pod": OF_CI}),
            Reason("insufficient", {"resource": "cpu", "because": SAID}),
        ),
    )


def with_canaries(decision: Decision) -> Decision:
    nested = f"0/3 nodes are available: 3 {SAID}."
    load = InputColumn(f"load of {CANARY}", "", 0, array("q", [1, 2, 3]))
    return replace(
        decision,
        post_filters=(
            PluginVerdict(
                "DefaultPreemption", Verdict(Code.UNSCHEDULABLE, (Reason("preemption", {"message": nested}),))
            ),
            PluginVerdict("Own", in_the_way()),
        ),
        preemption=Preemption("worker-1", (Candidate("worker-1", (OF_CI, "shop/other"), 0),), evicted=True),
        text_notes=(f"counted as running, because nominated: worker-1 ({OF_CI})", SAID),
        notes=every_note(),
        inputs=(Inputs("Pigeon", f"annotations of {CANARY}", (load,)),),
        message=decision.message and f"{decision.message} preemption: {nested} {SAID}",
    )


def evictions(decision: Decision, sequence: int) -> list[Outcome]:
    """One as this version records it, one as an earlier version did."""
    failed = Reason("eviction-failed", {"victim": OF_CI, "error": SAID})
    first = Outcome(
        incarnation=decision.key.incarnation,
        sequence=sequence,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase="Evict",
        status=Code.ERROR,
        node="worker-1",
        message="",
        at_us=decision.times.started_us,
        duration_s=0.1,
        final=False,
        reason=failed,
    )
    return [first, replace(first, sequence=sequence + 1, reason=None, message=f"{OF_CI} not evicted: {SAID}")]


def of_the_log(decision: Decision, sequence: int) -> Decision:
    """The same attempt as the scheduler's log tells it."""
    key = replace(decision.key, source=Source.LOGGED, incarnation="of-a-log", pod_uid=f"shop/{decision.pod.name}")
    return replace(decision, id=f"{decision.id[:-3]}fff", key=key, sequence=sequence, unknown=("key.podUID",))


def records() -> Iterator[Frame]:
    full = {node: {"NodeAffinity": in_the_way(), "NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
    yield rows(a_table(NODES))
    failed = with_canaries(a_decision(pod=FAILED, rejected=full, owner=OWNER, sequence=1))
    yield failed
    yield from evictions(failed, 2)
    placed = with_canaries(
        a_decision(pod=PLACED, rejected={"worker-3": {"NodeAffinity": in_the_way()}}, owner=OWNER, sequence=4)
    )
    yield placed
    yield replace(bound(placed, a_table(NODES), sequence=5, status=Code.ERROR), message=SAID)
    watched = with_canaries(a_decision(pod=WATCHED, rejected=full, owner=OWNER, sequence=6))
    watched = replace(watched, key=replace(watched.key, source=Source.RECONSTRUCTED))
    yield watched
    yield rows(a_table(NODES), incarnation="of-a-log")
    yield of_the_log(watched, 1)
    older = a_decision(pod=OLDER, rejected={n: {"NodeName": CORDONED} for n in NODES}, owner=OWNER, sequence=7)
    yield replace(older, message=f"running PreFilter plugin: {SAID}")
    gpu = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "example.com/gpu"}),))
    yield a_decision(pod=PLAIN, rejected={n: {"NodeResourcesFit": gpu} for n in NODES}, owner=OWNER, sequence=10)
    labels = {"app": CANARY}
    for sequence, rejected in ((8, full), (9, {})):
        owner = Owner("ReplicaSet", CANARY)
        other = a_decision(
            pod=f"{CANARY}-{sequence}", namespace="ci", owner=owner, labels=labels, rejected=rejected, sequence=sequence
        )
        yield with_canaries(replace(other, preemption=None))
    evicts = a_decision(pod=f"{CANARY}-11", namespace="ci", owner=owner, rejected=full, sequence=11)
    victims = (OF_CI, f"shop/{FAILED}")
    yield replace(evicts, preemption=Preemption("worker-1", (Candidate("worker-1", victims, 0),), evicted=True))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`ada` reads shop, and what is told of nodes; `root` reads everything."""
    allowed = {("ada", verb, resource, "shop") for verb, resource in IN_SHOP | {("create", "placementreviews")}}
    allowed |= {("ada", verb, resource, "") for verb, resource in CLUSTER_WIDE} | {("ada", "get", "/metrics", "")}
    allowed |= {
        ("root", verb, resource, "*") for verb, resource in IN_SHOP | CLUSTER_WIDE | {("create", "placementreviews")}
    }
    api = Reviewer(tokens={"ada's": ("ada", ""), "root's": ("root", "")}, allowed=allowed)
    opened = a_service(tmp_path_factory.mktemp("service"), access=api.access())
    opened.stored(*records())
    yield opened
    opened.store.close()


def paths(rule: Rule, ids: tuple[str, ...]) -> list[str]:
    values = {
        "namespace": ("shop",),
        "pod": (*PODS, *ids, NEAR, "checkout"),
        "name": (*PODS, *ids, NEAR, "main.js"),
        "node": ("worker-1", "worker-3", NEAR),
        "workload": ("replicaset.checkout-7d9f", f"replicaset.{NEAR}", "deployment.checkout"),
    }
    names = sorted(rule.arguments)
    built = []
    for chosen in itertools.product(*(values[name] for name in names)):
        path = rule.rule
        for name, value in zip(names, chosen, strict=True):
            path = path.replace(f"<{name}>", value)
        built.append(path)
    return built


def answers(service: Service, rule: Rule, token: str) -> Iterator[tuple[str, TestResponse]]:
    ids = tuple(d.id for d in records() if isinstance(d, Decision) and d.pod.namespace == "shop")
    for path in paths(rule, ids):
        for query in QUERIES:
            if "watch" in query and "decisions" not in path:
                continue
            for form in FORMS if "watch" in query or not query or "includeObject" in query else FORMS[:1]:
                headers = bearer(token) | {"Accept": form}
                yield f"{path} {query} {form}", service.client.get(path, query_string=query, headers=headers)


def reviewed(service: Service, rule: Rule, token: str) -> Iterator[tuple[str, TestResponse]]:
    full = {node: {"NodeAffinity": in_the_way()} for node in NODES}
    frames = [rows(a_table(NODES)), with_canaries(a_decision(pod="web", rejected=full))]
    for path in paths(rule, ()):
        with answering(service, *frames).working():
            yield path, service.client.post(path, json=review(allNodes=True), headers=bearer(token))


def asked(service: Service, token: str) -> Iterator[tuple[str, str, TestResponse]]:
    """Every answer of every route but those of senders, by its rule."""
    for rule in service.client.application.url_map.iter_rules():
        if not rule.rule.startswith("/ingest/"):
            found = answers if "GET" in (rule.methods or ()) else reviewed
            for what, answer in found(service, rule, token):
                yield rule.rule, what, answer


@pytest.fixture(scope="module")
def of_ada(service: Service) -> list[tuple[str, str, int, str]]:
    return [(rule, what, a.status_code, f"{a.headers}{a.text}") for rule, what, a in asked(service, "ada's")]


def test_no_route_names_a_pod_of_another_namespace(of_ada: list[tuple[str, str, int, str]]) -> None:
    assert not [what for _, what, _, text in of_ada if CANARY in text]


def test_every_route_answers_the_reader(of_ada: list[tuple[str, str, int, str]]) -> None:
    """Otherwise nothing would be tried. What is of every namespace is not for a reader of one."""
    answered = {rule for rule, _, code, _ in of_ada if code in (200, 201, 302)}
    refused = {rule for rule, *_ in of_ada} - answered
    assert refused == {f"{API}/decisions", f"{API}/agreements", f"{API}/pendingpods", f"{API}/preemptions"}
    assert not [what for _, what, code, _ in of_ada if code >= 500]


def test_cluster_wide_reader_sees_every_value(service: Service) -> None:
    """The canary is where a record can hold it."""
    told = {rule for rule, _, answer in asked(service, "root's") if CANARY in answer.text}
    assert told >= {
        f"{API}/preemptions",
        f"{SHOP}/preemptions",
        f"{API}/decisions",
        f"{API}/pendingpods",
        f"{API}/nodehistories/<node>",
        f"{SHOP}/decisions",
        f"{SHOP}/decisions/<name>",
        f"{SHOP}/podexplanations/<pod>",
        f"{SHOP}/podhistories/<pod>",
        f"{SHOP}/pendingpods",
        f"{SHOP}/placementreviews",
        f"{SHOP}/workloadplacements/<workload>",
    }


def test_message_without_names_is_shown(of_ada: list[tuple[str, str, int, str]]) -> None:
    message = "0/3 nodes are available: 3 Insufficient example.com/gpu."
    shown = {rule for rule, _, _, text in of_ada if message in text}
    assert shown == {
        f"{SHOP}/decisions",
        f"{SHOP}/decisions/<name>",
        f"{SHOP}/podexplanations/<pod>",
        f"{SHOP}/podhistories/<pod>",
        f"{SHOP}/pendingpods",
        f"{SHOP}/workloadplacements/<workload>",
    }
