"""VolumeRestrictions: inline disks that exclude each other, and claims for one pod at a time."""

from typing import Any

import pytest

from herodotus_record.model import Code, Reason, Verdict
from scheduler.engine.columns import RowCopy
from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.framework.state import CycleState
from scheduler.engine.plugins.volume_restrictions import VolumeRestrictions
from tests.scheduler.builders import Json, columns_of, make_node, make_pod
from tests.scheduler.storage import ClusterWithObjects, claim, claiming, codes, tried, with_volumes

RWOP = ("ReadWriteOncePod",)


def gce(name: str = "d", read_only: bool = False) -> Json:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str = "d", read_only: bool = False) -> Json:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str = "d", read_only: bool = False) -> Json:
    return {"iscsi": {"iqn": name, "readOnly": read_only, "targetPortal": "10.0.0.1", "lun": 0}}


def rbd(*monitors: str, pool: str = "rbd", image: str = "i", read_only: bool = False) -> Json:
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": read_only}}


def plugin(*objects: Any) -> VolumeRestrictions:
    return VolumeRestrictions(NoArgs(), ClusterWithObjects(*objects))


@pytest.mark.parametrize(
    ("mounted", "wanted", "conflicts"),
    [
        pytest.param(gce(), gce(), True, id="gce: the same disk"),
        pytest.param(gce(), gce("other"), False, id="gce: another disk"),
        pytest.param(gce(read_only=True), gce(read_only=True), False, id="gce: both only read"),
        pytest.param(gce(read_only=True), gce(), True, id="gce: one of them writes"),
        pytest.param(ebs(), ebs(), True, id="ebs: the same disk"),
        pytest.param(ebs(read_only=True), ebs(read_only=True), True, id="ebs: reading does not help"),
        pytest.param(ebs(), gce(), False, id="different kinds of one name"),
        pytest.param(iscsi(), iscsi(), True, id="iscsi: the same name"),
        pytest.param(iscsi(read_only=True), iscsi(read_only=True), False, id="iscsi: both only read"),
        pytest.param(rbd("a", "b"), rbd("b", "c"), True, id="rbd: a monitor in common"),
        pytest.param(rbd("a"), rbd("b"), False, id="rbd: another cluster"),
        pytest.param(rbd("a"), rbd("a", image="j"), False, id="rbd: another image"),
        pytest.param(rbd("a"), rbd("a", pool="q"), False, id="rbd: another pool"),
        pytest.param(rbd("a", read_only=True), rbd("a", read_only=True), False, id="rbd: both only read"),
        pytest.param(rbd(), rbd(), False, id="rbd: without monitors nothing is in common"),
    ],
)
def test_inline_disks(mounted: Json, wanted: Json, conflicts: bool) -> None:
    running = with_volumes(make_pod("other", namespace="elsewhere").node("a"), mounted)
    columns = columns_of([make_node("a"), make_node("b")], [running])
    expected = "disk-conflict" if conflicts else ""
    assert codes(tried(plugin(), with_volumes(make_pod(), wanted), columns)) == {"a": expected, "b": ""}


def test_the_reason_names_the_disk_and_preemption_may_help() -> None:
    columns = columns_of([make_node("a")], [with_volumes(make_pod("other").node("a"), gce("d"))])
    said = tried(plugin(), with_volumes(make_pod(), gce("free"), gce("d")), columns)
    reason = Reason("disk-conflict", {"disk": "gcePersistentDisk d"})
    assert said == {"a": Verdict(Code.UNSCHEDULABLE, (reason,))}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param(["shared"], "skip", id="a claim for many pods"),
        pytest.param(["free"], "skip", id="a claim for one pod, and none uses it"),
        pytest.param(["taken"], {"a": "claim-in-use", "b": "claim-in-use"}, id="in use anywhere closes every node"),
        pytest.param(["shared", "taken"], {"a": "claim-in-use", "b": "claim-in-use"}, id="one of several"),
        pytest.param(["none", "taken"], "claim-not-found", id="a claim that does not exist"),
    ],
)
def test_claims_for_one_pod(claims: list[str], expected: Any) -> None:
    objects = (claim("shared"), claim("free", modes=RWOP), claim("taken", modes=RWOP))
    running = claiming("taken", "shared", pod=make_pod("other").node("a"))
    columns = columns_of([make_node("a"), make_node("b")], [running])
    assert codes(tried(plugin(*objects), claiming(*claims), columns)) == expected


def test_a_claim_of_that_name_in_another_namespace_is_another() -> None:
    running = claiming("c", pod=make_pod("other", namespace="elsewhere").node("a"))
    columns = columns_of([make_node("a")], [running])
    assert codes(tried(plugin(claim("c", modes=RWOP)), claiming("c"), columns)) == "skip"


def test_a_disk_is_the_first_reason() -> None:
    running = with_volumes(make_pod("other").node("a"), gce(), {"persistentVolumeClaim": {"claimName": "c"}})
    pod = with_volumes(make_pod(), gce(), {"persistentVolumeClaim": {"claimName": "c"}})
    columns = columns_of([make_node("a"), make_node("b")], [running])
    by = plugin(claim("c", modes=RWOP))
    assert codes(tried(by, pod, columns)) == {"a": "disk-conflict", "b": "claim-in-use"}


def test_a_pod_taken_off_frees_the_claim_for_the_copy_alone() -> None:
    running = claiming("c", pod=make_pod("other").node("a")).info()
    columns = columns_of([make_node("a")])
    columns.add_pod(running, "a")
    by, state, pod = plugin(claim("c", modes=RWOP)), CycleState(), claiming("c").info()
    by.pre_filter(state, pod, columns)
    node, tried_on = RowCopy(columns, [0]), state.clone()

    node.remove_pod(running.uid, "a")
    by.remove_pod(tried_on, pod, running, node, 0)
    assert by.filter(tried_on, pod, node).verdict_at(0).code is Code.SUCCESS
    by.add_pod(tried_on, pod, running, node, 0)
    assert by.filter(tried_on, pod, node).verdict_at(0).code is Code.UNSCHEDULABLE
    assert by.filter(state, pod, columns).verdict_at(0).code is Code.UNSCHEDULABLE
