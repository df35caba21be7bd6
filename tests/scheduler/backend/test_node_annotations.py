"""Of a node's annotations those are kept that some plugin reads, and a change of these alone means something."""

import time

from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, EventHandlers
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import build_profile, parse_config
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.update_events import list_node_events
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PROFILE, NodeBuilder, make_node, make_pod
from tests.support.configurations import HEAD


def handlers(*filters: str) -> EventHandlers:
    """Return the event handlers of a profile with these filters. SafeOverload reads `mean-free-cpu`."""
    frameworks = {PROFILE: Framework(profile(*filters), time.monotonic)}
    return EventHandlers(ClusterState(), SchedulingQueue.for_profiles(frameworks), {}, frameworks, {})


def node(free: str) -> NodeBuilder:
    return make_node("n").annotation("mean-free-cpu", free).annotation("notes", "x" * 1000)


def known(at: EventHandlers) -> Node:
    found = at.cache.node("n")
    assert found is not None
    return found


def test_no_other_annotation_is_kept() -> None:
    at = handlers("SafeOverload")
    at.apply(ListResult(NODES, [node("100").obj()]))
    assert known(at).metadata.annotations == {"mean-free-cpu": "100"}
    nobody_reads = handlers()
    nobody_reads.apply(ListResult(NODES, [node("100").obj()]))
    assert known(nobody_reads).metadata.annotations is None


def test_a_change_reaches_the_columns_without_touching_the_node_s_row() -> None:
    """Annotators write every node every minute; the record's node table must not grow by that."""
    at = handlers("SafeOverload")
    at.apply(ListResult(NODES, [node("100").obj()]))
    column = at.cache.columns.annotation("mean-free-cpu")
    generation = at.cache.columns.generation
    at.apply(WatchEvent(NODES, "MODIFIED", node("200").obj()))
    assert column.values[column.ids(1)[0]] == "200"
    assert at.cache.columns.generation == generation


def test_a_change_is_an_event() -> None:
    old, new = make_node("n").annotation("a", "1").obj(), make_node("n").annotation("a", "2").obj()
    assert list_node_events(old, new) == [ClusterEvent.NODE_ANNOTATION]
    assert list_node_events(new, new) == []
    assert ClusterEvent.NODE_ANNOTATION.label == "NodeUpdateNodeAnnotation"


def profile(*filters: str) -> Profile:
    enabled = "".join(f"\n      - name: {name}" for name in filters)
    text = f"profiles:\n- plugins:\n    filter:\n      enabled:{enabled or ' []'}\n"
    return build_profile(parse_config(HEAD + text), 0, IN_TREE, NoCluster())


def test_a_profile_reads_what_its_plugins_read() -> None:
    assert profile().annotations == frozenset()
    assert {"mean-free-cpu", "herodotus.dev/usage-measured-at"} <= profile("SafeOverload").annotations


def test_new_statistics_requeue_a_pod_that_safe_overload_rejected() -> None:
    hints = profile("SafeOverload").hints
    old, new = make_node("n").annotation("mean-free-cpu", "1").obj(), make_node("n").obj()
    assert hints.may_help("SafeOverload", ClusterEvent.NODE_ANNOTATION, make_pod().info(), old, new)
    assert not hints.is_registered("SafeOverload", ClusterEvent.NODE_LABEL)
