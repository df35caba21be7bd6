"""What is kept of objects as they came: only what some extender is sent, in the form in which it is sent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler.config.extenders import ExtenderConfig
from scheduler.engine.objects.types import Node, Pod
from scheduler.extenders.manifests import KeptManifests

METADATA = {"name": "o", "uid": "u", "managedFields": [{"manager": "m"}], "annotations": {"a": "<b>"}}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": METADATA, "spec": {"hostname": "h"}, "status": {"qosClass": "x"}}
NODE = {**POD, "kind": "Node"}


def extender(*verbs: str, by_name: bool = False) -> ExtenderConfig:
    named: dict[str, Any] = {f"{verb}_verb": verb for verb in verbs}
    return ExtenderConfig(url_prefix="http://e", node_cache_capable=by_name, **named)


@pytest.mark.parametrize(
    ("extenders", "expected"),
    [
        pytest.param([], KeptManifests(False, False, False), id="none"),
        pytest.param([extender("filter")], KeptManifests(True, False, True), id="whole-nodes"),
        pytest.param([extender("prioritize", by_name=True)], KeptManifests(True, False, False), id="names"),
        pytest.param([extender("preempt")], KeptManifests(True, True, False), id="whole-victims"),
        pytest.param([extender("preempt", by_name=True)], KeptManifests(True, False, False), id="victims-by-uid"),
        pytest.param([extender("bind")], KeptManifests(False, False, False), id="bind-names-the-pod"),
        pytest.param([extender("bind"), extender("filter")], KeptManifests(True, False, True), id="several"),
    ],
)
def test_only_what_some_extender_is_sent_is_kept(extenders: list[ExtenderConfig], expected: KeptManifests) -> None:
    assert KeptManifests.from_extenders(extenders) == expected


def raw(manifest: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(manifest).encode())


def test_a_pod_is_kept_without_its_type_and_managed_fields() -> None:
    """As kube-scheduler's informer drops them; everything else stays, in its order."""
    manifest = KeptManifests(True, False, False).of_pod(msgspec.convert(POD, Pod), raw(POD))
    metadata = {key: value for key, value in METADATA.items() if key != "managedFields"}
    expected = {"metadata": metadata, "spec": POD["spec"], "status": POD["status"]}
    assert json.loads(manifest) == expected
    assert list(json.loads(manifest)) == list(expected)


def test_a_bound_pod_is_kept_only_where_victims_are_sent_whole() -> None:
    bound = {**POD, "spec": {"nodeName": "n"}}
    assert KeptManifests(True, False, True).of_pod(msgspec.convert(bound, Pod), raw(bound)) == b""
    assert KeptManifests(False, True, False).of_pod(msgspec.convert(bound, Pod), raw(bound)) != b""


def test_a_node_keeps_its_managed_fields() -> None:
    """kube-scheduler drops them of pods alone."""
    manifest = KeptManifests(False, False, True).of_node(msgspec.convert(NODE, Node), raw(NODE))
    assert json.loads(manifest) == {key: value for key, value in NODE.items() if key not in ("kind", "apiVersion")}
