"""NodeVolumeLimits: what counts as a volume, how much a node takes, and columns that follow every change."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import Code, Reason, Verdict
from herodotus_record.reasons import format_reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.engine.rules import Rules
from tests.scheduler.builders import Json, PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.storage import (
    EBS,
    ClusterWithObjects,
    attachment,
    claim,
    claiming,
    codes,
    csi_node,
    driver,
    storage_class,
    tried,
    volume,
    with_volumes,
)
from tests.support.examples import examples

TOO_MANY = "volume-limit"


def csi(handle: str, driver: str = EBS) -> Json:
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def plugin(*objects: Object) -> NodeVolumeLimits:
    return NodeVolumeLimits(NoArgs(), ClusterWithObjects(*objects))


def bound(name: str, handle: str = "", **more: Any) -> list[Object]:
    """Return a claim with this name and its bound EBS volume."""
    return [claim(name, volume=f"pv-{name}", **more), volume(f"pv-{name}", **csi(handle or name))]


def uses(name: str, on: str, *claims: str, namespace: str = "default") -> PodBuilder:
    return claiming(*claims, pod=make_pod(name, namespace).node(on))


def decided(pod: PodBuilder, *objects: Object, running: list[PodBuilder] | None = None) -> Any:
    """Of node `n`, which takes one EBS volume, and node `free`, which has no CSINode."""
    columns = columns_of([make_node("n"), make_node("free")], running or [])
    return codes(tried(plugin(csi_node("n", ebs=1), *objects), pod, columns))


def on_n(code: str) -> Json:
    return {"n": code, "free": ""}


# --- what counts ------------------------------------------------------------------------------------------------------

EPHEMERAL: Json = {"ephemeral": {"volumeClaimTemplate": {}}}
OTHER: Json = {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"emptyDir": {}}, "skip", id="a volume of the node"),
        pytest.param({"csi": {"driver": EBS}}, "skip", id="an inline CSI volume"),
        pytest.param({"iscsi": {"iqn": "i"}}, "skip", id="an in-tree volume that nothing took over"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, on_n(TOO_MANY), id="aws"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, on_n(""), id="gce: a driver without a limit"),
        pytest.param({"vsphereVolume": {"volumePath": "p"}}, on_n(""), id="vsphere is not counted"),
        pytest.param({"azureFile": {"shareName": "s", "secretName": "t"}}, on_n(""), id="azure file is not counted"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}},
            on_n(
                "!converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID"
                " Invalid format for AWS volume (disk)"
            ),
            id="an in-tree volume without a CSI form, where there is a CSINode",
        ),
        pytest.param({"persistentVolumeClaim": {"claimName": "bound"}}, on_n(TOO_MANY), id="a bound claim"),
        pytest.param({"persistentVolumeClaim": {"claimName": "waits"}}, on_n(TOO_MANY), id="one to be provisioned"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "lost"}}, on_n(TOO_MANY), id="one whose volume is missing"
        ),
        pytest.param({"persistentVolumeClaim": {"claimName": "migrated"}}, on_n(TOO_MANY), id="of an in-tree class"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "in-tree"}}, on_n(TOO_MANY), id="bound to an in-tree disk"
        ),
        pytest.param({"persistentVolumeClaim": {"claimName": "local"}}, on_n(""), id="bound to a local volume"),
        pytest.param({"persistentVolumeClaim": {"claimName": "classless"}}, on_n(""), id="unbound, without a class"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "vsphere"}}, on_n(""), id="of an in-tree class not counted"
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "none"}},
            {"n": "claim-lookup", "free": "claim-lookup"},
            id="a claim that does not exist",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": ""}},
            dict.fromkeys(("n", "free"), "!PersistentVolumeClaim had no name"),
            id="a claim without a name",
        ),
        pytest.param(
            EPHEMERAL,
            dict.fromkeys(("n", "free"), "!PVC default/p-v0 was not created for pod default/p (pod is not owner)"),
            id="an ephemeral volume's claim of someone else",
        ),
    ],
)
def test_pods_that_count_towards_the_limit(given: Json, expected: Any) -> None:
    objects = [
        *bound("bound"),
        *bound("own"),
        claim("waits"),
        storage_class(),
        claim("lost", volume="gone"),
        claim("migrated", storage_class="old"),
        storage_class("old", provisioner="kubernetes.io/aws-ebs"),
        claim("vsphere", storage_class="vsphere"),
        storage_class("vsphere", provisioner="kubernetes.io/vsphere-volume"),
        claim("in-tree", volume="pv-in-tree"),
        volume("pv-in-tree", **OTHER),
        claim("local", volume="pv-local"),
        volume("pv-local", local={"path": "/mnt"}),
        claim("classless", storage_class=None),
        claim("p-v0", owner="uid-other"),
    ]
    pod = with_volumes(make_pod(), given)
    assert decided(pod, *objects, running=[uses("other", "n", "own"), uses("elsewhere", "free", "own")]) == expected


def test_an_ephemeral_volume_counts_like_any_other() -> None:
    own = claim("p-v0", owner="uid-p")
    columns = columns_of([make_node("n")])
    by = plugin(csi_node("n", ebs=0), own, storage_class())
    assert codes(tried(by, with_volumes(make_pod(), EPHEMERAL), columns)) == {"n": TOO_MANY}


# --- how much fits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "running", "claims", "expected"),
    [
        pytest.param(2, [], ["a", "b"], "", id="up to the limit"),
        pytest.param(2, [], ["a", "b", "c"], TOO_MANY, id="over it at once"),
        pytest.param(2, [["a"]], ["b", "c"], TOO_MANY, id="together with what is there"),
        pytest.param(2, [["a"], ["a"]], ["b"], "", id="a volume of two pods counts once"),
        pytest.param(2, [["a", "b"]], ["b", "a"], "", id="what is there already costs nothing"),
        pytest.param(1, [["a", "b"]], ["a"], "", id="a node over its limit takes pods that bring nothing new"),
        pytest.param(2, [["a", "b"]], ["a", "c"], TOO_MANY, id="one of them is new"),
        pytest.param(2, [["a"]], ["same", "b"], "", id="claims of one handle are one volume"),
        pytest.param(0, [], ["a"], TOO_MANY, id="none at all"),
        pytest.param(None, [["a"]], ["b", "c"], "", id="no limit"),
        pytest.param(1, [["gone"]], ["a"], "", id="a running pod's claim that is gone does not count"),
    ],
)
def test_limits(limit: int | None, running: list[list[str]], claims: list[str], expected: str) -> None:
    objects = [obj for name in ("a", "b", "c") for obj in bound(name)] + bound("same", handle="a")
    pods = [uses(f"r{i}", "n", *its) for i, its in enumerate(running)]
    columns = columns_of([make_node("n")], pods)
    assert codes(tried(plugin(csi_node("n", ebs=limit), *objects), claiming(*claims), columns)) == {"n": expected}


def test_the_reason_has_the_numbers_and_preemption_may_help() -> None:
    columns = columns_of([make_node("n")], [uses("r", "n", "a", "b")])
    objects = [obj for name in ("a", "b", "c") for obj in bound(name)]
    verdicts = tried(plugin(csi_node("n", ebs=2), *objects), claiming("a", "c"), columns)
    params = {"driver": EBS, "limit": "2", "attached": "2", "new": "1"}
    assert verdicts == {"n": Verdict(Code.UNSCHEDULABLE, (Reason("volume-limit", params),))}


def test_each_driver_has_its_own_limit() -> None:
    objects = [*bound("a"), claim("x", volume="pv-x"), volume("pv-x", **csi("x", "other"))]
    columns = columns_of([make_node("n")], [uses("r", "n", "a")])
    assert codes(tried(plugin(csi_node("n", ebs=1, other=1), *objects), claiming("x"), columns)) == {"n": ""}
    assert codes(tried(plugin(csi_node("n", ebs=1, other=0), *objects), claiming("x"), columns)) == {"n": TOO_MANY}


@pytest.mark.parametrize(
    ("attachments", "expected"),
    [
        pytest.param([attachment("va", "n", "pv-b")], TOO_MANY, id="still attached counts"),
        pytest.param([attachment("va", "other", "pv-b")], "", id="to another node"),
        pytest.param([attachment("va", "n", "pv-a")], "", id="one that a pod uses is counted already"),
        pytest.param([attachment("va", "n", "gone")], "", id="of a volume that is gone"),
        pytest.param([attachment("va", "n", None)], "", id="of no persistent volume"),
        pytest.param([attachment("va", "n", "pv-b", attacher="")], "", id="without an attacher"),
        pytest.param([attachment("va", "n", "pv-b", attacher="other")], "", id="of another attacher"),
        pytest.param([attachment("va", "n", "pv-local")], "", id="of a volume that is not CSI"),
    ],
)
def test_attachments(attachments: list[Object], expected: str) -> None:
    objects = [*bound("a"), *bound("b"), *bound("c"), volume("pv-local", local={"path": "/"}), *attachments]
    columns = columns_of([make_node("n")], [uses("r", "n", "a")])
    assert codes(tried(plugin(csi_node("n", ebs=2), *objects), claiming("c"), columns)) == {"n": expected}


def test_an_attachment_of_the_pods_own_volume_counts_beside_it() -> None:
    """As upstream counts: a volume that is attached, and that no pod on the node uses yet, takes two places."""
    columns = columns_of([make_node("n")])
    objects = [*bound("a"), attachment("va", "n", "pv-a")]
    assert codes(tried(plugin(csi_node("n", ebs=1), *objects), claiming("a"), columns)) == {"n": TOO_MANY}


def test_running_pod_with_unknown_volumes_is_an_error_on_limited_nodes() -> None:
    stranger = with_volumes(make_pod("r").node("n"), EPHEMERAL)
    elsewhere = with_volumes(make_pod("s").node("free"), EPHEMERAL)
    objects = [*bound("a"), claim("r-v0", owner="uid-x"), claim("s-v0", owner="uid-x")]
    error = "!PVC default/r-v0 was not created for pod default/r (pod is not owner)"
    assert decided(claiming("a"), *objects, running=[stranger, elsewhere]) == on_n(error)


# --- drivers that a node must have (VolumeLimitScaling) ---------------------------------------------------------------

SCALING = Rules.from_settings({"VolumeLimitScaling": True})
MISSING = "csi-driver-missing"


def decided_with(rules: Rules, pod: PodBuilder, *objects: Object) -> Any:
    """Of a node with EBS's driver, one with another driver only, and one without a CSINode."""
    columns = columns_of([make_node("has"), make_node("other"), make_node("bare")])
    by = plugin(csi_node("has", ebs=None), csi_node("other", other=None), *objects)
    by.rules = rules
    return tried(by, pod, columns)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([*bound("a"), driver(required=True)], ("", MISSING, MISSING)),
        ([*bound("a"), driver(required=False)], ("", "", "")),
        ([*bound("a"), driver(required=None)], ("", "", "")),
        ([*bound("a")], ("", "", "")),
        ([*bound("a"), driver("other", required=True)], ("", "", "")),
        ([claim("a"), storage_class(), driver(required=True)], ("", MISSING, MISSING)),
        ([claim("a"), storage_class(provisioner="other"), driver("other", required=True)], (MISSING, "", MISSING)),
        ([claim("a", storage_class=None), driver(required=True)], ("", "", "")),
    ],
    ids=["required", "not", "unset", "unknown", "another", "unbound", "unbound-another", "no-class"],
)
def test_a_node_without_a_csi_driver_is_rejected_if_its_csidriver_asks_for_it(
    objects: list[Object], expected: tuple[str, str, str]
) -> None:
    verdicts = codes(decided_with(SCALING, claiming("a"), *objects))
    assert verdicts == dict(zip(("has", "other", "bare"), expected, strict=True))


def test_a_required_driver_is_named_and_preemption_may_help() -> None:
    verdict = decided_with(SCALING, claiming("a"), *bound("a"), driver(required=True))["bare"]
    assert verdict == Verdict(Code.UNSCHEDULABLE, (Reason(MISSING, {"driver": EBS}),))
    assert format_reason(verdict.reasons[0]) == "ebs.csi.aws.com CSI driver is not installed on the node"


@pytest.mark.parametrize(("version", "rejects"), [("v1.34", False), ("v1.36", False), ("v1.37", True)])
def test_the_version_decides_whether_drivers_are_required(version: str, rejects: bool) -> None:
    rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    verdicts = codes(decided_with(rules, claiming("a"), *bound("a"), driver(required=True)))
    assert verdicts == {"has": "", "other": MISSING if rejects else "", "bare": MISSING if rejects else ""}


def test_a_node_that_lacks_the_driver_has_no_other_reason() -> None:
    objects = [*bound("a"), volume("pv-b", **csi("b", "full")), claim("b", volume="pv-b"), driver(required=True)]
    columns = columns_of([make_node("n")])
    by = plugin(csi_node("n", full=0), *objects)
    by.rules = SCALING
    assert codes(tried(by, claiming("a", "b"), columns)) == {"n": MISSING}


# --- what changes -----------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
HOSTS = ("n0", "n1", "n2")


def fresh(cluster: ClusterWithObjects, columns: NodeColumns) -> Any:
    return filter_verdicts(scaling(cluster), columns)


def scaling(cluster: ClusterWithObjects) -> NodeVolumeLimits:
    by = NodeVolumeLimits(NoArgs(), cluster)
    by.rules = SCALING
    return by


def filter_verdicts(by: NodeVolumeLimits, columns: NodeColumns) -> Any:
    verdicts = by.filter(CycleState(), claiming("a", "b").info(), columns)
    return {columns.names[s]: verdicts.verdict_at(s) for s in range(columns.slots) if columns.live[s]}


LIMITS: list[dict[str, int | None]] = [{"ebs": 0}, {"ebs": 2}, {"ebs": None}, {"other": 1}, {}]


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, Any]:
    what = draw(
        st.sampled_from(
            ["pod", "gone", "node", "no node", "claim", "volume", "class", "csi", "driver", "attach", "detach"]
        )
    )
    name, host = draw(st.sampled_from(NAMES)), draw(st.sampled_from(HOSTS))
    objects: dict[str, Any] = {
        "claim": claim(name, volume=draw(st.sampled_from(["", "pv-a", "pv-b"]))),
        "volume": volume(f"pv-{name}", **csi(draw(st.sampled_from(["x", "y"])))),
        "class": storage_class(provisioner=draw(st.sampled_from([EBS, "other"]))),
        "csi": csi_node(host, "", **draw(st.sampled_from(LIMITS))),
        "driver": driver(required=draw(st.booleans())),
        "attach": attachment(f"va-{name}", host, f"pv-{draw(st.sampled_from(NAMES))}"),
        "detach": attachment(f"va-{name}", host, "pv-a"),
    }
    return what, objects.get(what, (name, host))


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(changes(), max_size=25), checked=st.lists(st.booleans(), min_size=25, max_size=25))
def test_cached_counts_equal_a_new_count(steps: list[tuple[str, Any]], checked: list[bool]) -> None:
    cluster = ClusterWithObjects(*[obj for name in NAMES for obj in bound(name)], storage_class())
    columns = columns_of([make_node(host) for host in HOSTS])
    for host in HOSTS:
        cluster.objects.set(csi_node(host, ebs=2))
    by = scaling(cluster)
    running: dict[str, str] = {}
    for (what, given_), ask in zip(steps, checked, strict=False):
        apply(what, given_, cluster, columns, running)
        if ask:
            assert filter_verdicts(by, columns) == fresh(cluster, columns)
    assert filter_verdicts(by, columns) == fresh(cluster, columns)


def apply(what: str, given_: Any, cluster: ClusterWithObjects, columns: NodeColumns, running: dict[str, str]) -> None:
    match what:
        case "pod" | "gone":
            name, host = given_
            if name in running:
                columns.remove_pod(f"uid-{name}", running.pop(name))
            if what == "pod":
                columns.add_pod(uses(name, host, name).info(), host)
                running[name] = host
        case "node":
            columns.set_node(make_node(given_[1]).obj())
        case "no node":
            columns.remove_node(given_[1])
        case "detach":
            cluster.objects.remove(given_)
        case _:
            cluster.objects.set(given_)


SHA = hashlib.sha1(b"a-driver-with-a-long-name.storage.vendor.example.com").hexdigest()[:16]
PORTWORX = "kubernetes.io/portworx-volume"
PORTWORX_LIMIT = {"pxd.portworx.com": 0}


@pytest.mark.parametrize(("version", "rejects"), [("v1.31.14", True), ("v1.32.0", False), ("v1.36.2", False)])
@pytest.mark.parametrize("name", [EBS, "a-driver-with-a-long-name.storage.vendor.example.com"], ids=["short", "long"])
def test_limits_of_a_nodes_allocatable_count_before_v1_32(version: str, rejects: bool, name: str) -> None:
    key = f"attachable-volumes-csi-{name}" if name == EBS else "attachable-volumes-csi-a-driver-with-a-long-na" + SHA
    columns = columns_of([make_node("n").allocatable({key: "0"})])
    objects = [claim("a", volume="pv"), volume("pv", csi={"driver": name, "volumeHandle": "h"})]
    by = plugin(csi_node("n"), *objects)
    by.rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    assert codes(tried(by, claiming("a"), columns)) == {"n": TOO_MANY if rejects else ""}


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.35.6", ("", TOO_MANY, "")), ("v1.36.0", (TOO_MANY, TOO_MANY, ""))],
)
def test_portworx_volumes_count_before_v1_36_where_the_csinode_says_so(version: str, expected: tuple[str, ...]) -> None:
    columns = columns_of([make_node("plain"), make_node("migrated"), make_node("bare")])
    nodes = [csi_node("plain", "", **PORTWORX_LIMIT), csi_node("migrated", PORTWORX, **PORTWORX_LIMIT)]
    by = plugin(*nodes, claim("a", volume="pv"), volume("pv", portworxVolume={"volumeID": "1"}))
    by.rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    assert tuple(codes(tried(by, claiming("a"), columns)).values()) == expected
