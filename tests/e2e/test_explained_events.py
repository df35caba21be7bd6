"""With `--explain-events` a rejected pod's event ends with a suggestion, and its condition is kube-scheduler's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import eventually


@pytest.mark.parametrize("flags", [(), ("--explain-events", "https://pages.example.com")], ids=["off", "on"])
def test_a_rejected_pod_s_event(cluster: Cluster, namespace: str, tmp_path: Path, flags: tuple[str, ...]) -> None:
    running = Herodotus(cluster, tmp_path, flags=flags)
    try:
        running.add_nodes(node("n1", cpu="4"))
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("large", cpu="8"))
        (event,) = eventually(lambda: cluster.events(namespace, "large", "FailedScheduling") or None, "its event")
        condition = eventually(lambda: cluster.condition(namespace, "large") or None, "its condition")
        (decision,) = eventually(
            lambda: [d for d in running.decisions(namespace) if d["spec"]["key"]["attempt"] == 1] or None,
            "its decision",
        )
    finally:
        running.stop()
    message, _, explanation = event["note"].partition(" Suggestion: ")
    assert condition["message"] == message == decision["status"]["message"]
    link = f"https://pages.example.com/?view=decision&namespace={namespace}&name={decision['metadata']['name']}"
    suggestion = "lower the cpu request of container main from 8 to 4"
    assert explanation == (f"{suggestion}. Decision: {link}" if flags else "")
