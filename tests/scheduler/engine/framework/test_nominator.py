"""Who is nominated for which node, as this process knows it (kube-scheduler's nominator.go)."""

from __future__ import annotations

from scheduler.engine.framework.nominated import CLEARED, Nomination, Nominator
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.builders import make_pod


def pod(name: str = "p", node: str = "", priority: int = 0) -> PodInfo:
    made = make_pod(name).priority(priority)
    return (made.nominated(node) if node else made).info()


def test_status_sets_and_clears_the_nomination() -> None:
    nominator = Nominator()
    nominator.update_from_status(pod(node="a"))
    assert (nominator.node_of("uid-p"), nominator.nodes()) == ("a", ["a"])
    nominator.update_from_status(pod(node="b"))
    assert (nominator.node_of("uid-p"), nominator.nodes()) == ("b", ["b"])
    nominator.update_from_status(pod())
    assert nominator.nodes() == []


def test_assumed_placement_counts_before_the_api_server_confirms_it() -> None:
    nominator = Nominator()
    nominator.set_nomination(pod(), Nomination("a"))
    nominator.update_from_status(pod())  # an older state
    assert nominator.node_of("uid-p") == "a"
    nominator.update_from_status(pod(node="a"))
    nominator.update_from_status(pod())  # it was shown, and is cleared
    assert nominator.node_of("uid-p") == ""


def test_a_nomination_counts_for_the_pod_before_its_status_shows_it() -> None:
    nominator, waiting = Nominator(), pod()
    nominator.set_nomination(waiting, Nomination("a"))
    nominator.hide(waiting.uid)  # assumed in a trial of its group, which is undone
    assert (nominator.find_node(waiting), nominator.nodes()) == ("a", [])
    nominator.set_nomination(waiting, None)
    assert nominator.nodes() == ["a"]
    nominator.note_status(pod(node="a"))  # seen while it was assumed again
    assert nominator.find_node(pod()) == ""


def test_a_cleared_nomination_does_not_come_back_with_an_older_status() -> None:
    nominator = Nominator()
    nominator.set_nomination(pod(node="a"), CLEARED)
    nominator.update_from_status(pod(node="a"))
    assert (nominator.find_node(pod(node="a")), nominator.nodes()) == ("", [])
    nominator.update_from_status(pod(node="b"))  # somebody else's
    assert nominator.nodes() == ["b"]


def test_a_pod_that_is_gone_leaves_nothing_behind() -> None:
    nominator = Nominator()
    nominator.set_nomination(pod(), Nomination("a"))
    nominator.remove("uid-p")
    assert (nominator.find_node(pod()), nominator.nodes()) == ("", [])


def test_attempt_without_a_nomination_keeps_the_status() -> None:
    nominator = Nominator()
    nominator.set_nomination(pod(node="a"), None)
    assert nominator.node_of("uid-p") == "a"
    nominator.set_nomination(pod(node="a"), CLEARED)
    assert nominator.node_of("uid-p") == ""


def test_rivals_have_the_same_priority_or_a_higher_one_and_the_others_must_give_way() -> None:
    nominator = Nominator()
    for name, priority in (("low", 1), ("equal", 5), ("high", 9)):
        nominator.update_from_status(pod(name, "a", priority))
    nominator.update_from_status(pod("elsewhere", "b", 9))
    us = pod("equal", priority=5)
    assert [p.name for p in nominator.pods_not_below(us, "a")] == ["high"]
    assert [p.name for p in nominator.pods_not_below(pod("new", priority=5), "a")] == ["equal", "high"]
    assert [p.name for p in nominator.pods_below(us, "a")] == ["low"]


def test_a_pod_is_dropped_by_uid_or_by_name() -> None:
    nominator = Nominator()
    for made in (pod("p", "a"), pod("q", "a"), pod("r", "b")):
        nominator.update_from_status(made)
    nominator.remove_named(pod("q"))
    assert [p.name for p in nominator.pods_not_below(pod("new"), "a")] == ["p"]
    nominator.remove_named(make_pod("p").uid("another").info())
    assert nominator.nodes() == ["b"]
