"""The Services that a container's command waits for, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.live.pod_facts import list_containers
from herodotus_answers.live.service_faults import explain_awaited_service
from tests.answers.live.clusters import a_cluster, a_pod

Json = dict[str, Any]


def a_service(name: str, namespace: str = "shop", **spec: Any) -> Json:
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(
    ("container", "said"),
    [
        pytest.param({"command": ["sh", "-c", "until nc -z db 5432; do sleep 2; done"]}, "host db", id="port"),
        pytest.param({"args": ["nslookup cache.data.svc.cluster.local"]}, "host cache.data", id="other namespace"),
        pytest.param({"env": [{"name": "URL", "value": "http://cart.shop.svc:80"}]}, "host cart", id="environment"),
        pytest.param({"command": ["nslookup", "www.example.com"]}, "", id="host outside of the cluster"),
        pytest.param({"command": ["nslookup", "mail"]}, "", id="external name without endpoints"),
        pytest.param({"command": ["sh", "-c", "migrate && nc db"]}, "", id="no waiting for a port"),
    ],
)
def test_an_absent_service_is_named_by_the_host_that_the_command_has(container: Json, said: str) -> None:
    init = {"name": "wait", "image": "busybox:1", **container}
    pod = a_pod(initContainers=[init])
    objects = a_cluster(
        a_service("mail", type="ExternalName", externalName="mail.example.com"), a_service("web", "data")
    )
    text, what = explain_awaited_service(pod, list_containers(pod)[0], objects)
    assert (f"names {said}," in text) if said else (text, what) == ("", "")
