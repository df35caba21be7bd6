"""The extender service refuses requests that would need more memory than its container has."""

from __future__ import annotations

import json

import pytest
from flask import Flask

from herodotus_agents.app import MAX_NODES, create_app
from herodotus_agents.registry import load_agents
from herodotus_agents.server import DECODED_BYTES, MAX_BODY_BYTES, build_service
from herodotus_serving.memory import MemoryGate
from herodotus_serving.messages import Request, RequestHead

PATH = "/scheduler/priorities/foo"


@pytest.fixture(scope="module")
def app() -> Flask:
    return create_app(load_agents(("foo",), {}, {}))


def response_status(app: Flask, nodes: int) -> int:
    body = f'{{"Pod": {{"metadata": {{"name": "p"}}}}, "Nodes": {{"items": [{",".join(["{}"] * nodes)}]}}}}'.encode()
    head = RequestHead("POST", PATH, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    response = build_service(app, 1).handle(Request(head, body, ("127.0.0.1", 1), ("127.0.0.1", 2)))
    assert response.status == 200 or json.loads(response.body)["Error"]
    return response.status


@pytest.mark.parametrize(("nodes", "code"), [(10, 200), (MAX_NODES + 1, 413), (10_000_000, 413)])
def test_rejects_more_nodes_than_a_cluster_can_have(app: Flask, nodes: int, code: int) -> None:
    """Ten million empty nodes take 30 MB in the request and 7 GiB when decoded."""
    assert response_status(app, nodes) == code


def test_route_limits_the_body(app: Flask) -> None:
    assert build_service(app, 1).route(RequestHead("POST", PATH, [])).max_body == MAX_BODY_BYTES
    assert 3 * MAX_BODY_BYTES < DECODED_BYTES


def test_requests_wait_for_memory_in_order() -> None:
    gate = MemoryGate(100)
    with gate.hold(80, 0.0) as first, gate.hold(30, 0.05) as second, gate.hold(20, 0.0) as third:
        assert (first, second, third) == (True, False, True)
    with gate.hold(100, 0.0) as everything:
        assert everything
