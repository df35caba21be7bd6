"""Lists may be applied in any order when a scheduler starts."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS, EventHandlers
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, build_profile
from scheduler.config.types import ProfileConfig
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.plugins import IN_TREE
from scheduler.kube.watch import ListResult, WatchEvent
from scheduler.live.plugin_handle import ApiHandle
from tests.scheduler.builders import PROFILE, make_node, make_pod
from tests.scheduler.engine.dra.builders import claim, exactly

CLAIMS = "resourceclaims"


@pytest.mark.parametrize("order", [(PODS, CLAIMS), (CLAIMS, PODS)], ids=" before ".join)
def test_a_pod_may_be_listed_before_the_claim_that_it_names(order: tuple[str, str]) -> None:
    shared = ClusterState()
    config = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))
    profile = build_profile(config, 0, IN_TREE, ApiHandle(shared, preempts=True, evicts=False))
    frameworks = {PROFILE: Framework(profile, time.monotonic, (), shared.nominator)}
    queue = SchedulingQueue.for_profiles(frameworks)
    handlers = EventHandlers(shared, queue, {CLAIMS: ResourceClaim}, frameworks, {})
    pods = [make_pod(n).with_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]).obj() for n in "pq"]
    lists: dict[str, ListResult[Any]] = {
        PODS: ListResult(PODS, [pods[0]]),
        CLAIMS: ListResult(CLAIMS, [msgspec.convert(claim("c", exactly("r")), ResourceClaim)]),
    }
    handlers.apply(ListResult(NODES, [make_node("n").obj()]))
    handlers.apply(lists[order[0]])
    if order[0] == PODS:
        handlers.apply(WatchEvent(PODS, "ADDED", pods[1]))
        assert len(queue) == 0
    handlers.apply(lists[order[1]])
    assert handlers.synced
    popped = queue.pop(time.monotonic())
    assert popped is not None
    assert popped.pod.name == "p"
