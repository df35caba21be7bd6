"""What the frames of a review tell of a pod."""

from __future__ import annotations

from herodotus_record import notes
from herodotus_record.model import Decision
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.records.build import Origin
from scheduler.engine.records.omitted_labels import omitted_labels
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pods import Pods
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import framework


def test_labels_that_no_record_holds_are_not_in_a_review_either() -> None:
    pod = make_pod("p").label("app", "web").label("person", "ada").info()
    origin = Origin("cluster", "me", omitted_labels("person"))
    copy = CopiedCluster(columns_of([make_node("a")]), ClusterObjects())
    frames = place(framework(), copy, Pods((pod,), named=False, notes=()), origin, seed=0)
    (decision,) = [f for f in frames if isinstance(f, Decision)]
    assert decision.pod.labels == {"app": "web"}
    assert notes.format_decision_notes(decision) == ["left out: 1 of the pod's 2 labels (--omit-labels)"]
