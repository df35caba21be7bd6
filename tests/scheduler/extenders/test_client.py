"""What our client makes of answers, and of extenders that do not answer as they should."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np
import pytest

from scheduler.config.extenders import ExtenderConfig, ManagedResource
from scheduler.engine.framework.extender import (
    ExtenderError,
    ExtenderVictims,
    FilteredNodes,
    PreemptionCandidate,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node
from scheduler.extenders.client import HttpExtender, build_extenders
from tests.scheduler.builders import make_pod
from tests.scheduler.extenders.stub import NODES, POD, Reply, Request, Stub, client, send, stub

EMPTY: dict[str, Any] = {"FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": ""}


@pytest.fixture(scope="module")
def extender() -> Iterator[Stub]:
    with stub() as running:
        yield running


def items(*names: str) -> dict[str, Any]:
    return {"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]}


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by_name", "answer", "passed"),
    [
        pytest.param(True, {"NodeNames": ["a", "c"]}, {"a", "c"}, id="names"),
        pytest.param(True, {"nodenames": ["a"]}, {"a"}, id="any-case"),
        pytest.param(True, {"NodeNames": ["a", "a"]}, {"a"}, id="twice"),
        pytest.param(True, {"NodeNames": []}, set(), id="no-names"),
        pytest.param(True, {"NodeNames": None, "Nodes": items("b")}, {"b"}, id="nodes-where-names-were-asked"),
        pytest.param(True, {}, set(), id="neither"),
        pytest.param(True, None, set(), id="null"),
        pytest.param(False, {"Nodes": items("a", "b")}, {"a", "b"}, id="nodes"),
        pytest.param(False, {"nodes": {"ITEMS": [{"metadata": {"name": "a"}}]}}, {"a"}, id="nodes-in-any-case"),
        pytest.param(False, {"Nodes": {"items": None}}, set(), id="no-nodes"),
        pytest.param(False, {"NodeNames": ["a"]}, set(), id="names-where-nodes-were-asked"),
        pytest.param(False, {"Nodes": items("a"), "more": {"x": [1]}}, {"a"}, id="unknown-keys"),
    ],
)
def test_the_nodes_that_are_left(extender: Stub, by_name: bool, answer: Any, passed: set[str]) -> None:
    extender.answer("filter", answer)
    with client(extender.url, node_cache_capable=by_name) as ours:
        assert ours.filter(POD, NODES) == FilteredNodes(frozenset(passed), {}, {})


def test_messages_of_failed_nodes_are_read(extender: Stub) -> None:
    answer = {**EMPTY, "NodeNames": ["a"], "failedNodes": {"b": "full"}, "FailedAndUnresolvableNodes": {"c": "no GPU"}}
    extender.answer("filter", answer)
    with client(extender.url, node_cache_capable=True) as ours:
        assert ours.filter(POD, NODES) == FilteredNodes(frozenset({"a"}), {"b": "full"}, {"c": "no GPU"})


@pytest.mark.parametrize(
    ("answer", "points"),
    [
        pytest.param([{"Host": "a", "Score": 7}, {"host": "b", "score": 0}], {"a": 7, "b": 0}, id="any-case"),
        pytest.param([{"Host": "a", "Score": 1}, {"Host": "a", "Score": 2}], {"a": 3}, id="twice"),
        pytest.param([{"Host": "elsewhere", "Score": -4}], {"elsewhere": -4}, id="unknown-host"),
        pytest.param([{"Host": "a"}], {"a": 0}, id="no-score"),
        pytest.param([], {}, id="none"),
        pytest.param(None, {}, id="null"),
    ],
)
def test_points_are_read(extender: Stub, answer: Any, points: dict[str, int]) -> None:
    extender.answer("prioritize", answer)
    with client(extender.url) as ours:
        assert ours.prioritize(POD, NODES).points == points


INPUTS = {
    "Source": "annotation load",
    "Numbers": [{"name": "load", "Unit": "%", "Digits": 1, "Values": [12.5, None]}],
    "Measured": [60, None],
    "Stale": [False, True],
}


def explained(answer: Any) -> Reply:
    body = json.dumps({"Answer": answer, "Inputs": [INPUTS]}).encode()
    return lambda handler, _: send(handler, body, media_type="application/vnd.herodotus.extender+json; charset=utf-8")


def test_inputs_of_an_extender_are_requested_and_read(extender: Stub) -> None:
    extender.reply("filter", explained({**EMPTY, "NodeNames": ["a"]}))
    extender.reply("prioritize", explained([{"Host": "a", "Score": 7}]))
    with client(extender.url, node_cache_capable=True) as ours:
        filtered, prioritized = ours.filter(POD, NODES), ours.prioritize(POD, NODES)
    accepted = "application/vnd.herodotus.extender+json, application/json;q=0.9, */*;q=0.8"
    assert [request.headers["Accept"] for request in extender.requests[-2:]] == [accepted] * 2
    assert filtered.passed == {"a"}
    assert prioritized.points == {"a": 7}
    for (inputs,) in (filtered.inputs, prioritized.inputs):
        (load,) = inputs.numbers
        assert (inputs.source, load.name, load.unit, load.digits) == ("annotation load", "load", "%", 1)
        np.testing.assert_equal((load.values, inputs.measured_s, inputs.stale), ([12.5, np.nan], [60, np.nan], [0, 1]))


def test_a_binding_names_pod_and_node(extender: Stub) -> None:
    extender.answer("bind", {"Error": ""})
    with client(extender.url, bind_verb="bind") as ours:
        ours.bind(POD, "a")
    sent = extender.requests[-1]
    assert sent.path == "/ext/bind"
    assert sent.body == b'{"PodName":"p","PodNamespace":"default","PodUID":"uid-p","Node":"a"}'


def test_victims_are_read_by_uid_and_a_null_one_has_none(extender: Stub) -> None:
    answer = {"nodeNameToMetaVictims": {"a": {"pods": [{"uid": "u"}], "numPDBViolations": 2}, "b": None}}
    extender.answer("preempt", answer)
    with client(extender.url, node_cache_capable=True) as ours:
        victims = ours.preempt(POD, [PreemptionCandidate("b", (POD,), 0), PreemptionCandidate("a", (POD,), 1)])
    assert victims == {"a": ExtenderVictims(("u",), 2), "b": ExtenderVictims((), 0)}
    assert extender.requests[-1].body.endswith(
        b'"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-p"}],"NumPDBViolations":1},'
        b'"b":{"Pods":[{"UID":"uid-p"}],"NumPDBViolations":0}}}'
    )


def test_a_trailing_slash_of_the_prefix_is_dropped(extender: Stub) -> None:
    extender.answer("filter", {})
    with client(f"{extender.url}/") as ours:
        ours.filter(POD, NODES)
    assert extender.requests[-1].path == "/ext/filter"


def test_answers_may_be_compressed(extender: Stub) -> None:
    def compressed(handler: BaseHTTPRequestHandler, _: Request) -> None:
        body = gzip.compress(b'[{"Host":"a","Score":5}]')
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    extender.reply("prioritize", compressed)
    with client(extender.url) as ours:
        assert ours.prioritize(POD, NODES).points == {"a": 5}


@pytest.mark.parametrize(
    ("pod", "interested"),
    [
        pytest.param(make_pod().request({"example.com/gpu": "1"}), True, id="requests"),
        pytest.param(make_pod().request(cpu="1"), False, id="something-else"),
        pytest.param(make_pod().container({"example.com/gpu": "0"}, init=True), True, id="init-container"),
        pytest.param(
            make_pod().with_spec(containers=[{"resources": {"limits": {"example.com/gpu": 1}}}]), True, id="limits"
        ),
        pytest.param(make_pod(), False, id="nothing"),
    ],
)
def test_managed_resources_make_a_pod_its_business(pod: Any, interested: bool) -> None:
    with client("http://127.0.0.1:1", managed_resources=(ManagedResource(name="example.com/gpu"),)) as ours:
        assert ours.interested(pod.info()) is interested


def test_without_managed_resources_every_pod_is_its_business() -> None:
    with client("http://127.0.0.1:1") as ours:
        assert ours.interested(POD)


# --- failures: one table, every verb fails alike ----------------------------------------------------------------------


def ask_filter(ours: HttpExtender) -> None:
    ours.filter(POD, NODES)


def ask_prioritize(ours: HttpExtender) -> None:
    ours.prioritize(POD, NODES)


def ask_bind(ours: HttpExtender) -> None:
    ours.bind(POD, "a")


def ask_preempt(ours: HttpExtender) -> None:
    ours.preempt(POD, [PreemptionCandidate("a", (POD,), 0)])


VERBS: dict[str, Callable[[HttpExtender], None]] = {
    "filter": ask_filter,
    "prioritize": ask_prioritize,
    "bind": ask_bind,
    "preempt": ask_preempt,
}


def failure(verb: str, url: str, **config: Any) -> str:
    with client(url, bind_verb="bind", **config) as ours, pytest.raises(ExtenderError) as raised:
        VERBS[verb](ours)
    return str(raised.value)


@pytest.mark.parametrize("verb", VERBS)
def test_another_status_than_200_is_a_failure(verb: str, extender: Stub) -> None:
    for code in (201, 404, 500):
        extender.answer(verb, {}, status=code)
        message = failure(verb, extender.url)
        assert message == f"failed {verb} with extender at URL {extender.url}/{verb}, code {code}"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", [b"", b"no JSON", b'{"NodeNames": "a"', b'"text"', b"\xff\xfe", b"[" * 5000])
def test_invalid_response_is_a_failure(verb: str, body: bytes, extender: Stub) -> None:
    extender.answer(verb, body)
    assert failure(verb, extender.url).startswith(f"invalid answer to {verb} from extender at URL {extender.url}: ")


@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_the_error_field_is_the_failure(verb: str, extender: Stub) -> None:
    extender.answer(verb, {"NodeNames": ["a"], "error": "the cache is cold"})
    assert failure(verb, extender.url) == "the cache is cold"


@pytest.mark.parametrize("verb", VERBS)
def test_unreachable_extender_is_an_error(verb: str) -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        message = failure(verb, f"http://{where}")
    assert message == f'Post "http://{where}/{verb}": dial tcp {where}: connect: connection refused'


def test_a_name_that_does_not_resolve() -> None:
    message = failure("filter", "http://extender.invalid")
    assert message.startswith('Post "http://extender.invalid/filter": dial tcp: lookup extender.invalid: ')


def silent(handler: BaseHTTPRequestHandler, _: Request) -> None:
    handler.rfile.read(1)  # until the other side hangs up


def dripping(handler: BaseHTTPRequestHandler, request: Request) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def slow_headers(handler: BaseHTTPRequestHandler, _: Request) -> None:
    for character in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000:
        handler.wfile.write(bytes([character]))
        handler.wfile.flush()
        time.sleep(0.05)


@pytest.mark.parametrize("reply", [silent, dripping, slow_headers], ids=lambda reply: reply.__name__)
def test_the_time_out_holds_for_the_whole_exchange(reply: Any, extender: Stub) -> None:
    extender.reply("filter", reply)
    began = time.monotonic()
    message = failure("filter", extender.url, http_timeout="300ms")
    assert time.monotonic() - began < 30  # of 50
    assert "context deadline exceeded (Client.Timeout" in message


def test_a_slow_extender_within_its_time_out_is_waited_for(extender: Stub) -> None:
    def slow(handler: BaseHTTPRequestHandler, _: Request) -> None:
        time.sleep(0.3)
        send(handler, json.dumps([{"Host": "a", "Score": 1}]).encode())

    extender.reply("prioritize", slow)
    with client(extender.url, http_timeout="60s") as ours:
        assert ours.prioritize(POD, NODES).points == {"a": 1}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_huge_answer_is_refused_when_it_passes_the_limit(compressed: bool, extender: Stub) -> None:
    """Also one that is small until it is unpacked."""
    body = b" " * 100_000
    packed = gzip.compress(body) if compressed else body

    def huge(handler: BaseHTTPRequestHandler, _: Request) -> None:
        handler.send_response(200)
        if compressed:
            handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    extender.reply("filter", huge)
    message = failure("filter", extender.url, spare_bytes=10_000)
    limit = 10_000 + 2 * len(extender.requests[-1].body)
    assert message == f"answer of extender at URL {extender.url}/filter is over the limit of {limit} bytes"


def test_an_answer_that_breaks_off(extender: Stub) -> None:
    def broken(handler: BaseHTTPRequestHandler, _: Request) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"NodeNames":')
        handler.close_connection = True

    extender.reply("filter", broken)
    assert failure("filter", extender.url) == "unexpected EOF"


def test_a_connection_that_is_closed_without_an_answer(extender: Stub) -> None:
    def closing(handler: BaseHTTPRequestHandler, _: Request) -> None:
        handler.close_connection = True

    extender.reply("filter", closing)
    assert failure("filter", extender.url) == f'Post "{extender.url}/filter": EOF'


@pytest.mark.parametrize("by_name", [False, True])
def test_unrequested_node_in_a_result_is_a_failure(by_name: bool, extender: Stub) -> None:
    extender.answer("filter", {"NodeNames": ["a", "z"]} if by_name else {"Nodes": items("a", "z")})
    assert failure("filter", extender.url, node_cache_capable=by_name) == (
        f'extender "{extender.url}" claims a filtered node "z" which is not found in the input node list'
    )


def test_an_object_that_is_not_known_whole_is_not_sent_in_part(extender: Stub) -> None:
    known_in_part = Node(metadata=NODES[0].metadata)
    with client(extender.url) as ours, pytest.raises(ExtenderError, match="Node a is not known as a whole"):
        ours.filter(POD, [known_in_part])
    with client(extender.url) as ours, pytest.raises(ExtenderError, match="Pod p is not known as a whole"):
        ours.filter(PodInfo(make_pod("p").obj()), NODES)


def test_extender_is_called_from_many_threads_at_once(extender: Stub) -> None:
    extender.answer("prioritize", [{"Host": "a", "Score": 1}])
    answers: list[Any] = []
    with client(extender.url) as ours:
        threads = [
            threading.Thread(target=lambda: answers.append(ours.prioritize(POD, NODES).points)) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [{"a": 1}] * 20


def test_extenders_are_named_by_url_without_its_password_and_no_two_alike() -> None:
    urls = ("http://e", "http://user:secret@e:80/x", "http://e", "")
    extenders = build_extenders([ExtenderConfig(url_prefix=url) for url in urls])
    assert [e.name for e in extenders] == ["http://e", "http://user:***@e:80/x", "http://e (2)", "extenders[3]"]
    for extender in extenders:
        extender.close()


def test_invalid_url_fails_at_the_first_query() -> None:
    assert failure("filter", "").startswith('Post "/filter": ')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "secret" not in failure("filter", f"http://user:secret@{where}")
