"""One question has one document: from the service, from its Python client, and from the plugin with -o json.

Only `live` may be added, by the plugin, and only to answers for which it read the API server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

import herodotus_client as api
from herodotus_cli.commands.pod import keep_newest_per_pod
from herodotus_cli.transport import close
from herodotus_client import Client, Question, api_paths
from herodotus_local.service import LocalAnswer, LocalService
from herodotus_record.model import (
    Agreement,
    Candidate,
    Cause,
    Decision,
    Frame,
    Owner,
    PodGroupCycle,
    Preemption,
    Reconstruction,
    Retry,
    Source,
)
from herodotus_serving.threads import serve_in_thread
from herodotus_sim import SimulatedCluster
from tests.builders import MONDAY_US, a_decision, bound
from tests.cli.service import PROXY, command, status
from tests.endpoint.service import a_service, rows
from tests.support.answering_scheduler import POD, answering, packed, placed
from tests.support.breadth import widen
from tests.support.client_records import NOWHERE, POINTS, TABLE
from tests.support.cluster_answering_scheduler import ClusterAnsweringScheduler

Json = dict[str, Any]
MINUTE_US = 60_000_000
WEB = Owner("ReplicaSet", "web-5484d601e6")
WEB_LABELS = {"app": "web", "pod-template-hash": "5484d601e6"}
HOUR = ("--since", "2h")
REVIEWED = {**POD, "metadata": {"name": "web", "namespace": "shop"}}


class Case(NamedTuple):
    """A command line of the plugin, and the same question of the Python client."""

    words: tuple[str, ...]
    question: Question[Any]


def case(question: Question[Any], *words: str) -> Case:
    return Case(words, question)


# --- the records ----------------------------------------------------------------------------------------------------


def decided(pod: str, sequence: int, **given: Any) -> Decision:
    return a_decision(pod=pod, sequence=sequence, started_us=MONDAY_US + sequence * MINUTE_US // 4, **given)


def list_frames() -> list[Frame]:
    """Return records of each kind: placed, pending, retried, evicted, of a group, observed, and of other namespaces."""
    web: Json = {"owner": WEB, "labels": WEB_LABELS}
    first = decided("web-1", 1, rejected=NOWHERE, **web)
    second = decided("web-1", 2, attempt=2, points=POINTS, **web)
    low = decided("low-0", 4, points=POINTS)
    alone = decided("alone-0", 5, rejected={node: NOWHERE[node] for node in ("worker-1", "worker-2")})
    waits = decided("web-2", 6, rejected=NOWHERE, **web)
    waits = replace(waits, retry=Retry("backoff", MONDAY_US + 9 * MINUTE_US, None))
    preemptor = decided("big-0", 7, rejected=NOWHERE, namespace="batch")
    candidates = (Candidate("worker-2", ("shop/low-0",), 1),)
    preemptor = replace(preemptor, preemption=Preemption("worker-2", candidates, True))
    members = [
        replace(d, pod=replace(d.pod, pod_group="train"), group_cycle=PodGroupCycle(1, i, 2, 0, 2))
        for i, d in enumerate((decided("train-1", 8), decided("train-2", 9, rejected=NOWHERE)), start=1)
    ]
    observed = decided("seen-0", 10, namespace="batch", profile="default-scheduler")
    observed = replace(
        observed,
        key=replace(observed.key, source=Source.RECONSTRUCTED),
        reconstruction=Reconstruction(Agreement.DISAGREE, Cause.SAMPLING),
    )
    results = [bound(second, TABLE, sequence=20), bound(low, TABLE, sequence=21), bound(alone, TABLE, sequence=22)]
    return [rows(TABLE), first, second, low, alone, waits, preemptor, *members, observed, *results]


PODS = {
    "web-1": "shop",
    "web-2": "shop",
    "low-0": "shop",
    "alone-0": "shop",
    "train-1": "shop",
    "train-2": "shop",
    "big-0": "batch",
    "seen-0": "batch",
}


def list_pod_cases() -> Iterator[Case]:
    for pod, ns in PODS.items():
        words = ("pod", pod, "-n", ns)
        yield case(api.explain_pod(ns, pod), *words)
        yield case(api.explain_pod(ns, pod, every_node=True), *words, "--all")
        yield case(api.explain_pod(ns, pod, node="worker-2"), *words, "--node", "worker-2")
        yield case(api.explain_pod(ns, pod, attempt=1), *words, "--attempt", "1")
        yield case(api.list_pod_attempts(ns, pod), *words, "--attempts")
        yield case(api.read_decision(ns, pod), *words, "--full")


def list_other_cases(manifest: str) -> Iterator[Case]:
    day = api_paths.DecisionSelector()
    yield case(Question(api_paths.decisions("batch", selector=day, limit=500)), "pod", "-n", "batch")
    yield case(api.list_decisions("shop", labels="app=none"), "pod", "-n", "shop", "-l", "app=none")
    yield case(api.read_decision("shop", "web-1", attempt=2), "pod", "web-1", "-n", "shop", "--full", "--attempt", "2")
    yield case(api.list_pending_pods(), "pending", "-A")
    yield case(api.list_pending_pods("shop"), "pending", "-n", "shop")
    yield case(api.list_pending_pods("shop", labels="app=web"), "pending", "-n", "shop", "-l", "app=web")
    yield case(api.list_pending_pods("none"), "pending", "-n", "none")
    for node in ("worker-1", "worker-2", "worker-3"):
        yield case(api.explain_node(node), "node", node)
    yield case(api.explain_node("worker-2", since_s=7200), "node", "worker-2", *HOUR)
    yield case(api.explain_workload("shop", "Deployment", "web"), "workload", "deploy/web", "-n", "shop")
    yield case(
        api.explain_workload("shop", "ReplicaSet", WEB.name, since_s=7200),
        *("workload", f"rs/{WEB.name}", "-n", "shop", *HOUR),
    )
    yield case(api.explain_pod_group("shop", "train"), "podgroup", "train", "-n", "shop")
    yield case(api.compare_pods("shop", "web-1", "web-2"), "compare", "pod", "web-1", "web-2", "-n", "shop")
    yield case(api.compare_pods("shop", "low-0", "alone-0"), "compare", "pod", "low-0", "alone-0", "-n", "shop")
    for pod in ("web-1", "web-2"):
        nodes = ("worker-1", "worker-2")
        yield case(
            api.compare_nodes("shop", pod, *nodes), "compare", "pod", pod, "-n", "shop", "--nodes", "worker-1", nodes[1]
        )
    yield case(api.balance(), "balance")
    yield case(api.balance(since_s=7200), "balance", *HOUR)
    yield case(api.balance(weights={"NodeResourcesFit": 3}), "balance", "--weights", "NodeResourcesFit=3")
    yield case(api.balance(labels="app=web"), "balance", "-l", "app=web")
    yield case(api.agreements(), "disagreements", "-A")
    yield case(api.agreements("batch", since_s=7200), "disagreements", "-n", "batch", *HOUR)
    yield case(api.agreements(scheduler="default-scheduler"), "disagreements", "-A", "--scheduler", "default-scheduler")
    yield case(api.list_preemptions(), "preemptions", "-A")
    yield case(api.list_preemptions("shop"), "preemptions", "-n", "shop")
    yield case(api.list_preemptions("batch", since_s=7200), "preemptions", "-n", "batch", *HOUR)
    yield case(api.list_clusters(), "clusters")
    review = {"object": REVIEWED}
    yield case(api.review_placement("shop", review), "whatif", "-f", manifest, "-n", "shop")
    yield case(
        api.review_placement("shop", review | {"node": "worker-1"}),
        *("whatif", "-f", manifest, "-n", "shop", "--node", "worker-1"),
    )
    drain = {"kind": "Drain", "nodes": ["worker-1"]}
    yield case(api.review_cluster({"changes": [drain]}), "whatif", "drain", "worker-1")
    yield case(api.review_cluster({"changes": [{"kind": "Uncordon", "nodes": ["worker-1"]}]}), *_uncordon())
    yield case(api.review_cluster({"consolidate": {}}), "consolidate")
    yield case(api.review_cluster({"capacity": {"object": REVIEWED}}), "capacity", "-f", manifest, "-n", "shop")
    yield case(api.review_cluster({"nodeGroups": {}}), "nodegroups")
    yield case(api.review_cluster({"nodeGroups": {"pods": ["shop/web-2"]}}), "nodegroups", "pod", "web-2", "-n", "shop")


def _uncordon() -> Sequence[str]:
    return ("whatif", "uncordon", "worker-1")


MANIFEST = "MANIFEST"  # in place of the path of a file
CASES = [*list_pod_cases(), *list_other_cases(MANIFEST)]
# The questions for which the plugin reads the API server, if it reaches it.
LIVE = [
    *(c for c in CASES if c.words[0] == "pod" and len(c.words) > 3 and not {"--attempt", "--full", "-l"} & {*c.words}),
    *(c for c in CASES if c.words[0] in ("pending", "workload")),
]
NOT_LIVE = [c for c in CASES if c not in LIVE and c.words[0] != "capacity"][::3]


# --- the service ----------------------------------------------------------------------------------------------------


class Served(NamedTuple):
    """A decisions service: its URL, and the kubeconfig of an API server before it. `manifest` is a file."""

    url: str
    kubeconfig: Path
    manifest: Path


class ApiServer:
    """An API server with the nodes of the records, and with one pending pod beside one that is placed meanwhile.

    The pod `low-0` no longer exists, and another pod has the name `alone-0`.
    """

    def __call__(self, environ: Json, start: Any) -> list[bytes]:
        found = self._find(environ["PATH_INFO"])
        unknown = status(404, "NotFound", f'pods "{environ["PATH_INFO"].rpartition("/")[2]}" not found')
        start("200 OK" if found else "404 Not Found", [("Content-Type", "application/json")])
        return [json.dumps(found or unknown).encode()]

    def _find(self, path: str) -> Json | None:
        if path == "/api/v1/nodes":
            zone = {"topology.kubernetes.io/zone": "a"}
            return {"items": [{"metadata": {"name": name, "labels": zone}} for name in TABLE.names]}
        if path.endswith("/pods"):
            gated = self._pod("shop", "held", "u", schedulingGates=[{"name": "example.com/gate"}])
            return {"items": [gated, self._pod("shop", "web-2", "uid-shop-web-2")]}
        *_, namespace, kind, name = path.split("/")
        if kind != "pods" or name not in PODS or name == "low-0":
            return None
        node = {} if name in ("web-2", "train-2", "big-0") else {"nodeName": "worker-2"}
        uid = "another" if name == "alone-0" else f"uid-{namespace}-{name}"
        return self._pod(namespace, name, uid, **node) | {"kind": "Pod"}

    def _pod(self, namespace: str, name: str, uid: str, **spec: Any) -> Json:
        created = {"creationTimestamp": "2026-03-01T11:00:00Z"}
        conditions = [{"type": "PodScheduled", "status": "True"}]
        metadata = {"namespace": namespace, "name": name, "uid": uid, **created}
        return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("equal")
    service = a_service(folder)
    service.stored(*list_frames())
    manifest = folder / "pod.json"
    manifest.write_text(json.dumps(REVIEWED))
    scheduler, placing = ClusterAnsweringScheduler(service), answering(service)

    def answer(question: Json) -> None:
        if question.get("kind") == "ClusterReview":
            scheduler.answer(question)
        else:
            placing.lay_down(question["id"], packed(*placed()))

    around: Any = DispatcherMiddleware(ApiServer(), {PROXY: service.client.application})
    alone = make_server("127.0.0.1", 0, service.client.application, threaded=True)
    behind = make_server("127.0.0.1", 0, around, threaded=True)
    with serve_in_thread(alone) as url, serve_in_thread(behind) as server, scheduler.working(answer):
        config = folder / "kubeconfig"
        config.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: k, user: u, namespace: shop}}]\n"
            f"clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        )
        yield Served(url, config, manifest)
    service.store.close()


def ask_service(served: Served, question: Question[Any]) -> Json:
    answer = httpx.request(
        "POST" if question.document else "GET", served.url + question.path, json=question.document, timeout=30
    )
    assert answer.is_success, answer.text
    return dict(answer.json())


def ask_plugin(words: Sequence[str], *more: str, manifest: Path, environ: Any = None) -> Json:
    words = [str(manifest) if word == MANIFEST else word for word in words]
    ran = command(*words, *more, "-o", "json", environ=environ)
    assert ran.out, words
    return dict(json.loads(ran.out))


def name(case: Case) -> str:
    return " ".join(case.words)


def test_at_least_sixty_questions_are_compared() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", widen(CASES, every=2), ids=name)
def test_service_client_and_plugin_have_one_document(served: Served, case: Case) -> None:
    document = ask_service(served, case.question)
    with Client(served.url) as client:
        assert client.ask(case.question) == document
    assert ask_plugin(case.words, "--endpoint", served.url, manifest=served.manifest) == document
    assert "live" not in document


def test_the_service_names_the_preemption_of_an_evicted_pod(served: Served) -> None:
    document = ask_service(served, api.explain_pod("shop", "low-0"))
    assert document["preemptedBy"] == ask_service(served, api.list_preemptions("batch"))["preemptions"][0]


def test_the_list_of_pods_has_the_newest_decision_about_each(served: Served) -> None:
    document = ask_service(served, api.list_decisions("shop"))
    printed = ask_plugin(("pod", "-n", "shop"), "--endpoint", served.url, manifest=served.manifest)
    assert len(printed["items"]) < len(document["items"])
    assert printed == keep_newest_per_pod(document)


def test_the_version_of_the_service_is_that_of_its_document(served: Served) -> None:
    with Client(served.url) as client:
        version = client.request(api_paths.service_version())
    printed = ask_plugin(("version",), "--endpoint", served.url, manifest=served.manifest)
    assert printed["serverVersion"] == version["version"]


# --- with an API server ---------------------------------------------------------------------------------------------


@pytest.fixture
def through_kubectl(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("herodotus_cli.transport.api_server_queries._TIMEOUT_S", 30.0)  # a loaded machine is no failure
    kubectl = Path(sys.executable).with_name("kubectl")
    environ = {"KUBECTL_PATH": str(kubectl), "KUBECONFIG": str(served.kubeconfig), "HOME": str(tmp_path)}
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    return environ


@pytest.mark.parametrize("case", widen(LIVE, every=2), ids=name)
def test_the_plugin_adds_nothing_but_live(served: Served, through_kubectl: dict[str, str], case: Case) -> None:
    printed = ask_plugin(case.words, manifest=served.manifest, environ=through_kubectl)
    live = printed.pop("live")
    assert printed == ask_service(served, case.question)
    assert live["source"] == "kube-apiserver"
    assert live["at"].startswith("2026-03-01T")
    if case.words[0] == "pod":
        assert live["fate"] == {"low-0": "deleted", "alone-0": "replaced"}.get(case.words[1], "exists")
    elif case.words[0] == "workload":
        assert {zone["zone"] for zone in live["zones"]} == {"a"}
    elif "none" not in case.words:
        assert [pod["pod"] for pod in live["untried"]] == ["held"]
        assert "web-2" not in {pod["pod"] for pod in live["gone"]}


@pytest.mark.parametrize("case", NOT_LIVE, ids=name)
def test_other_answers_through_the_api_server_have_no_live(
    served: Served, through_kubectl: dict[str, str], case: Case
) -> None:
    printed = ask_plugin(case.words, manifest=served.manifest, environ=through_kubectl)
    assert printed == ask_service(served, case.question)


# --- local mode -----------------------------------------------------------------------------------------------------

LOCAL = {
    "placed": ("pod", "fits"),
    "pending": ("pod", "huge"),
    "all": ("pod", "huge", "--all"),
    "node": ("pod", "fits", "--node", "worker-1"),
    "full": ("pod", "huge", "--full"),
    "list": ("pending", "-A"),
    "namespace": ("pending", "-n", "default"),
    "history": ("node", "worker-1"),
    "pods": ("compare", "pod", "fits", "huge"),
    "nodes": ("compare", "pod", "fits", "--nodes", "worker-1", "worker-2"),
    "review": ("whatif", "-f", MANIFEST, "--scheduler", "default-scheduler"),
    "drain": ("whatif", "drain", "worker-1"),
    "consolidate": ("consolidate",),
    "capacity": ("capacity", "-f", MANIFEST),
    "nodegroups": ("nodegroups",),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a cluster with two nodes and two pending pods, and return a kubeconfig for it."""
    sim = SimulatedCluster().start()
    try:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        for number in (1, 2):
            node = {"metadata": {"name": f"worker-{number}"}, "status": {"allocatable": amounts}}
            assert httpx.post(f"{sim.url}/api/v1/nodes", json=node).status_code == 201
        for pod, cpu in (("fits", "1"), ("huge", "40")):
            container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
            spec = {"containers": [container], "schedulerName": "default-scheduler"}
            content = {"metadata": {"name": pod}, "spec": spec}
            assert httpx.post(f"{sim.url}/api/v1/namespaces/default/pods", json=content).status_code == 201
        yield Path(sim.write_kubeconfig(tmp_path_factory.mktemp("local") / "kubeconfig"))
    finally:
        sim.stop()


@pytest.mark.parametrize("words", LOCAL.values(), ids=LOCAL)
def test_local_mode_prints_the_document_of_its_service(
    served: Served,
    through_kubectl: dict[str, str],
    cluster: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    answers: list[Json] = []

    def record(answer: LocalAnswer) -> LocalAnswer:
        answers.append(deepcopy(answer.document))
        return answer

    get, post = LocalService.get, LocalService.post
    monkeypatch.setattr(LocalService, "get", lambda service, path: record(get(service, path)))
    monkeypatch.setattr(LocalService, "post", lambda service, path, sent: record(post(service, path, sent)))
    monkeypatch.setenv("KUBECONFIG", str(cluster))
    environ = {**through_kubectl, "KUBECONFIG": str(cluster)}
    try:
        printed = ask_plugin(words, "--local", manifest=served.manifest, environ=environ)
    finally:
        close()
    reads_pods = words[0] == "pending" or (words[0] == "pod" and "--full" not in words)
    assert ("live" in printed) is reads_pods
    printed.pop("live", None)
    printed.pop("present", None)  # of a node: what the API server says now
    assert answers == [printed]
