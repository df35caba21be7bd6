"""The transport through the API server: kubectl's arguments and failures, with a script and with a real kubectl."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herodotus_answers.pending import PendingPod, apply_live, build_pending_pods
from herodotus_cli import not_found
from tests.cli.scenes import NOW, placed
from tests.cli.service import API, PROXY, Service, command
from tests.support.answers import as_json
from tests.support.documents import EVICTED
from tests.support.kubectls import KUBECTLS

POD = "checkout-7d9f-x2k"
EXPLANATION = f"{API}/namespaces/shop/podexplanations/{POD}"
IS_IT_RUNNING = "  is it running?  kubectl -n herodotus get pods\n"
WHICH_ONE = (
    "  which cluster is it?  kubectl cluster-info; KUBECONFIG, --kubeconfig and --context name another\n"
    "  or ask the decisions service directly: --endpoint URL\n"
)
AT = NOW.isoformat(timespec="microseconds")
Fake = Callable[..., dict[str, str]]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Return a fake kubectl that prints `stderr` on stderr and exits 1, or runs `script`; it logs its arguments."""

    def make(stderr: str = "", script: str = "exit 1") -> dict[str, str]:
        path = tmp_path / "fake-kubectl"
        path.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\ncat >&2 <<'END'\n{stderr}\nEND\n{script}\n"
        )
        path.chmod(0o755)
        return {"KUBECTL_PATH": str(path), "HOME": str(tmp_path)}

    return make


def said_by(environ: dict[str, str]) -> list[str]:
    return Path(environ["KUBECTL_PATH"]).with_name("arguments").read_text().splitlines()


def failed(capsys: pytest.CaptureFixture[str], environ: dict[str, str], *more: str) -> str:
    ran = command("pod", POD, "-n", "shop", *more, environ=environ)
    assert (ran.code, ran.out) == (1, "")
    return capsys.readouterr().err


def test_kubectl_arguments(fake: Fake) -> None:
    environ = fake(script=f'echo \'{{"kind": "PodExplanation", "metadata": {{"name": "{POD}"}}}}\'')
    options = (
        "--as",
        "u",
        "--as-group",
        "g",
        "--as-group",
        "h",
        "--context",
        "c1",
        "--kubeconfig",
        "k1",
        "--service",
        "ops/https:decisions:443",
        "--all",
    )
    assert command("pod", POD, "-n", "shop", "-o", "name", *options, environ=environ).out == f"pod/{POD}\n"
    path = f"/api/v1/namespaces/ops/services/https:decisions:443/proxy{EXPLANATION}?all=true"
    as_whom = ["--as=u", "--as-group=g", "--as-group=h"]
    assert said_by(environ) == ["get", "--raw", path, "--context=c1", *as_whom, "--kubeconfig=k1"]


def test_reads_service_from_environment(fake: Fake) -> None:
    environ = fake() | {"HERODOTUS_SERVICE": "ops/decisions:80"}
    command("node", "worker-1", environ=environ)
    path = f"/api/v1/namespaces/ops/services/https:decisions:80/proxy{API}/nodehistories/worker-1?since=86400"
    assert said_by(environ)[2] == path


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ('error: context "nope" does not exist', 'error: context "nope" does not exist\n'),
        (
            'Error from server (ServiceUnavailable): no endpoints available for service "herodotus-endpoint"',
            "error: the decisions service did not answer"
            ' (kubectl: no endpoints available for service "herodotus-endpoint")\n' + IS_IT_RUNNING,
        ),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
            "error: the decisions service did not answer"
            " (kubectl: the server is currently unable to handle the request)\n" + IS_IT_RUNNING,
        ),
        (
            'Error from server (NotFound): services "herodotus-endpoint" not found',
            'error: the decisions service did not answer (kubectl: services "herodotus-endpoint" not found)\n'
            + IS_IT_RUNNING
            + "  is it elsewhere?  --service NAMESPACE/NAME:PORT (HERODOTUS_SERVICE) or --endpoint URL\n",
        ),
        (
            'Error from server (Forbidden): services "x" is forbidden: User "u" cannot get resource "services/proxy"',
            'Error from server (Forbidden): services "x" is forbidden: User "u" cannot get resource "services/proxy"\n'
            "  needed: get on services/proxy, https:herodotus-endpoint:8000 in namespace herodotus\n"
            "  or evaluate the cluster with your own rights: --local\n",
        ),
        (
            "Error from server (NotFound): the server could not find the requested resource",
            "error: the decisions service does not serve this resource\n"
            "  compare the versions: kubectl herodotus version\n",
        ),
        ("Error from server (BadRequest): no", "Error from server (BadRequest): no\n"),
        (
            'The request is invalid: change 1 (Drain): nodes "x" not found',
            'Error from server (Invalid): change 1 (Drain): nodes "x" not found\n',
        ),
        (
            "E1121 a log line\nThe connection to the server 10.0.0.1:6443 was refused - did you specify it right?",
            "error: the API server did not answer"
            " (kubectl: The connection to the server 10.0.0.1:6443 was refused - did you specify it right?)\n"
            + WHICH_ONE,
        ),
        ("", "error: the API server did not answer (kubectl: it failed without a message)\n" + WHICH_ONE),
    ],
    ids=[
        "context",
        "endpoints",
        "unavailable",
        "no-service",
        "forbidden",
        "no-route",
        "other",
        "invalid",
        "api-server",
        "silent",
    ],
)
def test_translates_kubectl_errors(fake: Fake, capsys: pytest.CaptureFixture[str], stderr: str, expected: str) -> None:
    assert failed(capsys, fake(stderr)) == expected


def test_time_limit_ends_hanging_kubectl(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    err = failed(capsys, fake(script="exec sleep 60"), "--request-timeout", "200ms")
    assert err.startswith("error: the decisions service did not answer (kubectl: no response within 0.2s)\n")


def test_reports_missing_kubectl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    assert failed(capsys, environ).startswith("error: kubectl is not on PATH\n")
    environ["KUBECTL_PATH"] = str(tmp_path / "gone")
    assert failed(capsys, environ) == f"error: cannot run kubectl ({tmp_path}/gone): No such file or directory\n"


@pytest.fixture(params=[k for k in KUBECTLS if os.access(k, os.X_OK)], ids=lambda k: Path(k).parent.parent.name)
def real(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a real kubectl with a kubeconfig for the test's service."""
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u, namespace: shop}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{service.url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    )
    return {"KUBECTL_PATH": request.param, "KUBECONFIG": str(config), "HOME": str(tmp_path)}


@pytest.fixture
def as_kubectl_sees_it(real: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in real.items():
        monkeypatch.setenv(name, value)
    return real


def test_answer_through_a_real_kubectl(service: Service, as_kubectl_sees_it: dict[str, str]) -> None:
    service.answer(f"{EXPLANATION}?node=worker-3", placed(node="worker-3"))
    ran = command("pod", POD, "--node", "worker-3", environ=as_kubectl_sees_it)
    requests = [path for path in service.requests if path.startswith(PROXY)]  # some ask for the server's version first
    assert (ran.code, requests) == (0, [f"{PROXY}{EXPLANATION}?node=worker-3"])
    assert "ranks 2 of 5, 21 points behind worker-7" in ran.out


def test_real_kubectl_keeps_all_hints(
    service: Service, as_kubectl_sees_it: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = f'no decision for pod "{POD}" in namespace "shop"'
    similar = [f'checkout-"quoted\\{i}' for i in range(5)] + ["a-long-name" * 20] * 10
    service.refuse(EXPLANATION, 404, "NotFound", words, similar=similar)
    assert failed(capsys, as_kubectl_sees_it).startswith(
        f"Error from server (NotFound): {words}\n  similar: {', '.join(similar[:5])}\n  if the pod exists: "
    )


EARLIER = "note: this is an earlier pod of that name; the pod that exists now has no decision yet\n"


@pytest.mark.parametrize(
    ("live", "more", "noted"),
    [
        ({"metadata": {"uid": "another"}, "spec": {}}, (), True),
        ({"metadata": {"uid": "another"}, "spec": {}}, ("--node", "worker-3"), True),
        ({"metadata": {"uid": placed()["metadata"]["uid"]}}, (), False),
        ({"metadata": {}}, (), False),
        (b"no document", (), False),
        (None, (), False),
        ({"metadata": {"uid": "another"}, "spec": {}}, ("-o", "json"), False),
        ({"metadata": {"uid": "another"}, "spec": {}}, ("--attempt", "1"), False),
    ],
    ids=["recreated", "node", "same", "no-uid", "no-json", "gone", "json", "attempt"],
)
def test_notes_that_the_pod_was_recreated(
    service: Service,
    as_kubectl_sees_it: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    live: Any,
    more: tuple[str, ...],
    noted: bool,
) -> None:
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    for query in ("", "?node=worker-3", "?attempt=1"):
        service.answer(EXPLANATION + query, placed(node="worker-3" if "node" in query else ""))
    if live is not None:
        service.answer(f"/api/v1/namespaces/shop/pods/{POD}", live)
    ran = command("pod", POD, *more, environ=as_kubectl_sees_it)
    assert (ran.code, ran.out.startswith(EARLIER)) == (0, noted)
    assert ran.out.count("note: ") == noted


GATED = {
    "metadata": {
        "namespace": "shop",
        "name": "held",
        "uid": "u1",
        "creationTimestamp": "2026-03-01T11:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "nightly", "controller": True}],
    },
    "spec": {"schedulerName": "herodotus-scheduler", "schedulingGates": [{"name": "example.com/budget"}]},
}


@pytest.mark.parametrize(
    ("spec", "says", "shown"),
    [
        (
            {"schedulingGates": [{"name": "example.com/budget"}]},
            "Waits for its scheduling gates (example.com/budget)",
            "Waits for its scheduling gate example.com/budget",
        ),
        (
            {"nodeName": "worker-3"},
            "On worker-3: the pod was created with spec.nodeName",
            "Bound to worker-3, not running: the pod was created with spec.nodeName",
        ),
    ],
    ids=["gated", "node-name"],
)
def test_recreated_pod_that_no_scheduler_decides_is_explained(
    service: Service,
    as_kubectl_sees_it: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spec: dict[str, Any],
    says: str,
    shown: str,
) -> None:
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    service.answer(EXPLANATION, placed())
    metadata = {"namespace": "shop", "name": POD, "uid": "another", "creationTimestamp": "2026-03-01T11:00:00Z"}
    service.answer(f"/api/v1/namespaces/shop/pods/{POD}", {"kind": "Pod", "metadata": metadata, "spec": spec})
    has_node(service, "worker-3")
    ran = command("pod", POD, environ=as_kubectl_sees_it)
    assert ran.code == 0
    assert shown in ran.out
    assert capsys.readouterr().err == "note: an earlier pod of that name was decided (--attempts)\n"
    document = json.loads(command("pod", POD, "-o", "json", environ=as_kubectl_sees_it).out)
    live = document.pop("live")
    assert document == json.loads(json.dumps(placed()))
    assert (live["fate"], live["replacedBy"]["headline"].startswith(says)) == ("replaced", True)


UNTRIED = {
    "metadata": {"namespace": "shop", "name": "other", "uid": "u2", "creationTimestamp": "2026-03-01T11:00:00Z"},
    "spec": {"schedulerName": "my-scheduler"},
}
UNASSIGNED = "/api/v1/namespaces/shop/pods?fieldSelector=spec.nodeName%3D%2Cstatus.phase%3DPending"


@pytest.mark.parametrize(
    ("live", "names"),
    [
        ({"items": [GATED, {"metadata": {}, "spec": {}}]}, ["held"]),
        ({"items": []}, []),
        (b"no document", []),
        (None, []),
    ],
    ids=["gated", "none", "no-json", "forbidden"],
)
def test_lists_gated_pods_as_pending(
    service: Service, as_kubectl_sees_it: dict[str, str], live: Any, names: list[str]
) -> None:
    """Without the right to list pods, only recorded pods are listed."""
    waiting = PendingPod("shop", "db-0", "u0", None, "p", "Unschedulable", 1, 0, "", "d")
    service.answer(f"{API}/namespaces/shop/pendingpods?labelSelector=a%3Db", build_pending_pods([waiting], now_us=0))
    if live is not None:
        service.answer(f"{UNASSIGNED}&labelSelector=a%3Db&limit=500", live)
    ran = command("pending", "-n", "shop", "-l", "a=b", "-o", "name", environ=as_kubectl_sees_it)
    assert (ran.code, ran.out.split()) == (0, ["pod/db-0", *(f"pod/{name}" for name in names)])
    screen = command("pending", "-n", "shop", "-l", "a=b", environ=as_kubectl_sees_it, width=120).out
    assert ("schedulingGates: example.com/budget: shop/held" in screen) is bool(names)
    assert ("once its gates are removed" in screen) is bool(names)


def test_lists_pods_without_a_recorded_attempt_as_pending(service: Service, as_kubectl_sees_it: dict[str, str]) -> None:
    """A pod so new that its first record may be on its way is left out, and so is one that is being deleted."""
    new = {**UNTRIED, "metadata": UNTRIED["metadata"] | {"uid": "u3", "creationTimestamp": NOW.isoformat()}}
    ending = {**UNTRIED, "metadata": UNTRIED["metadata"] | {"uid": "u4", "deletionTimestamp": NOW.isoformat()}}
    answer = build_pending_pods([], now_us=int(NOW.timestamp()) * 1_000_000)
    service.answer(f"{API}/namespaces/shop/pendingpods", answer)
    service.answer(f"{UNASSIGNED}&limit=500", {"items": [UNTRIED, new, ending]})
    ran = command("pending", "-n", "shop", environ=as_kubectl_sees_it, width=120)
    assert "1 pod is pending." in ran.out
    assert "no attempt of my-scheduler is recorded: shop/other" in ran.out
    service.answer(f"{API}/namespaces/shop/pendingpods", answer | {"podsOmitted": 1})
    assert command("pending", "-n", "shop", "-o", "name", environ=as_kubectl_sees_it).out == ""


def zoned(node: str, zone: str) -> dict[str, Any]:
    return {"metadata": {"name": node, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}}}


@pytest.mark.parametrize(
    ("nodes", "zones"),
    [
        (
            {"items": [zoned("n1", "a"), zoned("n2", "b"), zoned("n3", "b")]},
            [{"zone": "b", "pods": 3}, {"zone": "a", "pods": 2}],
        ),
        ({"items": [zoned("n1", "a"), zoned("n2", "")]}, [{"zone": "a", "pods": 2}, {"zone": "", "pods": 3}]),
        ({"items": [zoned("n1", "")]}, None),
        (None, None),
    ],
    ids=["all", "some", "none", "forbidden"],
)
def test_workload_zones_come_from_present_nodes(
    service: Service, as_kubectl_sees_it: dict[str, str], nodes: Any, zones: Any
) -> None:
    """Records hold no node labels; without the right to list nodes there are no zones."""
    pods = [{"node": "n1", "pods": 2}, {"node": "n2", "pods": 2}, {"node": "n3", "pods": 1}]
    path = f"{API}/namespaces/shop/workloadplacements/deployment.web?since=86400"
    service.answer(path, {"kind": "WorkloadPlacement", "nodes": pods})
    if nodes is not None:
        selector = "kubernetes.io%2Fhostname+in+%28n1%2Cn2%2Cn3%29"  # as kubectl writes it
        service.answer(f"/api/v1/nodes?labelSelector={selector}&limit=500", nodes)
    ran = command("workload", "deploy/web", "-n", "shop", "-o", "json", environ=as_kubectl_sees_it)
    live = {"source": "kube-apiserver", "at": AT, "zones": zones} if zones else None
    assert (ran.code, json.loads(ran.out).get("live")) == (0, live)


def test_workload_without_decisions_is_answered_from_its_objects(
    service: Service, as_kubectl_sees_it: dict[str, str]
) -> None:
    words = 'no decision for deployment "web" in namespace "shop"'
    service.refuse(f"{API}/namespaces/shop/workloadplacements/deployment.web?since=86400", 404, "NotFound", words)
    meta = {"name": "web", "namespace": "shop", "creationTimestamp": "2026-03-01T11:00:00Z"}
    deployment = {"metadata": meta, "spec": {"replicas": 2, "paused": True, "template": {}}}
    service.answer("/apis/apps/v1/namespaces/shop/deployments/web", deployment)
    ran = command("workload", "shop/web", environ=as_kubectl_sees_it, width=80)
    assert ran.code == 0
    first, headline, *_ = ran.out.splitlines()
    assert first == "Deployment/web (shop)"
    assert "✗ 0 of 2 pods exist: Deployment web is paused, so it makes no ReplicaSet and no" in headline
    assert "kubectl rollout resume deployment/web -n shop" in ran.out
    brief = json.loads(command("workload", "deploy/web", "-n", "shop", "-o", "brief", environ=as_kubectl_sees_it).out)
    assert (brief["code"], brief["about"]) == ("paused", "Deployment")


def test_unknown_workload_is_an_error_with_similar_names_and_namespaces(
    service: Service, as_kubectl_sees_it: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = 'no decision for deployment "web" in namespace "shop"'
    service.refuse(f"{API}/namespaces/shop/workloadplacements/deployment.web?since=86400", 404, "NotFound", words)
    root = "/apis/apps/v1"
    for where, items in (("/namespaces/shop", [("web-1", "shop")]), ("", [("web-1", "shop"), ("web", "ci")])):
        listed = {"items": [{"metadata": {"name": name, "namespace": of}} for name, of in items]}
        service.answer(f"{root}{where}/deployments?limit=500", listed)
    service.answer(f"{root}/deployments?limit=1", {"items": []})  # the kind is served
    assert command("workload", "deploy/web", "-n", "shop", environ=as_kubectl_sees_it).code == 1
    assert capsys.readouterr().err == (
        'Error from server (NotFound): Deployment "web" not found in namespace "shop"\n'
        "  similar: deploy/web-1\n  in other namespaces: ci (deploy/web)\n"
    )


def test_slow_pod_lookup_delays_no_answer(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps(placed()))
    environ = fake(script=f"case $3 in */pods/*) exec sleep 100;; esac; cat {tmp_path}/answer")
    began = time.monotonic()
    assert command("pod", POD, "-n", "shop", environ=environ).code == 0
    assert time.monotonic() - began < 60


def test_real_kubectl_rejects_unknown_context(
    as_kubectl_sees_it: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = 'error: context "nope" does not exist\n'
    assert failed(capsys, as_kubectl_sees_it, "--context", "nope") == expected
    assert command("node", "x", "--context", "nope", environ=as_kubectl_sees_it).code == 1
    assert capsys.readouterr().err == expected


NAMED = {"name": "web", "namespace": "shop", "uid": "u1"}
WEB = {"kind": "Pod", "metadata": {**NAMED, "creationTimestamp": "2026-03-01T11:00:00Z"}}
NOT_DECIDED = 'Error from server (NotFound): no decision for pod "web" in namespace "shop"\n'
EXPLAINED = f"{API}/namespaces/shop/podexplanations/web"
LIVE = "/api/v1/namespaces/shop/pods/web"
WAITING = "note: the pod was just created; waiting for its first decision\n"


def undecided(service: Service) -> None:
    words = NOT_DECIDED.partition("): ")[2].strip()
    service.refuse(EXPLAINED, 404, "NotFound", words, similar=["web-1"], otherNamespaces=["ci"])


PROFILE = f"{API}/namespaces/shop/decisions?labelSelector=herodotus.dev%2Fprofile%3D{{}}&limit=1"  # as kubectl sorts it


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"schedulerName": "default-scheduler", "nodeName": "worker-1"},
            "the pod is on worker-1, and its schedulerName is default-scheduler:"
            " it is not recorded, spec.nodeName was set,"
            " another client bound it, or its record was pruned",
        ),
        (
            {"schedulerName": "mine"},
            "no decision of mine, its schedulerName, is recorded. To explain its pods, observe that scheduler"
            " (docs/observer.md) or set a schedulerName that is recorded. A recorded scheduler may be"
            " down, or may not have tried the pod yet",
        ),
    ],
    ids=["placed", "pending"],
)
@pytest.mark.parametrize("decisions", [{"items": [{}]}, None], ids=["recorded scheduler", "unknown scheduler"])
def test_pod_without_decision_for_unknown_cause_has_its_state(
    service: Service, as_kubectl_sees_it: dict[str, str], spec: dict[str, Any], why: str, decisions: Any
) -> None:
    undecided(service)
    if decisions:
        service.answer(PROFILE.format(spec["schedulerName"]), decisions)
    service.answer(LIVE, WEB | {"spec": spec, "status": {"conditions": [{"type": "PodScheduled"}]}})
    has_node(service, "worker-1")
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    state = "Bound to worker-1, not running" if spec.get("nodeName") else "Pending: waits for a node"
    assert (ran.code, ran.out.splitlines()[1].startswith(state)) == (0, True)
    assert ran.out.splitlines()[-1] == f"note: {why}"


@pytest.mark.parametrize("spec", [{"nodeName": "worker-1"}, {}], ids=["placed", "pending"])
def test_answers_about_pod_of_a_scheduler_without_records(
    service: Service, as_kubectl_sees_it: dict[str, str], spec: dict[str, Any]
) -> None:
    undecided(service)
    service.answer(PROFILE.format("default-scheduler"), {"items": []})
    pod = WEB | {"metadata": {**GATED["metadata"], "name": "web"}, "spec": spec}
    service.answer(LIVE, pod | {"status": {"conditions": [{"type": "PodScheduled"}]}})
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "web (shop)  Job/nightly  created 1h ago")
    assert ran.out.endswith("note: the pod belongs to default-scheduler, whose decisions are not recorded\n")
    assert "kubectl apply -f deploy/observer.yaml" in ran.out
    assert ("--local" in ran.out) is (not spec)
    document = json.loads(command("pod", "web", "-o", "json", environ=as_kubectl_sees_it).out)
    assert (document["kind"], document["node"]) == ("UndecidedPod", spec.get("nodeName"))


def has_node(service: Service, name: str) -> None:
    """Answer for a node that is ready."""
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    service.answer(f"/api/v1/nodes/{name}", {"metadata": {"name": name}, "spec": {}, "status": status})


OWNED: dict[str, Any] = {"managedFields": [{"fieldsV1": {"f:spec": {"f:nodeName": {}, "f:containers": {}}}}]}


@pytest.mark.parametrize(
    ("metadata", "status"),
    [({}, {}), (OWNED, {"conditions": [{"type": "PodScheduled"}]})],
    ids=["no condition", "managed field"],
)
def test_answers_about_pod_created_with_node_without_waiting(
    service: Service, as_kubectl_sees_it: dict[str, str], metadata: dict[str, Any], status: dict[str, Any]
) -> None:
    """No scheduler decides such a pod, and the kubelet's condition PodScheduled does not show who chose the node."""
    undecided(service)
    fresh = GATED["metadata"] | {"name": "web", "creationTimestamp": NOW.isoformat(), **metadata}
    service.answer(LIVE, {"kind": "Pod", "metadata": fresh, "spec": {"nodeName": "worker-1"}, "status": status})
    has_node(service, "worker-1")
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    first, headline, *_ = ran.out.splitlines()
    assert (ran.code, first) == (0, "web (shop)  Job/nightly  created 0s ago")
    assert headline.endswith("the pod was created with spec.nodeName worker-1, so no scheduler decided it.")


def test_answers_about_gated_pod(service: Service, as_kubectl_sees_it: dict[str, str]) -> None:
    undecided(service)
    held = GATED | {"kind": "Pod", "metadata": {**GATED["metadata"], "name": "web"}}
    service.answer(LIVE, held)
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == [
        "web (shop)  Job/nightly  created 1h ago, never tried",
        "Waits for its scheduling gate example.com/budget: no scheduler tries the pod before it is removed.",
    ]
    assert command("pod", "web", "-o", "name", environ=as_kubectl_sees_it).out == "pod/web\n"
    document = json.loads(command("pod", "web", "-o", "json", environ=as_kubectl_sees_it).out)
    assert (document["kind"], document["schedulingGates"]) == ("UndecidedPod", ["example.com/budget"])


RUNNING: dict[str, Any] = {
    "phase": "Running",
    "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
}


def test_timeline_has_the_recorded_attempts_at_this_pod(
    service: Service, as_kubectl_sees_it: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    uid = placed()["metadata"]["uid"]
    meta = {"name": POD, "namespace": "shop", "uid": uid, "creationTimestamp": "2026-03-01T11:00:00Z"}
    pod = {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "worker-7", "containers": []}, "status": RUNNING}
    attempt = {"startedAt": "2026-03-01T11:00:01Z", "number": 1, "state": "Bound", "node": "worker-7", "message": ""}
    history = {"metadata": {"uid": uid}, "attempts": [attempt | {"profile": "p"}]}
    service.answer(EXPLANATION, placed())
    service.answer(f"/api/v1/namespaces/shop/pods/{POD}", pod)
    service.answer("/api/v1/nodes/worker-7", {"kind": "Node", "metadata": {"name": "worker-7"}})
    service.answer(f"{API}/namespaces/shop/podhistories/{POD}", history)
    ran = command("pod", POD, "--timeline", environ=as_kubectl_sees_it)
    assert (ran.code, "Runs on worker-7 and is ready" in ran.out) == (0, True)
    assert [line.split()[0] for line in ran.out.splitlines()[-3:]] == ["AGE", "1h", "1h"]
    assert ran.out.endswith("attempt 1: Bound on worker-7\n")
    document = json.loads(command("pod", POD, "--timeline", "-o", "json", environ=as_kubectl_sees_it).out)
    assert [entry["source"] for entry in document["live"]["state"]["timeline"]] == [
        "metadata.creationTimestamp",
        "record of p",
    ]
    service.refuse(f"/api/v1/namespaces/shop/pods/{POD}", 404, "NotFound", f'pods "{POD}" not found')
    ran = command("pod", POD, "--timeline", environ=as_kubectl_sees_it)
    assert (ran.code, ran.out.splitlines()[0]) == (
        0,
        "note: this pod no longer exists: it was deleted after this decision",
    )
    assert "attempt 1: Bound on worker-7\n" in ran.out
    service.refuse(f"/api/v1/namespaces/shop/pods/{POD}", 403, "Forbidden", "pods is forbidden")
    assert command("pod", POD, "--timeline", environ=as_kubectl_sees_it).code == 1
    assert "--attempts" in capsys.readouterr().err


def test_pod_that_runs_well_takes_no_further_request(service: Service, as_kubectl_sees_it: dict[str, str]) -> None:
    meta = {"name": POD, "namespace": "shop", "uid": placed()["metadata"]["uid"]}
    pod = {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "worker-7", "containers": []}, "status": RUNNING}
    service.answer(EXPLANATION, placed())
    service.answer(f"/api/v1/namespaces/shop/pods/{POD}", pod)
    assert "state" not in json.loads(command("pod", POD, "-o", "json", environ=as_kubectl_sees_it).out)["live"]
    assert len(service.requests) == 2
    waiting = {"phase": "Pending", "conditions": RUNNING["conditions"][:1]}
    service.answer(f"/api/v1/namespaces/shop/pods/{POD}", pod | {"status": waiting})
    service.answer("/api/v1/nodes/worker-7", {"kind": "Node", "metadata": {"name": "worker-7"}})
    live = json.loads(command("pod", POD, "-o", "json", environ=as_kubectl_sees_it).out)["live"]
    assert live["state"]["code"] == "pod-starting"


def waits(name: str, uid: str, created_s: int) -> PendingPod:
    us = int(NOW.timestamp() - created_s) * 1_000_000
    return PendingPod("shop", name, uid, None, "p", "Unschedulable", 1, us, "0/3 nodes", name, created_us=us)


def unassigned(*uids: str, more: str = "") -> dict[str, Any]:
    created = {"namespace": "shop", "creationTimestamp": NOW.isoformat()}  # too new to be missed among the records
    items = [{"metadata": {"uid": uid, "name": uid, **created}, "spec": {}} for uid in uids]
    return {"metadata": {"continue": more} if more else {}, "items": items}


@pytest.mark.parametrize(
    ("live", "words"),
    [
        pytest.param("NotFound", "deleted since", id="deleted"),
        pytest.param("Forbidden", "deleted or placed since", id="unknown"),
        pytest.param("u2", "placed since", id="placed"),
        pytest.param("u4", "deleted since, and created again with the same name", id="recreated"),
    ],
)
@pytest.mark.parametrize("labels", ["", "a=b"])
def test_omits_deleted_pods_from_pending(
    service: Service,
    as_kubectl_sees_it: dict[str, str],
    labels: str,
    live: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest pod may be newer than the list of pods, which is read at the same time."""
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    path = "/api/v1/namespaces/shop/pods/gone"
    if live.startswith("u"):
        service.answer(path, {"kind": "Pod", "metadata": {"uid": live}})
    else:
        service.refuse(path, {"NotFound": 404}.get(live, 403), live, 'pods "gone" not found')
    now_us = int(NOW.timestamp()) * 1_000_000
    pods = [waits("here", "u1", 300), waits("gone", "u2", 300), waits("young", "u3", 2)]
    query = f"?labelSelector={labels.replace('=', '%3D')}" if labels else ""
    service.answer(f"{API}/namespaces/shop/pendingpods{query}", build_pending_pods(pods, now_us=now_us))
    service.answer(f"{UNASSIGNED}&limit=500", unassigned("u1", "other"))
    selector = ("-l", labels) if labels else ()
    ran = command("pending", "-n", "shop", *selector, environ=as_kubectl_sees_it)
    assert ran.out.splitlines()[0] == (f"2 pods are pending. 1 {words}: shop/gone (last tried 5m ago).")
    document = json.loads(command("pending", "-n", "shop", *selector, "-o", "json", environ=as_kubectl_sees_it).out)
    answer = json.loads(service.answers[f"{API}/namespaces/shop/pendingpods{query}"][1])
    shown = as_json(apply_live(document))
    assert [pod["pod"] for pod in document.pop("live")["gone"]] == ["gone"]
    assert document == answer
    assert shown["count"] == sum(group["count"] for group in shown["groups"]) == 2
    assert [pod["pod"] for pod in shown["pods"]] == ["here", "young"]


def test_an_incomplete_list_of_pods_removes_none(service: Service, as_kubectl_sees_it: dict[str, str]) -> None:
    now_us = int(NOW.timestamp()) * 1_000_000
    service.answer(f"{API}/namespaces/shop/pendingpods", build_pending_pods([waits("a", "u1", 300)], now_us=now_us))
    service.answer(f"{UNASSIGNED}&limit=500", unassigned(more="next"))
    ran = command("pending", "-n", "shop", "-o", "name", environ=as_kubectl_sees_it)
    assert ran.out == "pod/a\n"


def test_notes_that_the_pod_was_deleted(
    service: Service, as_kubectl_sees_it: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    service.answer(EXPLANATION, placed())
    service.refuse(f"/api/v1/namespaces/shop/pods/{POD}", 404, "NotFound", f'pods "{POD}" not found')
    ran = command("pod", POD, environ=as_kubectl_sees_it)
    note, state, *_ = ran.out.splitlines()
    assert note == "note: this pod no longer exists: it was deleted after this decision"
    assert re.search(r"scheduled \S+ ago, deleted since, attempt 1$", state)
    document = json.loads(command("pod", POD, "-o", "json", environ=as_kubectl_sees_it).out)
    assert document.pop("live") == {"source": "kube-apiserver", "at": AT, "fate": "deleted"}
    assert document == json.loads(json.dumps(placed()))


def test_evicted_pod_names_its_preemptor(
    service: Service, as_kubectl_sees_it: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    answer = placed()
    service.answer(EXPLANATION, answer)
    service.refuse(f"/api/v1/namespaces/shop/pods/{POD}", 404, "NotFound", f'pods "{POD}" not found')
    ran = command("pod", POD, environ=as_kubectl_sees_it)
    assert ran.out.startswith("note: this pod no longer exists")
    service.answer(EXPLANATION, answer | {"preemptedBy": EVICTED})
    ran = command("pod", POD, environ=as_kubectl_sees_it)
    assert (ran.code, ran.out.splitlines()[0]) == (
        0,
        "Evicted from worker-7 5s ago to make room for vip/big-0 (priority 1000, attempt 3):"
        " kubectl herodotus pod vip/big-0 --attempt 3",
    )


def test_names_similar_pods_of_missing_pod(
    service: Service, as_kubectl_sees_it: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    undecided(service)
    service.refuse(LIVE, 404, "NotFound", 'pods "web" not found')
    assert command("pod", "web", environ=as_kubectl_sees_it).code == 1
    assert capsys.readouterr().err == (
        f"{NOT_DECIDED}  similar: web-1\n  in other namespaces: ci\n"
        "  the API server has no such pod in namespace shop either\n"
    )


def test_waits_for_first_decision_of_new_pod(
    service: Service,
    as_kubectl_sees_it: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(not_found, "RETRY_INTERVAL_S", 0.0)
    undecided(service)
    uid = placed()["metadata"]["uid"]
    fresh = {**NAMED, "uid": uid, "creationTimestamp": (NOW - timedelta(seconds=2)).isoformat()}
    service.answer(LIVE, WEB | {"metadata": fresh, "spec": {"schedulerName": "mine"}})
    is_fresh = not_found._is_fresh

    def decided_meanwhile(pod: dict[str, Any], now: datetime) -> bool:
        service.answer(EXPLAINED, placed())
        return is_fresh(pod, now)

    monkeypatch.setattr(not_found, "_is_fresh", decided_meanwhile)
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    assert (ran.code, capsys.readouterr().err) == (0, WAITING)
    assert ran.out.startswith(POD)


def test_wait_for_first_decision_has_a_limit(
    service: Service,
    as_kubectl_sees_it: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(not_found, "FIRST_DECISION_TIMEOUT_S", 0.0)
    undecided(service)
    fresh = {**NAMED, "creationTimestamp": NOW.isoformat()}
    service.answer(LIVE, WEB | {"metadata": fresh, "spec": {"schedulerName": "mine"}})
    ran = command("pod", "web", environ=as_kubectl_sees_it)
    assert (ran.code, "note: no decision of mine" in ran.out) == (0, True)
    assert capsys.readouterr().err == WAITING


def test_in_the_demo_the_hints_name_its_installer(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No pod runs the demo's service, so `kubectl get pods` would show nothing."""
    (tmp_path / "herodotus" / "demo").mkdir(parents=True)
    (tmp_path / "herodotus" / "installed").write_text("script /src/install.sh\nprefix /opt/my demo\n")
    installer = "/src/install.sh --prefix '/opt/my demo'"
    demo = {"KUBECONFIG": str(tmp_path / "herodotus" / "demo" / "kubeconfig")}
    service_down = 'Error from server (ServiceUnavailable): no endpoints available for service "herodotus-endpoint"'
    hint = f"the demo's service may have ended; start it again: {installer} --demo-restart endpoint\n"
    assert hint in failed(capsys, fake(service_down) | demo)
    cluster_down = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
    err = failed(capsys, fake(cluster_down) | demo)
    assert f"the demo may have ended; start it again: {installer} --demo\n" in err
    assert "get pods" not in err + hint


def test_a_folder_named_demo_without_an_installation_is_no_demo(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service_down = 'Error from server (ServiceUnavailable): no endpoints available for service "herodotus-endpoint"'
    environ = fake(service_down) | {"KUBECONFIG": str(tmp_path / "demo" / "kubeconfig")}
    assert IS_IT_RUNNING in failed(capsys, environ)
