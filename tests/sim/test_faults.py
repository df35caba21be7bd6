"""Faults as data: each strikes the requests it names, does what it says, and is switched while the server runs."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from herodotus_sim import fault_plan as plan
from herodotus_sim import faults
from herodotus_sim.__main__ import main
from herodotus_sim.fault_plan import FaultPlan, FaultPlanError
from tests.processes import eventually
from tests.sim.client import PODS, Object, SimClient, a_pod

WATCH = f"{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=1"


def set_faults(api: SimClient, *rules: Object, seed: int = 7) -> None:
    status, _ = api("PUT", "/faults", {"seed": seed, "faults": list(rules)})
    assert status == 200


def current_version(api: SimClient) -> str:
    return str(api("GET", PODS)[1]["metadata"]["resourceVersion"])


def body(api: SimClient, path: str) -> bytes:
    """Everything a stream brings before it ends, in good order or by a reset."""
    connection = http.client.HTTPConnection(api.address, timeout=60)
    connection.request("GET", path)
    read = b""
    try:
        response = connection.getresponse()
        while piece := response.read1():
            read += piece
    except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError) as e:
        read += getattr(e, "partial", b"") + b"RESET"
    finally:
        connection.close()
    return read


def parse_events(read: bytes) -> list[tuple[str, str]]:
    """Type and name of each whole event, and how the stream ended if not in good order."""
    found = []
    for line in read.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            found.append(("part", "RESET" if line.endswith(b"RESET") else ""))
            continue
        found.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
    return found


def with_two_pods(api: SimClient) -> str:
    """Create two pods and return the resource version before them, from which a watch may begin."""
    version = current_version(api)
    for name in "ab":
        api.sim.create(a_pod(name))
    return f"{WATCH}&resourceVersion={version}"


A, B, MARK = ("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({"fault": "end", "events": [0, 0]}, [], id="ended at once"),
        pytest.param({"fault": "end", "events": [1, 1]}, [A], id="ended after an event"),
        pytest.param({"fault": "cut", "events": [1, 1]}, [A, ("part", "RESET")], id="cut in the second event"),
        pytest.param({"fault": "repeat"}, [A, A, B, B, MARK, MARK], id="each event twice in a row"),
        pytest.param({"fault": "bookmark"}, [A, MARK, B, MARK, MARK], id="a bookmark behind each event"),
        pytest.param({"fault": "late", "seconds": [0.1, 0.1]}, [A, B, MARK], id="late and in order"),
        pytest.param({"fault": "gone", "as_event": True}, [("ERROR", "")], id="gone as an event"),
        pytest.param({"fault": "compact"}, [("ERROR", "")], id="compacted"),
        pytest.param({"fault": "hang up"}, [("part", "RESET")], id="no answer"),
    ],
)
def test_watch_faults(api: SimClient, rule: Object, expected: list[tuple[str, str]]) -> None:
    path = with_two_pods(api)
    set_faults(api, {**rule, "methods": ["WATCH"]})
    assert parse_events(body(api, path)) == expected
    set_faults(api)
    rest = [("ERROR", "")] if rule["fault"] == "compact" else [A, B, MARK]
    assert parse_events(body(api, path)) == rest


def test_a_compaction_expires_only_earlier_versions(api: SimClient) -> None:
    path = with_two_pods(api)
    assert api("POST", "/faults/compact")[0] == 200
    assert parse_events(body(api, path)) == [("ERROR", "")]
    api.sim.create(a_pod("c"))
    later = f"{WATCH}&resourceVersion={int(current_version(api)) - 1}"
    assert parse_events(body(api, later))[0] == ("ADDED", "c")


@pytest.mark.parametrize(
    ("rule", "status", "reason", "retry_after"),
    [
        ({"fault": "refuse", "code": 409}, 409, "Conflict", None),
        ({"fault": "refuse", "code": 429, "retry_after_s": 2}, 429, "TooManyRequests", "2"),
        ({"fault": "refuse", "code": 500}, 500, "InternalError", None),
        ({"fault": "refuse", "code": 503, "retry_after_s": 1}, 503, "ServiceUnavailable", "1"),
        ({"fault": "gone"}, 410, "Expired", None),
    ],
    ids=str,
)
def test_refuse_and_gone_responses(
    api: SimClient, rule: Object, status: int, reason: str, retry_after: str | None
) -> None:
    set_faults(api, rule)
    code, headers, answer = api.raw("GET", PODS)
    said = json.loads(answer)
    assert (code, said["kind"], said["reason"], headers.get("retry-after")) == (status, "Status", reason, retry_after)


def test_lose_answer_disconnects_after_handling_the_request(api: SimClient) -> None:
    api.sim.create(a_pod("web"))
    set_faults(api, {"fault": "lose answer", "methods": ["POST"], "path": "/binding$"})
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
    with pytest.raises(http.client.RemoteDisconnected):
        api("POST", f"{PODS}/web/binding", binding)
    assert api("GET", f"{PODS}/web")[1]["spec"]["nodeName"] == "n1"


def test_a_slow_response_is_complete(api: SimClient) -> None:
    set_faults(api, {"fault": "slow", "seconds": [0.2, 0.2]})
    began = time.monotonic()
    assert api("GET", PODS)[0] == 200
    assert time.monotonic() - began >= 0.2


def test_a_slow_request_ends_at_its_timeout(api: SimClient) -> None:
    api.sim.create(a_pod("web"))
    set_faults(api, {"fault": "slow", "seconds": [0.3, 0.3]})
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
    assert api("POST", f"{PODS}/web/binding?timeout=0.1s", binding)[0] == 504
    set_faults(api)
    assert "nodeName" not in api("GET", f"{PODS}/web")[1]["spec"]


def test_a_slow_request_of_a_disconnected_client_is_given_up(api: SimClient) -> None:
    api.sim.create(a_pod("web"))
    set_faults(api, {"fault": "slow", "seconds": [0.3, 0.3]})
    connection = http.client.HTTPConnection(api.address, timeout=60)
    connection.request("DELETE", f"{PODS}/web")
    connection.close()
    eventually(lambda: api.sim.faults.injected_counts() == [1], "the request to be met")
    eventually(lambda: "sim-connection" not in {t.name for t in threading.enumerate()}, "it to be dealt with")
    assert api.sim.get("Pod", "default", "web")["metadata"]["name"] == "web"


def test_a_rule_applies_only_to_matching_requests(api: SimClient) -> None:
    """Methods, path, client and the number of times, each on its own."""
    rules: list[tuple[Object, dict[str, Any]]] = [
        ({"methods": ["POST"]}, {"method": "POST", "path": PODS}),
        ({"path": "/pods$"}, {"method": "GET", "path": PODS}),
        ({"client": "herodotus"}, {"method": "GET", "path": "/version", "User_Agent": "herodotus-scheduler"}),
    ]
    for rule, request in rules:
        set_faults(api, {"fault": "refuse", "code": 503, "times": 1, **rule})
        assert api("GET", "/api/v1/nodes")[0] == 200
        assert [api.raw(**request)[0] == 503 for _ in range(2)] == [True, False]
        assert api("GET", "/faults")[1]["struck"] == [1]


def test_faults_apply_in_the_order_of_the_plan(api: SimClient) -> None:
    set_faults(api, {"fault": "slow", "seconds": [0.2, 0.2]}, {"fault": "refuse", "code": 503})
    began = time.monotonic()
    assert api("GET", PODS)[0] == 503
    assert time.monotonic() - began >= 0.2


def test_the_same_seed_selects_the_same_requests(api: SimClient) -> None:
    def injected_counts(seed: int) -> list[bool]:
        set_faults(api, {"fault": "refuse", "share": 0.5}, seed=seed)
        return [api("GET", PODS)[0] == 500 for _ in range(40)]

    assert injected_counts(1) == injected_counts(1) != injected_counts(2)
    assert 5 < sum(injected_counts(1)) < 35


def test_a_restart_ends_streams_rejects_requests_and_discards_history(api: SimClient) -> None:
    path = with_two_pods(api)
    before = current_version(api)
    idle = api.watch(f"{PODS}?watch=true&resourceVersion={before}")
    assert idle.status == 200
    assert api("POST", "/faults/restart?seconds=600")[0] == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        idle._response.read()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        api("GET", PODS)
    assert api("POST", "/faults/restart?seconds=0")[0] == 200
    assert [p["metadata"]["name"] for p in api("GET", PODS)[1]["items"]] == ["a", "b"]
    assert parse_events(body(api, path)) == [("ERROR", "")]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the keys seed and faults"),
        ({"fault": []}, "the keys seed and faults"),
        ({"faults": 3}, "faults is a list"),
        ({"faults": ["cut"]}, r"faults\[0\]: expected a mapping"),
        ({"faults": [{"share": 1}]}, r"faults\[0\]: .*'fault'"),
        ({"faults": [{"fault": "rain"}]}, "'rain' is none of bookmark, "),
        ({"faults": [{"fault": "cut", "evnts": 3}]}, r"faults\[0\]: unknown evnts"),
        ({"faults": [{"fault": "cut"}, {"fault": "end", "methods": ["LIST"]}]}, r"faults\[1\]: methods are of"),
        ({"faults": [{"fault": "slow", "seconds": [2, 1]}]}, r"seconds is \[least, most\]"),
        ({"faults": [{"fault": "slow", "seconds": 2}]}, r"faults\[0\]"),
        ({"faults": [{"fault": "refuse", "code": 200}]}, "code is the HTTP status of an error"),
        ({"faults": [{"fault": "refuse", "share": 2}]}, "share is between 0 and 1"),
        ({"faults": [{"fault": "refuse", "path": "("}]}, r"faults\[0\]"),
    ],
    ids=str,
)
def test_an_invalid_plan_is_rejected_with_its_place(api: SimClient, document: Any, message: str) -> None:
    with pytest.raises(FaultPlanError, match=message):
        plan.parse_plan(document)
    status, answer = api("PUT", "/faults", document)
    assert (status, answer["reason"]) == (400, "BadRequest")


def test_a_plan_can_be_read_back(serve: Callable[..., SimClient]) -> None:
    made = FaultPlan(3, (plan.FaultRule("slow", ("GET",), "/x", "me", 0.5, 2, seconds=(0.1, 0.2)),))
    assert plan.parse_plan(json.loads(json.dumps(made.document()))) == made
    shown = serve(faults=made)("GET", "/faults")[1]
    assert shown == {**json.loads(json.dumps(made.document())), "struck": [0]}


def test_every_fault_is_implemented(api: SimClient) -> None:
    assert set(api.sim.faults._strikes) == set(plan.FAULTS)
    assert set(faults.STRIKES) < set(plan.FAULTS)


@pytest.mark.parametrize("path", ["/faults/rain", "/faults/compact"])
def test_other_paths_of_the_control_api_are_rejected(api: SimClient, path: str) -> None:
    assert api("GET", path)[0] == 404


def test_an_unreadable_plan_is_a_usage_error(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.yaml").write_text("faults: [{fault: rain}]")
    with pytest.raises(SystemExit) as ended:
        main(["--faults", str(tmp_path / "plan.yaml")])
    assert ended.value.code == 2
    assert "'rain' is none of" in capsys.readouterr().err
