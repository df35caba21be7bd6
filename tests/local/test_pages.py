"""The web pages of local mode: files, answers, failures as HTTP responses, and when the cluster is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.configuration import find_configuration
from herodotus_local.pages import LocalPages
from herodotus_local.service import LocalService
from tests.local.api_server import ApiServer, node, pod

API = "/apis/herodotus.dev/v1alpha1"
WEB = {
    "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d9f", "controller": True}],
    "labels": {"pod-template-hash": "5d9f"},
}


def a_web_pod(name: str, **options: Any) -> dict[str, Any]:
    made = pod(name, **options)
    made["metadata"] |= WEB
    return made


class Opened:
    """Pages of a cluster, and how often it was read."""

    def __init__(self, api: ApiServer) -> None:
        self._api, self._stack = api, ExitStack()
        self._service: LocalService | None = None
        self.readings = 0
        self.pages = LocalPages(self._open, self.close)

    def _open(self) -> LocalService:
        if self._service is None:
            self.readings += 1
            reader = self._stack.enter_context(ClusterReader(self._api.fetch, lambda _plural, _count: None))
            config = find_configuration(self._api.fetch).configuration
            self._service = self._stack.enter_context(LocalService(reader, config, lambda _note: None))
        return self._service

    def close(self) -> None:
        self._stack.close()
        self._service = None

    def get(self, path: str) -> tuple[int, Any]:
        answer = self.pages.answer("GET", f"{API}/{path}", {}, b"")
        return answer.code, json.loads(answer.body)


@pytest.fixture
def api() -> ApiServer:
    objects = [node("worker-1"), node("worker-2", cpu="8"), a_web_pod("web-5d9f-a", cpu="3", on="worker-1")]
    return ApiServer([*objects, a_web_pod("web-5d9f-b", cpu="20"), pod("alone", on="worker-2")])


@pytest.fixture
def opened(api: ApiServer) -> Iterator[Opened]:
    made = Opened(api)
    yield made
    made.close()


def test_files_need_no_reading(opened: Opened) -> None:
    answer = opened.pages.answer("GET", f"{API}/pages/main.js", {}, b"")
    assert (answer.code, answer.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    again = opened.pages.answer("GET", f"{API}/pages/main.js", {"If-None-Match": answer.headers["ETag"]}, b"")
    assert (again.code, again.body, opened.readings) == (304, b"", 0)


def test_all_nodes_have_requests_and_no_counts(opened: Opened) -> None:
    code, document = opened.get("nodehistories?since=86400&resources=true&limit=500")
    amounts = {
        item["metadata"]["name"]: [item["resources"][kind][name] for name in ("cpu", "pods")]
        for item in document["items"]
        for kind in ("requested",)
    }
    assert (code, amounts) == (200, {"worker-1": [3000, 1], "worker-2": [1000, 1]})
    assert {item["considered"] for item in document["items"]} == {0}
    assert document["items"][1]["resources"]["allocatable"]["cpu"] == 8000


def test_all_workloads_have_the_pods_that_exist(opened: Opened) -> None:
    code, document = opened.get("workloadplacements?since=86400")
    found = [(one["workload"], one["placed"], one["pending"], one["nodes"]) for one in document["workloads"]]
    assert (code, found) == (200, [("Deployment/web", 1, 1, 1), ("Pod/alone", 1, 0, 1)])
    assert opened.get("namespaces/elsewhere/workloadplacements")[1]["workloads"] == []


@pytest.mark.parametrize(
    "path",
    ["decisions?limit=50", "balances?since=86400", "agreements", "preemptions", "namespaces/shop/podhistories/alone"],
)
def test_questions_about_the_past_say_what_they_lack(opened: Opened, path: str) -> None:
    code, status = opened.get(path)
    assert (code, status["kind"], status["code"]) == (501, "Status", 501)
    assert status["message"] == "this page is made of past decisions, and local mode has none"


def test_absent_pod_names_similar_ones(opened: Opened) -> None:
    code, status = opened.get("namespaces/shop/podexplanations/web-5d9f-c")
    assert (code, sorted(status["details"]["similar"])) == (404, ["web-5d9f-a", "web-5d9f-b"])


def test_refusal_of_the_api_server_keeps_its_code(api: ApiServer, opened: Opened) -> None:
    api.forbidden = {"nodes"}
    assert opened.get("nodehistories")[0] == 403


def test_review_is_posted(opened: Opened) -> None:
    spec = {"changes": [{"kind": "Cordon", "nodes": ["worker-1"]}]}
    body = json.dumps({"apiVersion": "herodotus.dev/v1alpha1", "kind": "ClusterReview", "spec": spec}).encode()
    answer = opened.pages.answer("POST", f"{API}/clusterreviews", {}, body)
    assert (answer.code, json.loads(answer.body)["kind"]) == (201, "ClusterReview")
    assert opened.pages.answer("POST", f"{API}/clusterreviews", {}, b"{").code == 422


def test_requests_of_a_page_share_a_reading_until_it_is_old(
    opened: Opened, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("herodotus_local.pages.time.monotonic", lambda: now_s)
    opened.get("pendingpods")
    api.objects.append(pod("late", cpu="20"))
    assert (opened.get("pendingpods")[1]["count"], opened.readings) == (1, 1)
    now_s = 106.0
    assert (opened.get("pendingpods")[1]["count"], opened.readings) == (2, 2)
