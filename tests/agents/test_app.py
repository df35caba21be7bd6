"""The routes of the service: requests and responses as schedulers send and read them, and every rejected request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_agents.agent import BindError
from herodotus_agents.agents import AGENTS
from herodotus_agents.app import create_app
from herodotus_agents.hosting import HostedPlugin
from herodotus_agents.nodes import NodeCache
from herodotus_agents.objects import NodeView
from herodotus_agents.registry import LoadedAgent, LoadedAgents, load_agents
from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.version import __version__
from scheduler.engine.framework.per_node import PerNodePlugin
from scheduler.engine.framework.plugin import PluginInput
from tests.agents.builders import a_node, a_pod, extender_args, feasible_nodes, json_of, points, service
from tests.processes import ROOT

TIGHT = {"mean-free-cpu": "700", "std-free-cpu": "400"}


def a_cache(*nodes: dict[str, Any]) -> NodeCache:
    cache = NodeCache()
    cache.update(ListResult("Node", msgspec.convert(nodes, list[NodeView])))
    return cache


REJECT_N1 = (
    "text = Reason('text', {'text': 'barred'})\n"
    "        return Verdicts.reject(np.array([name == 'n1' for name in nodes.names]), unschedulable(text))"
)


def barred(template: str) -> str:
    """Return the template's text as the agent `bar`, whose filter rejects the node n1."""
    text = template.replace('"foo"', '"bar"').replace("return PASS", REJECT_N1)
    return text.replace("PASS, Verdicts", "Verdicts, unschedulable\nfrom herodotus_record.model import Reason")


def test_version_is_text_for_probes() -> None:
    response = service("foo").get("/version")
    assert (response.status_code, response.text) == (200, f"{__version__}\n")


def test_foo_accepts_every_node_and_gives_each_a_point() -> None:
    client, nodes = service("foo"), [a_node("n1"), a_node("n2")]
    assert feasible_nodes(client, "foo", a_pod(), nodes) == (["n1", "n2"], {})
    assert points(client, "foo", a_pod(), nodes) == {"n1": 1, "n2": 1}


EXPLAINED = "application/vnd.herodotus.extender+json"


@pytest.mark.parametrize(
    "accept",
    [None, "*/*", "application/json", f"{EXPLAINED};q=0.5, application/json"],
    ids=["no Accept header", "anything", "JSON", "prefers JSON"],
)
def test_without_the_extended_media_type_the_response_is_kube_scheduler_s(accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    response = service("safe").post(
        "/scheduler/priorities/safe-overload", json=extender_args(a_pod(), [a_node("n1", TIGHT)]), headers=headers
    )
    assert (response.mimetype, response.json) == ("application/json", [{"Host": "n1", "Score": 0}])


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("priorities/safe-overload", lambda answer: [entry["Score"] for entry in answer] == [0, 0, 0]),
        ("predicates/safe-overload", lambda answer: list(answer["FailedNodes"]) == ["n1"]),
    ],
    ids=["priority", "predicate"],
)
def test_the_extended_media_type_adds_the_inputs(path: str, answer: Callable[[Any], bool]) -> None:
    measured = "herodotus.dev/usage-measured-at"
    old = {**TIGHT, measured: "2020-01-01T00:00:00+00:00"}
    nodes = [a_node("n1", TIGHT), a_node("n2"), a_node("n3", old)]
    body = service("safe").post(f"/scheduler/{path}", json=extender_args(a_pod(), nodes), headers={"Accept": EXPLAINED})
    assert body.mimetype == EXPLAINED
    content = json_of(body)
    assert answer(content["Answer"])
    cpu, memory = content["Inputs"]
    assert cpu == {
        "Source": "annotations mean-free-cpu, std-free-cpu",
        "Numbers": [
            {"Name": name, "Unit": "%", "Digits": 2, "Values": [pytest.approx(value, abs=0.01), None, None]}
            for name, value in (("cpu used", 95.0), ("cpu deviation", 10.0), ("cpu risk", 84.08))
        ],
        "Measured": [None, None, 1_577_836_800.0],
        "Stale": [False, False, True],
    }
    assert memory["Source"] == "annotation mean-free-memory"


def test_an_agent_without_inputs_answers_the_extended_media_type_too() -> None:
    response = service("foo").post(
        "/scheduler/priorities/foo", json=extender_args(a_pod(), [a_node("n1")]), headers={"Accept": EXPLAINED}
    )
    assert response.json == {"Answer": [{"Host": "n1", "Score": 1}], "Inputs": []}


def test_only_selected_agents_are_served() -> None:
    client = service("congestion")
    assert client.post("/scheduler/priorities/congestion", json=extender_args(a_pod(), [])).status_code == 200
    refused = client.post("/scheduler/priorities/foo", json=extender_args(a_pod(), []))
    assert (refused.status_code, refused.json) == (404, {"Error": "no agent has the priority foo"})


def test_all_selects_every_agent() -> None:
    verbs = json_of(service("all").get("/"))
    assert verbs["agents"] == ["safe", "congestion", "pigeon", "reward", "foo"]
    assert verbs["priorities"] == ["congestion", "foo", "pigeon-holing", "rl-priority", "safe-balance", "safe-overload"]
    assert verbs["predicates"] == ["foo", "safe-overload"]


def test_an_agent_that_fails_to_load_is_reported_and_does_not_affect_others() -> None:
    known = {"foo": "herodotus_agents.agents.foo:AGENT", "broken": "tests.agents.no_such_file:AGENT"}
    loaded = load_agents(["all"], {}, {}, known=known)
    client = create_app(loaded).test_client()
    assert points(client, "foo", a_pod(), [a_node("n1")]) == {"n1": 1}
    assert list(json_of(client.get("/"))["failed"]) == ["broken"]
    assert "No module named" in json_of(client.post("/scheduler/priorities/broken", json={}))["Error"]


def test_a_copy_of_the_template_and_one_line_add_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "herodotus_agents/agents/foo.py").read_text()
    (tmp_path / "barred.py").write_text(barred(text))
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load_agents(["bar"], {}, {}, known={**AGENTS, "bar": "barred:AGENT"})
    client = create_app(loaded).test_client()
    assert feasible_nodes(client, "bar", a_pod(), [a_node("n1"), a_node("n2")]) == (["n2"], {"n1": "barred"})
    assert points(client, "bar", a_pod(), [a_node("n1")]) == {"n1": 1}


def test_rewards_are_served_from_the_node_annotations() -> None:
    learnt = {"n1": '{"web":0.25}', "n2": "not JSON"}
    nodes = [{"metadata": {"name": n, "annotations": {"herodotus.dev/rewards": text}}} for n, text in learnt.items()]
    cache = a_cache(*nodes, {"metadata": {"name": "n3"}})
    assert create_app(load_agents(["reward"], {}, {}), cache).test_client().get("/rewards").json == {
        "n1": {"web": 0.25},
        "n2": {},
        "n3": {},
    }
    refused = service("reward").get("/rewards")
    assert (refused.status_code, "--watch-nodes" in json_of(refused)["Error"]) == (404, True)


def test_an_installed_package_adds_agents_and_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "herodotus_agents/agents/foo.py").read_text()
    (tmp_path / "zoned.py").write_text(barred(text))
    info = tmp_path / "zoned-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoned\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[herodotus.agents]\nbar = zoned:AGENT\nfoo = zoned:AGENT\n")
    monkeypatch.syspath_prepend(tmp_path)
    client = create_app(load_agents(["bar", "foo"], {}, {})).test_client()
    assert feasible_nodes(client, "bar", a_pod(), [a_node("n1"), a_node("n2")]) == (["n2"], {"n1": "barred"})
    assert feasible_nodes(client, "foo", a_pod(), [a_node("n1")]) == (["n1"], {})


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"utilization": 120}, "settings.safe: Expected `int` <= 100 - at `$.utilization`"),
        ({"utilisation": 90}, "settings.safe: Object contains unknown field `utilisation`"),
    ],
    ids=["out of range", "unknown key"],
)
def test_an_invalid_setting_fails_only_its_agent(section: dict[str, Any], why: str) -> None:
    loaded = load_agents(["safe", "foo"], {"safe": section}, {})
    assert dict(loaded.failed) == {"safe": f"SettingsError: {why}"}
    assert list(loaded.agents) == ["foo"]


def test_nodes_are_returned_byte_for_byte() -> None:
    """Fields that an agent does not read must not be lost."""
    node = a_node("n1") | {"spec": {"podCIDR": "10.0.0.0/24", "future": [1, {"x": None}]}}
    answer = json_of(service("foo").post("/scheduler/predicates/foo", json=extender_args(a_pod(), [node])))
    assert answer["Nodes"]["items"] == [node]
    assert answer["NodeNames"] is None


def test_keys_are_read_in_any_case_and_written_in_kube_scheduler_s_case() -> None:
    request = {"pod": a_pod(), "nodes": {"metadata": {}, "items": [a_node("n1")]}}
    answer = json_of(service("foo").post("/scheduler/predicates/foo", json=request))
    assert list(answer) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]


def test_a_request_with_node_names_is_answered_with_node_names() -> None:
    client = service("safe", known=a_cache(a_node("n1"), a_node("n2", TIGHT)))
    request = {"Pod": a_pod(), "Nodes": None, "NodeNames": ["n1", "n2", "unseen"]}
    answer = json_of(client.post("/scheduler/predicates/safe-overload", json=request))
    assert (answer["Nodes"], answer["NodeNames"], list(answer["FailedNodes"])) == (None, ["n1", "unseen"], ["n2"])


def test_the_node_cache_applies_watch_events() -> None:
    cache = a_cache(a_node("n1"), a_node("n2"))
    changed = a_node("n1", {"congestion-factor": "100"})
    cache.update(WatchEvent("Node", "DELETED", msgspec.convert(a_node("n2"), NodeView)))
    cache.update(WatchEvent("Node", "MODIFIED", msgspec.convert(changed, NodeView)))
    client = service("congestion", known=cache)
    answer = client.post("/scheduler/priorities/congestion", json={"Pod": a_pod(), "NodeNames": ["n1", "n2"]}).json
    assert answer == [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 10}]


INVALID: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{", "cannot decode the body as ExtenderArgs: "),
    "empty": (b"", "cannot decode the body as ExtenderArgs: "),
    "no pod": (b'{"Nodes":{"items":[]}}', "cannot decode the body as ExtenderArgs: "),
    "no nodes": (b'{"Pod":{}}', "the request has neither Nodes nor NodeNames"),
    "names without a cache": (b'{"Pod":{},"NodeNames":["n1"]}', "NodeNames without Nodes: nodeCacheCapable needs"),
    "invalid pod": (b'{"Pod":[],"Nodes":{"items":[]}}', "Pod: Expected `object`, got `array`"),
    "invalid node": (b'{"Pod":{},"Nodes":{"items":[7]}}', "Nodes: Expected `object`, got `int`"),
    "invalid quantity": (
        b'{"Pod":{},"Nodes":{"items":[{"status":{"allocatable":{"cpu":"many"}}}]}}',
        "cpu: 'many' is not a quantity",
    ),
}


@pytest.mark.parametrize("kind", ["predicates", "priorities"])
@pytest.mark.parametrize(("body", "why"), INVALID.values(), ids=list(INVALID))
def test_an_invalid_request_is_rejected_with_the_reason(body: bytes, why: str, kind: str) -> None:
    client = service("safe")
    response = client.post(f"/scheduler/{kind}/safe-overload", data=body)
    assert response.status_code == 400
    assert json_of(response)["Error"].startswith(why)
    assert client.get("/version").status_code == 200


def test_an_agent_that_raises_gives_500_and_the_service_keeps_running() -> None:
    class Broken(PerNodePlugin):
        name = "Broken"
        reads = frozenset({PluginInput.NODE})

        def score(self, *_: Any) -> int:
            raise ZeroDivisionError("by zero")

    agent = LoadedAgent({"broken": HostedPlugin(Broken, None)})
    client = create_app(LoadedAgents({"broken": agent})).test_client()
    response = client.post("/scheduler/priorities/broken", json=extender_args(a_pod(), [a_node("n1")]))
    why = "/scheduler/priorities/broken failed: ZeroDivisionError: by zero"
    assert (response.status_code, response.json) == (500, {"Error": why})
    assert client.get("/version").status_code == 200


BINDING = {"PodName": "p", "PodNamespace": "shop", "PodUID": "uid-p", "Node": "n1"}


def test_bind_is_rejected_unless_an_agent_binds() -> None:
    response = service("all").post("/scheduler/bind", json=BINDING)
    expected = {"Error": "no agent binds pods: leave the extender's bindVerb empty"}
    assert (response.status_code, response.json) == (200, expected)


def test_bind_calls_the_agent_and_returns_its_error() -> None:
    bound = []

    def bind(namespace: str, name: str, uid: str, node: str) -> None:
        if node == "n1":
            raise BindError("n1 is closed")
        bound.append((namespace, name, uid, node))

    client = create_app(LoadedAgents({"binder": LoadedAgent(bind=bind)})).test_client()
    assert client.post("/scheduler/bind", json=BINDING).json == {"Error": "n1 is closed"}
    assert client.post("/scheduler/bind", json=BINDING | {"Node": "n2"}).json == {"Error": ""}
    assert bound == [("shop", "p", "uid-p", "n2")]


@pytest.mark.parametrize(
    "victims",
    [
        {"NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "u1"}}], "NumPDBViolations": 1}}},
        {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}},
    ],
    ids=["whole pods", "by UID"],
)
def test_preemption_returns_all_victims_unchanged(victims: dict[str, Any]) -> None:
    answer = service("safe").post("/scheduler/preemption", json={"Pod": a_pod(), **victims}).json
    assert answer == {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}}
