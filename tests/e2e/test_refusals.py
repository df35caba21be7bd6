"""A pod that a kubelet rejects is counted, on API servers that select pods by phase and scheduler."""

from __future__ import annotations

from collections import Counter

from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import ApiServer
from scheduler.live import kubelet_rejections as refusals
from tests.e2e.cluster import SCHEDULER, Cluster, node, pod
from tests.processes import eventually


def test_a_kubelet_rejection_counts_for_the_profile_that_bound_the_pod(cluster: Cluster, namespace: str) -> None:
    counted: Counter[tuple[str, str]] = Counter()
    api = ApiServer(find_credentials(kubeconfig=str(cluster.kubeconfig), context=None, master=None))
    made = refusals.reflectors(api, [SCHEDULER], lambda *labels: counted.update([labels]))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create("/api/v1/nodes", node("n"))
    for name, scheduler in (("before", SCHEDULER), ("refused", SCHEDULER), ("theirs", "default-scheduler")):
        cluster.create(pods, pod(name, scheduler=scheduler, nodeName="n"))
    fail(cluster, f"{pods}/before")
    for reflector in made:
        reflector.start()
    try:
        eventually(lambda: all(reflector._version for reflector in made), "what there is to be listed")
        fail(cluster, f"{pods}/theirs")
        fail(cluster, f"{pods}/refused")
        eventually(lambda: bool(counted), "the refusal to be counted")
        assert counted == {("OutOfcpu", SCHEDULER): 1}
    finally:
        for reflector in made:
            reflector.stop()
        api.close()


def fail(cluster: Cluster, path: str) -> None:
    cluster.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "OutOfcpu"}})
