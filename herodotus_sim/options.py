"""The options of a simulated cluster, each with the reason for its default.

Does not own: the command line (`__main__`). Invariant: Options never change while their cluster runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herodotus_sim.fault_plan import FaultPlan

# etcd's request limit is 1.5 MiB and kube-apiserver reads bodies up to 3 MiB.
MAX_BODY_BYTES = 3 * 1024 * 1024
# Every connection has a thread; kubectl and a scheduler together need a few dozen.
MAX_CONNECTIONS = 512
# A watch holds its connection's thread; leave half of the threads to other requests.
MAX_WATCHES = 256
# The oldest events are removed, like with kube-apiserver's TTL of one hour, so that a running demo does not grow.
MAX_EVENTS = 20_000
# 5,000 nodes with 110 pods each is Kubernetes' own ceiling per cluster (150,000 pods); with room for the rest.
MAX_OBJECTS = 200_000


@dataclass(frozen=True)
class Options:
    """The settings of one simulated cluster, which stay the same while it runs."""

    # A client can resume after a few minutes of a busy demo; one change is about 5 kB.
    history_limit: int = 20_000
    # kube-apiserver's own bookmark period.
    bookmark_interval_s: float = 60.0
    # kube-apiserver answers a too old watch with 200 and an ERROR event; proxies and old servers with HTTP 410.
    expired_watch_as_http: bool = False
    # How often an idle watch checks whether its client is still connected.
    client_check_interval_s: float = 1.0
    # Whether `sendInitialEvents=true` is supported; otherwise it is rejected as by a server without WatchList.
    watch_list: bool = True
    # The delay before each request is handled.
    latency_s: float = 0.0
    # A bound pod becomes Running a moment later, as if there were kubelets.
    run_pods: bool = False
    # Deployments, ReplicaSets, StatefulSets and Jobs get their pods, and owned objects are deleted with their owners.
    run_controllers: bool = False
    # The injected faults; PUT /faults replaces them while the server runs.
    faults: FaultPlan = field(default_factory=FaultPlan)
