"""What becomes of a pod on a node wakes the pods that it may help."""

import pytest

from scheduler.framework.events import Event
from scheduler.eventhandlers import pod_events
from tests.scheduler.builders import PodBuilder, make_pod


def pod(cpu: str = "1") -> PodBuilder:
    return make_pod().node("n").request(cpu=cpu)


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        pytest.param(None, pod(), [Event.POD_ADD], id="new, or ours and confirmed"),
        pytest.param(pod(), pod(), [], id="nothing changed"),
        pytest.param(pod(), pod().label("app", "web"), [Event.POD_LABEL], id="labelled"),
        pytest.param(pod("2"), pod("1"), [Event.POD_SCALE_DOWN], id="it asks for less"),
        pytest.param(pod("1"), pod("2"), [], id="it asks for more"),
    ],
)
def test_events_of_a_pod_on_a_node(old: PodBuilder | None, new: PodBuilder, events: list[Event]) -> None:
    assert pod_events(old.info() if old else None, new.info()) == events
