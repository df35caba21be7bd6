"""A pod that a kubelet rejects is counted, on API servers that select pods by phase and scheduler."""

from __future__ import annotations

from collections import Counter

from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import ApiServer
from scheduler.live.kubelet_rejections import build_rejection_reflectors
from tests.e2e.cluster import SCHEDULER, Cluster, node, pod
from tests.processes import eventually


def test_a_kubelet_rejection_counts_for_the_profile_that_bound_the_pod(cluster: Cluster, namespace: str) -> None:
    rejections: Counter[tuple[str, str]] = Counter()
    api = ApiServer(find_credentials(kubeconfig=str(cluster.kubeconfig), context=None, master=None))
    reflectors = build_rejection_reflectors(api, [SCHEDULER], lambda *labels: rejections.update([labels]))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create("/api/v1/nodes", node("n"))
    for name, scheduler in (("before", SCHEDULER), ("rejected", SCHEDULER), ("theirs", "default-scheduler")):
        cluster.create(pods, pod(name, scheduler=scheduler, nodeName="n"))
    fail(cluster, f"{pods}/before")
    for reflector in reflectors:
        reflector.start()
    try:
        eventually(lambda: all(reflector._version for reflector in reflectors), "what there is to be listed")
        fail(cluster, f"{pods}/theirs")
        fail(cluster, f"{pods}/rejected")
        eventually(lambda: bool(rejections), "the rejection to be counted")
        assert rejections == {("OutOfcpu", SCHEDULER): 1}
    finally:
        for reflector in reflectors:
            reflector.stop()
        api.close()


def fail(cluster: Cluster, path: str) -> None:
    cluster.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "OutOfcpu"}})
