"""The example of an operator, and what it is tested with: an API server with objects of a resource, and a service."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx
from kubernetes import client, config

from herodotus_client import Client
from tests.endpoint.service import Service, a_service, rows
from tests.processes import ROOT
from tests.support.client_records import NOWHERE, TABLE, decided

WAITS = "web-2"  # the pod that is recorded as waiting
HEADLINE = "No node fits: 3 of 3 nodes have too little cpu. Closest: worker-1 (cpu: requests 500m; free 8 of 8)."


def load_example(name: str) -> Any:
    """Return the module of a script of docs/examples."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_recorded_service(folder: Path) -> Service:
    """Return a decisions service that has recorded why a pod waits."""
    service = a_service(folder)
    service.stored(rows(TABLE), decided(WAITS, 1, rejected=NOWHERE))
    return service


def report_pods(kubeconfig: Path, service: Service, resource: str, events: list[tuple[str, str]]) -> None:
    """Let the example handle events about pods of the namespace shop: type, and name of the pod."""
    config.load_kube_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    transport = httpx.WSGITransport(service.client.application)
    with Client("http://service.test", transport=transport) as herodotus:
        reporter = load_example("report_reason").Reporter(herodotus, resource)
        pods = client.CoreV1Api()
        for event_type, name in events:
            reporter.handle(event_type, pods.read_namespaced_pod(name, "shop"))
