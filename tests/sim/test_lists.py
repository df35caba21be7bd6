"""Selectors and paging."""

from urllib.parse import quote

import pytest

from tests.sim.client import PODS, SimClient, a_pod, names


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("app=web", ["a", "b"], id="equal"),
        pytest.param("app==web", ["a", "b"], id="double equal"),
        pytest.param("app!=web", ["c", "d"], id="not equal, absent counts"),
        pytest.param("app in (web, db)", ["a", "b", "c"], id="in"),
        pytest.param("app notin (web)", ["c", "d"], id="notin, absent counts"),
        pytest.param("tier", ["b"], id="exists"),
        pytest.param("!tier", ["a", "c", "d"], id="does not exist"),
        pytest.param("app in (web,db),!tier", ["a", "c"], id="two requirements"),
        pytest.param("size>3", ["c"], id="greater"),
        pytest.param("size<3", ["d"], id="less"),
        pytest.param("", ["a", "b", "c", "d"], id="empty"),
    ],
)
def test_label_selectors(api: SimClient, selector: str, expected: list[str]) -> None:
    for name, labels in (
        ("a", {"app": "web"}),
        ("b", {"app": "web", "tier": "front"}),
        ("c", {"app": "db", "size": "4"}),
        ("d", {"size": "2"}),
    ):
        api("POST", PODS, a_pod(name, labels=labels))
    assert names(api("GET", f"{PODS}?labelSelector={quote(selector)}")[1]) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("pods?fieldSelector=spec.nodeName%3D", ["free", "other"], id="unbound"),
        pytest.param("pods?fieldSelector=spec.nodeName%3Dn1", ["bound"], id="on a node"),
        pytest.param("pods?fieldSelector=spec.nodeName!%3Dn1,status.phase%3D%3DPending", ["free", "other"], id="two"),
        pytest.param("pods?fieldSelector=metadata.namespace%3Dteam-a", ["other"], id="namespace"),
        pytest.param("pods?fieldSelector=metadata.name%3Dfree", ["free"], id="name"),
        pytest.param("namespaces/team-a/pods", ["other"], id="path of a namespace"),
        pytest.param("namespaces/none/pods", [], id="path of no namespace"),
        pytest.param("nodes?fieldSelector=spec.unschedulable%3Dfalse", ["n1"], id="an unset bool is false"),
        pytest.param("events?fieldSelector=involvedObject.name%3Dfree", ["e1"], id="event about"),
    ],
)
def test_field_selectors(api: SimClient, path: str, expected: list[str]) -> None:
    sim = api.sim
    sim.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    sim.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    sim.create(a_pod("free"))
    sim.create(a_pod("bound", nodeName="n1"))
    other = a_pod("other")
    other["metadata"]["namespace"] = "team-a"
    sim.create(other)
    for name, about in (("e1", "free"), ("e2", "bound")):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"name": about}}
        sim.create(event)
    assert names(api("GET", f"/api/v1/{path}")[1]) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("fieldSelector=spec.color%3Dred", "field label not supported: spec.color", id="unknown field"),
        pytest.param("labelSelector=a%3D%3D%3Db", "unable to parse requirement: 'a===b'", id="broken selector"),
        pytest.param("continue=nonsense", "continue key is not valid", id="broken token"),
        pytest.param("limit=-1", 'limit: Invalid value: "-1"', id="negative limit"),
    ],
)
def test_invalid_parameters_are_rejected(api: SimClient, query: str, message: str) -> None:
    status, answer = api("GET", f"{PODS}?{query}")
    assert (status, answer["reason"], answer["message"]) == (400, "BadRequest", message)


def test_all_pages_show_the_state_at_the_first_page(api: SimClient) -> None:
    for name in "abcde":
        api("POST", PODS, a_pod(name))
    _, first = api("GET", f"{PODS}?limit=2")
    api("DELETE", f"{PODS}/d")
    api("POST", PODS, a_pod("aa"))
    _, second = api("GET", f"{PODS}?limit=2&continue={quote(first['metadata']['continue'])}")
    _, third = api("GET", f"{PODS}?limit=2&continue={quote(second['metadata']['continue'])}")
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    assert "continue" not in third["metadata"]


def test_the_remaining_count_is_set_without_selectors(api: SimClient) -> None:
    _, page = api("GET", "/api/v1/namespaces?limit=1")
    assert page["metadata"]["remainingItemCount"] == 3


def test_a_discarded_list_cannot_be_continued(api: SimClient) -> None:
    _, first = api("GET", "/api/v1/namespaces?limit=1")
    api("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    api.sim.compact()
    status, answer = api("GET", f"/api/v1/namespaces?limit=1&continue={quote(first['metadata']['continue'])}")
    assert (status, answer["reason"]) == (410, "Expired")


def test_a_future_version_is_a_timeout(api: SimClient) -> None:
    status, answer = api("GET", f"{PODS}?resourceVersion={10**15}")
    assert (status, answer["reason"], answer["details"]["causes"][0]["reason"]) == (
        504, "Timeout", "ResourceVersionTooLarge"
    )  # fmt: skip
