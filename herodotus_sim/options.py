"""Owns: what can be set about a simulated cluster, and the reason beside every number.

Does not own: the command line (`__main__`). Invariant: an Options never changes while its cluster runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herodotus_sim.plan import Plan

# etcd's request limit is 1.5 MiB and kube-apiserver reads bodies up to 3 MiB.
MAX_BODY_BYTES = 3 * 1024 * 1024
# Every connection is a thread; kubectl and a scheduler together need a few dozen.
MAX_CONNECTIONS = 512
# A watch holds its connection's thread; leave half of the threads to other requests.
MAX_WATCHES = 256
# Events are removed oldest first as kube-apiserver's one-hour TTL would do: a demo left running must not grow.
MAX_EVENTS = 20_000
# 5,000 nodes with 110 pods each is Kubernetes' own ceiling per cluster (150,000 pods); with room for the rest.
MAX_OBJECTS = 200_000


@dataclass(frozen=True)
class Options:
    """How one simulated cluster behaves."""

    # A client that was away for a few minutes of a busy demo can still resume; one change is about 5 kB.
    history_limit: int = 20_000
    # kube-apiserver's own bookmark period.
    bookmark_interval_s: float = 60.0
    # kube-apiserver answers a too old watch with 200 and an ERROR event; proxies and old servers with HTTP 410.
    expired_watch_as_http: bool = False
    # `sendInitialEvents=true` is answered; switched off, it is refused as by a server without WatchList.
    watch_list: bool = True
    # Waits this long before each request is handled.
    latency_s: float = 0.0
    # A bound pod becomes Running a moment later, as if there were kubelets.
    run_pods: bool = False
    # What goes wrong on purpose, until another plan is set while it runs.
    faults: Plan = field(default_factory=Plan)
