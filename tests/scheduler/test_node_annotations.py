"""Of a node's annotations those are kept that some plugin reads, and a change of these alone means something."""

from scheduler.config import build_profile, read
from scheduler.evaluate import NoCluster
from scheduler.eventhandlers import NODES, EventHandlers
from scheduler.framework.changes import node_events
from scheduler.framework.events import Event
from scheduler.framework.profile import Profile
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.types import Node
from scheduler.plugins import IN_TREE
from scheduler.queue import SchedulingQueue
from scheduler.shared import Shared
from tests.scheduler.builders import PROFILE, NodeBuilder, make_node, make_pod
from tests.scheduler.config.test_load import HEAD

READ = frozenset({"mean-free-cpu"})


def handlers(annotations: frozenset[str]) -> EventHandlers:
    queue = SchedulingQueue(lambda pod, queued_s: queued_s, lambda pod: None, {})
    return EventHandlers(Shared(), queue, {}, [PROFILE], {}, annotations)


def node(free: str) -> NodeBuilder:
    return make_node("n").annotation("mean-free-cpu", free).annotation("notes", "x" * 1000)


def known(at: EventHandlers) -> Node:
    found = at.cache.node("n")
    assert found is not None
    return found


def test_no_other_annotation_is_kept() -> None:
    at = handlers(READ)
    at.apply(Listed(NODES, [node("100").obj()]))
    assert known(at).metadata.annotations == {"mean-free-cpu": "100"}
    nobody_reads = handlers(frozenset())
    nobody_reads.apply(Listed(NODES, [node("100").obj()]))
    assert known(nobody_reads).metadata.annotations is None


def test_a_change_reaches_the_columns_without_touching_the_node_s_row() -> None:
    """Annotators write every node every minute; the record's node table must not grow by that."""
    at = handlers(READ)
    at.apply(Listed(NODES, [node("100").obj()]))
    column = at.cache.columns.annotation("mean-free-cpu")
    generation = at.cache.columns.generation
    at.apply(Changed(NODES, "MODIFIED", node("200").obj()))
    assert column.values[column.ids(1)[0]] == "200"
    assert at.cache.columns.generation == generation


def test_a_change_is_an_event() -> None:
    old, new = make_node("n").annotation("a", "1").obj(), make_node("n").annotation("a", "2").obj()
    assert node_events(old, new) == [Event.NODE_ANNOTATION]
    assert node_events(new, new) == []
    assert Event.NODE_ANNOTATION.label == "NodeUpdateNodeAnnotation"


def profile(*filters: str) -> Profile:
    enabled = "".join(f"\n      - name: {name}" for name in filters)
    text = f"profiles:\n- plugins:\n    filter:\n      enabled:{enabled or ' []'}\n"
    return build_profile(read(HEAD + text), 0, IN_TREE, NoCluster())


def test_a_profile_reads_what_its_plugins_read() -> None:
    assert profile().annotations == frozenset()
    assert {"mean-free-cpu", "herodotus.dev/usage-measured-at"} <= profile("SafeOverload").annotations


def test_safe_overload_hopes_for_new_statistics() -> None:
    hints = profile("SafeOverload").hints
    old, new = make_node("n").annotation("mean-free-cpu", "1").obj(), make_node("n").obj()
    assert hints.may_help("SafeOverload", Event.NODE_ANNOTATION, make_pod().info(), old, new)
    assert not hints.asks("SafeOverload", Event.NODE_LABEL)
