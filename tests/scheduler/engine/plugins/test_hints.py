"""What makes each plugin think again about a pod that it rejected.

Each row: the event, the waiting pod, the object before and after, and whether the pod is tried again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from scheduler.config import build_profile, parse_config
from scheduler.engine.framework.events import QUEUE, QUEUE_SKIP, ClusterEvent
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.framework.update_events import list_node_events, list_pod_events
from scheduler.engine.objects.types import Namespace, Object
from scheduler.engine.plugins import IN_TREE
from tests.scheduler.builders import NodeBuilder, PodBuilder, expression, make_node, make_pod, term
from tests.scheduler.storage import (
    EBS,
    IMMEDIATE,
    ZONE,
    ClusterWithObjects,
    attachment,
    capacity,
    claim,
    claiming,
    csi_node,
    driver,
    made,
    storage_class,
    volume,
    with_volumes,
)
from tests.support.configurations import HEAD

NAMESPACES = (made(Namespace, {"name": "team", "labels": {"of": "us"}}), made(Namespace, {"name": "default"}))
ADDED = """
profiles:
  - schedulerName: herodotus-scheduler
    pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
"""


class Row(NamedTuple):
    event: ClusterEvent
    pod: PodBuilder
    old: Any
    new: Any
    expected: bool


def hints(config: str = "") -> QueueingHints:
    return build_profile(parse_config(HEAD + config), 0, IN_TREE, ClusterWithObjects(*NAMESPACES)).hints


HINTS = hints()


def given(obj: Any) -> Any:
    """As the handlers hand it over: pods prepared, everything else as it is decoded."""
    if isinstance(obj, PodBuilder):
        return obj.info()
    return obj.obj() if isinstance(obj, NodeBuilder) else obj


def says(plugin: str, row: Row, config: str = "") -> bool:
    loaded = hints(config) if config else HINTS
    return loaded.may_help(plugin, row.event, row.pod.info(), given(row.old), given(row.new))


def by_name(**rows: Row) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", [pytest.param(row, id=name.replace("_", " ")) for name, row in rows.items()])


def plain() -> PodBuilder:
    return make_pod()


def placed(name: str = "o") -> PodBuilder:
    return make_pod(name).node("n")


N, P = make_node, plain

# --- nodes --------------------------------------------------------------------------------------------------------

CORDON = "node.kubernetes.io/unschedulable"


@by_name(
    new=Row(ClusterEvent.NODE_ADD, P(), None, N(), QUEUE),
    new_and_cordoned=Row(ClusterEvent.NODE_ADD, P(), None, N().cordoned(), QUEUE_SKIP),
    uncordoned=Row(ClusterEvent.NODE_TAINT, P(), N().cordoned(), N(), QUEUE),
    another_taint=Row(ClusterEvent.NODE_TAINT, P(), N(), N().taint("k"), QUEUE_SKIP),
    tolerates_it_now=Row(
        ClusterEvent.WAITING_POD_TOLERATION, P(), P(), P().toleration(CORDON, operator="Exists"), QUEUE
    ),
    tolerates_something_else=Row(ClusterEvent.WAITING_POD_TOLERATION, P(), P(), P().toleration("k"), QUEUE_SKIP),
    another_pod=Row(
        ClusterEvent.POD_TOLERATION, P(), placed(), placed().toleration(CORDON, operator="Exists"), QUEUE_SKIP
    ),
    labels=Row(ClusterEvent.NODE_LABEL, P(), N().cordoned(), N(), QUEUE_SKIP),
)
def test_node_unschedulable(row: Row) -> None:
    assert says("NodeUnschedulable", row) is row.expected


@by_name(
    new=Row(ClusterEvent.NODE_ADD, P(), None, N(), QUEUE),
    taints_as_upstream=Row(ClusterEvent.NODE_TAINT, P(), N(), N().taint("k"), QUEUE),
    labels=Row(ClusterEvent.NODE_LABEL, P(), N(), N().label("k", "v"), QUEUE_SKIP),
)
def test_node_name(row: Row) -> None:
    assert says("NodeName", row) is row.expected


TOLERANT = plain().toleration("k", "v")


@by_name(
    new=Row(ClusterEvent.NODE_ADD, P(), None, N(), QUEUE),
    new_and_tainted=Row(ClusterEvent.NODE_ADD, P(), None, N().taint("k"), QUEUE_SKIP),
    new_and_its_taint_is_tolerated=Row(ClusterEvent.NODE_ADD, TOLERANT, None, N().taint("k", "v"), QUEUE),
    new_and_softly_tainted=Row(ClusterEvent.NODE_ADD, P(), None, N().taint("k", "", "PreferNoSchedule"), QUEUE),
    taint_gone=Row(ClusterEvent.NODE_TAINT, P(), N().taint("k"), N(), QUEUE),
    one_of_two_gone=Row(ClusterEvent.NODE_TAINT, P(), N().taint("k").taint("l"), N().taint("k"), QUEUE_SKIP),
    tolerable_before_and_after=Row(ClusterEvent.NODE_TAINT, TOLERANT, N().taint("k", "v"), N(), QUEUE_SKIP),
    own_toleration=Row(ClusterEvent.WAITING_POD_TOLERATION, P(), P(), P().toleration("x"), QUEUE),
    another_pods=Row(ClusterEvent.POD_TOLERATION, P(), placed(), placed().toleration("x"), QUEUE_SKIP),
)
def test_taint_toleration(row: Row) -> None:
    assert says("TaintToleration", row) is row.expected


SSD = plain().required_terms(term(expression("disk", "In", "ssd")))
MALFORMED = plain().required_terms(term(expression("disk", "Gt", "many")))


@by_name(
    new_and_matches=Row(ClusterEvent.NODE_ADD, SSD, None, N().label("disk", "ssd"), QUEUE),
    new_and_does_not=Row(ClusterEvent.NODE_ADD, SSD, None, N(), QUEUE_SKIP),
    matches_now=Row(ClusterEvent.NODE_LABEL, SSD, N(), N().label("disk", "ssd"), QUEUE),
    matched_before=Row(
        ClusterEvent.NODE_LABEL, SSD, N().label("disk", "ssd"), N().label("disk", "ssd").label("k", "v"), QUEUE_SKIP
    ),
    matches_no_longer=Row(ClusterEvent.NODE_LABEL, SSD, N().label("disk", "ssd"), N(), QUEUE_SKIP),
    node_selector=Row(ClusterEvent.NODE_LABEL, plain().node_selector(k="v"), N(), N().label("k", "v"), QUEUE),
    malformed_counts_as_maybe=Row(ClusterEvent.NODE_ADD, MALFORMED, None, N(), QUEUE),
    own_update=Row(ClusterEvent.WAITING_POD_UPDATE, P(), P(), SSD, QUEUE_SKIP),
)
def test_node_affinity(row: Row) -> None:
    assert says("NodeAffinity", row) is row.expected


@pytest.mark.parametrize(("pool", "expected"), [("a", QUEUE), ("b", QUEUE_SKIP)])
def test_node_affinity_of_the_profile(pool: str, expected: bool) -> None:
    assert (
        says(
            "NodeAffinity", Row(ClusterEvent.NODE_ADD, plain(), None, make_node().label("pool", pool), expected), ADDED
        )
        is expected
    )


def featured(*features: str) -> Any:
    return made(type(make_node().obj()), {"name": "n"}, status={"declaredFeatures": list(features)})


@by_name(
    new=Row(ClusterEvent.NODE_ADD, P(), None, featured(), QUEUE),
    changed=Row(ClusterEvent.NODE_FEATURE, P(), featured("a"), featured("a", "b"), QUEUE),
    own_needs=Row(ClusterEvent.WAITING_POD_UPDATE, P(), P().with_spec(hostNetwork=True, hostUsers=False), P(), QUEUE),
    own_labels=Row(ClusterEvent.WAITING_POD_LABEL, P(), P(), P().label("k", "v"), QUEUE_SKIP),
    another_pods=Row(
        ClusterEvent.POD_UPDATE, P(), placed(), placed().with_spec(hostNetwork=True, hostUsers=False), QUEUE_SKIP
    ),
)
def test_node_declared_features(row: Row) -> None:
    assert says("NodeDeclaredFeatures", row) is row.expected


# --- what pods take up --------------------------------------------------------------------------------------------

ONE_CPU = plain().request(cpu="1")
GPU = plain().request({"example.com/gpu": "1"})


@by_name(
    pod_gone=Row(ClusterEvent.POD_DELETE, ONE_CPU, placed(), None, QUEUE),
    nominated_pod_gone=Row(ClusterEvent.POD_DELETE, ONE_CPU, make_pod("o").nominated("n"), None, QUEUE),
    waiting_pod_gone=Row(ClusterEvent.POD_DELETE, ONE_CPU, make_pod("o"), None, QUEUE_SKIP),
    less_of_what_it_wants=Row(
        ClusterEvent.POD_SCALE_DOWN, ONE_CPU, placed().request(cpu="2"), placed().request(cpu="1"), QUEUE
    ),
    less_of_something_else=Row(
        ClusterEvent.POD_SCALE_DOWN,
        ONE_CPU,
        placed().request(cpu="1", memory="2Gi"),
        placed().request(cpu="1"),
        QUEUE_SKIP,
    ),
    another_waiting_pod_asks_for_less=Row(
        ClusterEvent.WAITING_POD_SCALE_DOWN, ONE_CPU, make_pod("o").request(cpu="2"), make_pod("o"), QUEUE_SKIP
    ),
    it_asks_for_less_itself=Row(ClusterEvent.WAITING_POD_SCALE_DOWN, ONE_CPU, P().request(cpu="2"), ONE_CPU, QUEUE),
    new_node=Row(ClusterEvent.NODE_ADD, ONE_CPU, None, N(), QUEUE),
    new_node_too_small=Row(ClusterEvent.NODE_ADD, ONE_CPU, None, N().allocatable(cpu="500m"), QUEUE_SKIP),
    new_node_for_no_pods=Row(ClusterEvent.NODE_ADD, ONE_CPU, None, N().allocatable(pods="0"), QUEUE_SKIP),
    node_grew=Row(ClusterEvent.NODE_ALLOCATABLE, ONE_CPU, N(), N().allocatable(cpu="8"), QUEUE),
    node_grew_and_is_too_small=Row(
        ClusterEvent.NODE_ALLOCATABLE, ONE_CPU, N().allocatable(cpu="100m"), N().allocatable(cpu="500m"), QUEUE_SKIP
    ),
    node_grew_in_something_else=Row(
        ClusterEvent.NODE_ALLOCATABLE, ONE_CPU, N(), N().allocatable(memory="64Gi"), QUEUE_SKIP
    ),
    node_takes_more_pods=Row(ClusterEvent.NODE_ALLOCATABLE, P(), N(), N().allocatable(pods="200"), QUEUE),
    node_shrank=Row(ClusterEvent.NODE_ALLOCATABLE, ONE_CPU, N(), N().allocatable(cpu="2"), QUEUE_SKIP),
    node_has_a_device=Row(ClusterEvent.NODE_ALLOCATABLE, GPU, N(), N().allocatable({"example.com/gpu": "1"}), QUEUE),
    taints_as_upstream=Row(ClusterEvent.NODE_TAINT, ONE_CPU, N().taint("k"), N(), QUEUE),
    pod_added=Row(ClusterEvent.POD_ADD, ONE_CPU, None, placed(), QUEUE_SKIP),
)
def test_node_resources_fit(row: Row) -> None:
    assert says("NodeResourcesFit", row) is row.expected


WEB = plain().host_port(80)


@by_name(
    port_free=Row(ClusterEvent.POD_DELETE, WEB, placed().host_port(80), None, QUEUE),
    another_port=Row(ClusterEvent.POD_DELETE, WEB, placed().host_port(81), None, QUEUE_SKIP),
    another_protocol=Row(ClusterEvent.POD_DELETE, WEB, placed().host_port(80, "UDP"), None, QUEUE_SKIP),
    no_port=Row(ClusterEvent.POD_DELETE, WEB, placed(), None, QUEUE_SKIP),
    waiting_pod_gone=Row(ClusterEvent.POD_DELETE, WEB, make_pod("o").host_port(80), None, QUEUE_SKIP),
    nominated_pod_gone=Row(ClusterEvent.POD_DELETE, WEB, make_pod("o").nominated("n").host_port(80), None, QUEUE),
    new_node=Row(ClusterEvent.NODE_ADD, WEB, None, N(), QUEUE),
    node_grew=Row(ClusterEvent.NODE_ALLOCATABLE, WEB, N(), N().allocatable(cpu="8"), QUEUE_SKIP),
)
def test_node_ports(row: Row) -> None:
    assert says("NodePorts", row) is row.expected


# --- other pods ---------------------------------------------------------------------------------------------------


def wants(kind: str, *terms: dict[str, Any]) -> PodBuilder:
    return plain().with_spec(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}})


def near(key: str = "zone", namespaces: Any = None, **labels: str) -> dict[str, Any]:
    chosen = {} if namespaces is None else {"namespaceSelector": {"matchLabels": namespaces}}
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **chosen}


FRIEND, FOE = wants("podAffinity", near(app="db")), wants("podAntiAffinity", near(app="db"))
FOES = wants("podAntiAffinity", near(app="db"), near("rack", app="web"))
BOTH = wants("podAffinity", near(app="db"), near("rack", tier="a"))
TEAMS = wants("podAffinity", near(app="db", namespaces={"of": "us"}))
DB, TEAMS_DB = placed().label("app", "db"), make_pod("o", "team").node("n").label("app", "db")


@by_name(
    friend_came=Row(ClusterEvent.POD_ADD, FRIEND, None, DB, QUEUE),
    stranger_came=Row(ClusterEvent.POD_ADD, FRIEND, None, placed(), QUEUE_SKIP),
    friend_of_another_namespace_came=Row(ClusterEvent.POD_ADD, FRIEND, None, TEAMS_DB, QUEUE_SKIP),
    friend_by_its_namespaces_labels_came=Row(ClusterEvent.POD_ADD, TEAMS, None, TEAMS_DB, QUEUE),
    one_of_two_terms=Row(ClusterEvent.POD_ADD, BOTH, None, DB, QUEUE_SKIP),
    both_terms=Row(ClusterEvent.POD_ADD, BOTH, None, placed().label("app", "db").label("tier", "a"), QUEUE),
    friend_nominated=Row(ClusterEvent.POD_ADD, FRIEND, None, make_pod("o").nominated("n").label("app", "db"), QUEUE),
    friend_still_waits=Row(ClusterEvent.POD_ADD, FRIEND, None, make_pod("o").label("app", "db"), QUEUE_SKIP),
    friend_gone=Row(ClusterEvent.POD_DELETE, FRIEND, DB, None, QUEUE_SKIP),
    foe_gone=Row(ClusterEvent.POD_DELETE, FOE, DB, None, QUEUE),
    one_of_its_foes_gone=Row(ClusterEvent.POD_DELETE, FOES, DB, None, QUEUE),
    foe_came=Row(ClusterEvent.POD_ADD, FOE, None, DB, QUEUE_SKIP),
    someone_who_objected_is_gone=Row(
        ClusterEvent.POD_DELETE, P().label("app", "web"), placed().anti_affinity("zone", app="web"), None, QUEUE
    ),
    someone_who_did_not_object_is_gone=Row(
        ClusterEvent.POD_DELETE, P().label("app", "web"), placed().anti_affinity("zone", app="db"), None, QUEUE_SKIP
    ),
    became_a_friend=Row(ClusterEvent.POD_LABEL, FRIEND, placed(), DB, QUEUE),
    was_a_friend_before=Row(
        ClusterEvent.POD_LABEL, FRIEND, DB, placed().label("app", "db").label("k", "v"), QUEUE_SKIP
    ),
    ceased_to_be_a_foe=Row(ClusterEvent.POD_LABEL, FOE, DB, placed(), QUEUE),
    became_a_foe=Row(ClusterEvent.POD_LABEL, FOE, placed(), DB, QUEUE_SKIP),
    own_labels=Row(ClusterEvent.WAITING_POD_LABEL, P(), P(), P().label("k", "v"), QUEUE),
    node_with_the_key=Row(ClusterEvent.NODE_ADD, FRIEND, None, N().label("zone", "a"), QUEUE),
    node_without_it=Row(ClusterEvent.NODE_ADD, FRIEND, None, N(), QUEUE_SKIP),
    node_joined_a_domain=Row(ClusterEvent.NODE_LABEL, FRIEND, N(), N().label("zone", "a"), QUEUE),
    node_changed_its_domain=Row(ClusterEvent.NODE_LABEL, FRIEND, N().label("zone", "a"), N().label("zone", "b"), QUEUE),
    node_left_its_domain=Row(ClusterEvent.NODE_LABEL, FRIEND, N().label("zone", "a"), N(), QUEUE_SKIP),
    other_labels=Row(ClusterEvent.NODE_LABEL, FRIEND, N(), N().label("k", "v"), QUEUE_SKIP),
    any_node_for_who_has_foes=Row(ClusterEvent.NODE_ADD, FOE, None, N(), QUEUE),
    node_left_the_foes_domain=Row(ClusterEvent.NODE_LABEL, FOE, N().label("zone", "a"), N(), QUEUE),
    node_joined_the_foes_domain=Row(ClusterEvent.NODE_LABEL, FOE, N(), N().label("zone", "a"), QUEUE_SKIP),
)
def test_inter_pod_affinity(row: Row) -> None:
    assert says("InterPodAffinity", row) is row.expected


def spread(**constraint: Any) -> PodBuilder:
    selector = {"matchLabels": {"app": "web"}}
    made_of = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return plain().label("app", "web").with_spec(topologySpreadConstraints=[made_of | constraint])


SPREAD, HONOURS = spread(), spread(nodeTaintsPolicy="Honor")
PEER = placed().label("app", "web")
IN_A, IN_B = N().label("zone", "a"), N().label("zone", "b")


@by_name(
    peer_came=Row(ClusterEvent.POD_ADD, SPREAD, None, PEER, QUEUE),
    stranger_came=Row(ClusterEvent.POD_ADD, SPREAD, None, placed(), QUEUE_SKIP),
    peer_of_another_namespace=Row(
        ClusterEvent.POD_ADD, SPREAD, None, make_pod("o", "x").node("n").label("app", "web"), QUEUE_SKIP
    ),
    peer_gone=Row(ClusterEvent.POD_DELETE, SPREAD, PEER, None, QUEUE),
    waiting_peer_gone=Row(ClusterEvent.POD_DELETE, SPREAD, make_pod("o").label("app", "web"), None, QUEUE_SKIP),
    became_a_peer=Row(ClusterEvent.POD_LABEL, SPREAD, placed(), PEER, QUEUE),
    ceased_to_be_one=Row(ClusterEvent.POD_LABEL, SPREAD, PEER, placed(), QUEUE),
    remains_one=Row(ClusterEvent.POD_LABEL, SPREAD, PEER, placed().label("app", "web").label("k", "v"), QUEUE_SKIP),
    own_labels=Row(ClusterEvent.WAITING_POD_LABEL, SPREAD, P(), SPREAD, QUEUE),
    own_toleration_where_taints_count=Row(
        ClusterEvent.WAITING_POD_TOLERATION,
        HONOURS,
        spread(nodeTaintsPolicy="Honor"),
        spread(nodeTaintsPolicy="Honor").toleration("k"),
        QUEUE,
    ),
    own_toleration_where_they_do_not=Row(
        ClusterEvent.WAITING_POD_TOLERATION, SPREAD, spread(), spread().toleration("k"), QUEUE_SKIP
    ),
    soft_constraints_reject_nobody=Row(
        ClusterEvent.POD_ADD, spread(whenUnsatisfiable="ScheduleAnyway"), None, PEER, QUEUE_SKIP
    ),
    node_in_a_domain=Row(ClusterEvent.NODE_ADD, SPREAD, None, IN_A, QUEUE),
    node_outside=Row(ClusterEvent.NODE_ADD, SPREAD, None, N(), QUEUE_SKIP),
    node_gone=Row(ClusterEvent.NODE_DELETE, SPREAD, IN_A, None, QUEUE),
    node_outside_gone=Row(ClusterEvent.NODE_DELETE, SPREAD, N(), None, QUEUE_SKIP),
    node_joined=Row(ClusterEvent.NODE_LABEL, SPREAD, N(), IN_A, QUEUE),
    node_left=Row(ClusterEvent.NODE_LABEL, SPREAD, IN_A, N(), QUEUE),
    node_moved=Row(ClusterEvent.NODE_LABEL, SPREAD, IN_A, IN_B, QUEUE),
    other_labels=Row(ClusterEvent.NODE_LABEL, SPREAD, IN_A, N().label("zone", "a").label("k", "v"), QUEUE_SKIP),
    taints=Row(ClusterEvent.NODE_TAINT, SPREAD, IN_A, N().label("zone", "a").taint("k"), QUEUE),
    taints_outside=Row(ClusterEvent.NODE_TAINT, SPREAD, N(), N().taint("k"), QUEUE_SKIP),
)
def test_pod_topology_spread(row: Row) -> None:
    assert says("PodTopologySpread", row) is row.expected


# --- volumes ------------------------------------------------------------------------------------------------------

DATA = claiming("data")
SCRATCH = with_volumes(make_pod(), {"name": "scratch", "ephemeral": {}})
DISK = {"gcePersistentDisk": {"pdName": "d"}}
AWS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
MINE, OTHERS, ELSEWHERE = claim("data"), claim("other"), claim("data", namespace="x")


@by_name(
    pod_with_its_claim_gone=Row(ClusterEvent.POD_DELETE, DATA, claiming("data", pod=placed()), None, QUEUE),
    pod_with_another_claim_gone=Row(ClusterEvent.POD_DELETE, DATA, claiming("other", pod=placed()), None, QUEUE_SKIP),
    same_name_elsewhere=Row(
        ClusterEvent.POD_DELETE, DATA, claiming("data", pod=make_pod("o", "x").node("n")), None, QUEUE_SKIP
    ),
    pod_with_its_disk_gone=Row(
        ClusterEvent.POD_DELETE, with_volumes(P(), DISK), with_volumes(placed(), DISK), None, QUEUE
    ),
    its_claim_is_there=Row(ClusterEvent.CLAIM_ADD, DATA, None, MINE, QUEUE),
    another_is=Row(ClusterEvent.CLAIM_ADD, DATA, None, OTHERS, QUEUE_SKIP),
    its_claim_changed=Row(ClusterEvent.CLAIM_UPDATE, DATA, MINE, claim("data", volume="v"), QUEUE_SKIP),
    new_node=Row(ClusterEvent.NODE_ADD, DATA, None, N(), QUEUE),
)
def test_volume_restrictions(row: Row) -> None:
    assert says("VolumeRestrictions", row) is row.expected


@by_name(
    new_driver=Row(ClusterEvent.CSI_NODE_ADD, DATA, None, csi_node("n"), QUEUE),
    limit_raised=Row(ClusterEvent.CSI_NODE_UPDATE, DATA, csi_node("n", ebs=1), csi_node("n", ebs=2), QUEUE),
    limit_lowered=Row(ClusterEvent.CSI_NODE_UPDATE, DATA, csi_node("n", ebs=2), csi_node("n", ebs=1), QUEUE_SKIP),
    pod_with_a_claim_gone=Row(ClusterEvent.POD_DELETE, DATA, claiming("other", pod=placed()), None, QUEUE),
    pod_with_a_migrated_disk_gone=Row(ClusterEvent.POD_DELETE, DATA, with_volumes(placed(), AWS), None, QUEUE),
    pod_without_volumes_gone=Row(ClusterEvent.POD_DELETE, DATA, placed(), None, QUEUE_SKIP),
    waiting_pod_gone=Row(ClusterEvent.POD_DELETE, DATA, claiming("other", pod=make_pod("o")), None, QUEUE_SKIP),
    its_claim_is_there=Row(ClusterEvent.CLAIM_ADD, DATA, None, MINE, QUEUE),
    its_ephemeral_claim_is_there=Row(ClusterEvent.CLAIM_ADD, SCRATCH, None, claim("p-scratch"), QUEUE),
    another_is=Row(ClusterEvent.CLAIM_ADD, DATA, None, ELSEWHERE, QUEUE_SKIP),
    volume_detached=Row(ClusterEvent.ATTACHMENT_DELETE, DATA, attachment("a", "n", "v"), None, QUEUE),
    its_drivers_volume_detached=Row(
        ClusterEvent.ATTACHMENT_DELETE, with_volumes(P(), AWS), attachment("a", "n", "v", EBS), None, QUEUE
    ),
    another_drivers=Row(
        ClusterEvent.ATTACHMENT_DELETE, with_volumes(P(), AWS), attachment("a", "n", "v", "x"), None, QUEUE_SKIP
    ),
)
def test_node_volume_limits(row: Row) -> None:
    assert says("NodeVolumeLimits", row) is row.expected


ALLOWED: dict[str, Any] = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]}


@by_name(
    new_class=Row(ClusterEvent.STORAGE_CLASS_ADD, DATA, None, storage_class(), QUEUE),
    class_for_other_nodes=Row(
        ClusterEvent.STORAGE_CLASS_UPDATE, DATA, storage_class(), storage_class(**ALLOWED), QUEUE
    ),
    class_otherwise=Row(
        ClusterEvent.STORAGE_CLASS_UPDATE, DATA, storage_class(), storage_class(provisioner="x"), QUEUE_SKIP
    ),
    its_claim_is_there=Row(ClusterEvent.CLAIM_ADD, DATA, None, MINE, QUEUE),
    its_claim_changed=Row(ClusterEvent.CLAIM_UPDATE, DATA, MINE, claim("data", volume="v"), QUEUE),
    its_ephemeral_claim_changed=Row(
        ClusterEvent.CLAIM_UPDATE, SCRATCH, claim("p-scratch"), claim("p-scratch", volume="v"), QUEUE
    ),
    another_changed=Row(ClusterEvent.CLAIM_UPDATE, DATA, ELSEWHERE, ELSEWHERE, QUEUE_SKIP),
    volume=Row(ClusterEvent.VOLUME_ADD, DATA, None, volume("v"), QUEUE),
    volume_changed=Row(ClusterEvent.VOLUME_UPDATE, DATA, volume("v"), volume("v", phase="Bound"), QUEUE),
    new_node=Row(ClusterEvent.NODE_ADD, DATA, None, N(), QUEUE),
    node_labels=Row(ClusterEvent.NODE_LABEL, DATA, N(), N().label("k", "v"), QUEUE),
    csi_node=Row(ClusterEvent.CSI_NODE_ADD, DATA, None, csi_node("n"), QUEUE),
    migrated=Row(ClusterEvent.CSI_NODE_UPDATE, DATA, csi_node("n"), csi_node("n", "kubernetes.io/aws-ebs"), QUEUE),
    csi_node_otherwise=Row(ClusterEvent.CSI_NODE_UPDATE, DATA, csi_node("n", ebs=1), csi_node("n", ebs=2), QUEUE_SKIP),
    capacity_no_longer_matters=Row(
        ClusterEvent.CSI_DRIVER_UPDATE, DATA, driver(), driver(storage_capacity=False), QUEUE
    ),
    capacity_matters_now=Row(
        ClusterEvent.CSI_DRIVER_UPDATE, DATA, driver(storage_capacity=False), driver(), QUEUE_SKIP
    ),
    new_capacity=Row(ClusterEvent.CAPACITY_ADD, DATA, None, capacity("c"), QUEUE),
    more=Row(ClusterEvent.CAPACITY_UPDATE, DATA, capacity("c", capacity="1Gi"), capacity("c", capacity="2Gi"), QUEUE),
    larger_volumes=Row(
        ClusterEvent.CAPACITY_UPDATE,
        DATA,
        capacity("c", capacity="9Gi", maximumVolumeSize="1Gi"),
        capacity("c", capacity="5Gi", maximumVolumeSize="2Gi"),
        QUEUE,
    ),
    less=Row(
        ClusterEvent.CAPACITY_UPDATE, DATA, capacity("c", capacity="2Gi"), capacity("c", capacity="1Gi"), QUEUE_SKIP
    ),
)
def test_volume_binding(row: Row) -> None:
    assert says("VolumeBinding", row) is row.expected


def zoned(zone: str) -> Object:
    return volume("v", labels={ZONE: zone})


@by_name(
    class_whose_claims_wait=Row(ClusterEvent.STORAGE_CLASS_ADD, DATA, None, storage_class(), QUEUE),
    class_whose_claims_do_not=Row(
        ClusterEvent.STORAGE_CLASS_ADD, DATA, None, storage_class(mode=IMMEDIATE), QUEUE_SKIP
    ),
    new_node=Row(ClusterEvent.NODE_ADD, DATA, None, N(), QUEUE),
    node_labels=Row(ClusterEvent.NODE_LABEL, DATA, N(), N().label("k", "v"), QUEUE),
    its_claim_changed=Row(ClusterEvent.CLAIM_UPDATE, DATA, MINE, claim("data", volume="v"), QUEUE),
    another_changed=Row(ClusterEvent.CLAIM_UPDATE, DATA, OTHERS, OTHERS, QUEUE_SKIP),
    volume=Row(ClusterEvent.VOLUME_ADD, DATA, None, zoned("a"), QUEUE),
    volume_moved=Row(ClusterEvent.VOLUME_UPDATE, DATA, zoned("a"), zoned("b"), QUEUE),
    volume_otherwise=Row(
        ClusterEvent.VOLUME_UPDATE, DATA, zoned("a"), volume("v", size="1Gi", labels={ZONE: "a"}), QUEUE_SKIP
    ),
)
def test_volume_zone(row: Row) -> None:
    assert says("VolumeZone", row) is row.expected


# --- the rest -----------------------------------------------------------------------------------------------------


@by_name(
    own_last_gate=Row(ClusterEvent.WAITING_POD_UNGATED, P(), P().gate("g"), P(), QUEUE),
    another_pods=Row(ClusterEvent.WAITING_POD_UNGATED, P(), make_pod("o").gate("g"), make_pod("o"), QUEUE_SKIP),
    own_update=Row(ClusterEvent.WAITING_POD_UPDATE, P(), P().gate("g", "h"), P().gate("h"), QUEUE_SKIP),
)
def test_scheduling_gates(row: Row) -> None:
    assert says("SchedulingGates", row) is row.expected


def test_default_preemption_leaves_it_to_the_rejectors_but_has_its_gate_looked_at() -> None:
    assert HINTS.is_registered("DefaultPreemption", ClusterEvent.POD_DELETE)
    assert says("DefaultPreemption", Row(ClusterEvent.POD_DELETE, plain(), placed(), None, QUEUE_SKIP)) is QUEUE_SKIP
    assert not HINTS.is_registered("DefaultPreemption", ClusterEvent.NODE_ADD)


def test_devices_and_claims_help_a_pod_with_claims() -> None:
    helping = {event for event in ClusterEvent if HINTS.is_registered("DynamicResources", event)}
    assert helping == {
        *(ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.NODE_TAINT),
        *(ClusterEvent.RESOURCE_CLAIM_ADD, ClusterEvent.RESOURCE_CLAIM_UPDATE),
        *(ClusterEvent.POD_CLAIM_GENERATED, ClusterEvent.WAITING_POD_CLAIM_GENERATED),
        *(ClusterEvent.DEVICE_CLASS_ADD, ClusterEvent.DEVICE_CLASS_UPDATE),
        *(ClusterEvent.RESOURCE_SLICE_ADD, ClusterEvent.RESOURCE_SLICE_UPDATE),
    }


def test_an_extender_registers_every_event_except_wildcards() -> None:
    assert {event for event in ClusterEvent if not HINTS.is_registered("Extender", event)} == {
        ClusterEvent.TIMEOUT,
        ClusterEvent.FORCE_ACTIVATE,
    }


@pytest.mark.parametrize("plugin", [name for name in IN_TREE if name not in ("DynamicResources", "DefaultPreemption")])
def test_registration_for_new_nodes_includes_taint_changes(plugin: str) -> None:
    """As upstream arranges it in the framework."""
    assert HINTS.is_registered(plugin, ClusterEvent.NODE_TAINT) or not HINTS.is_registered(
        plugin, ClusterEvent.NODE_ADD
    )


# --- what changes mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        pytest.param(None, placed(), [ClusterEvent.POD_ADD], id="new on a node, or ours and confirmed"),
        pytest.param(None, plain(), [ClusterEvent.WAITING_POD_ADD], id="new and waiting"),
        pytest.param(placed(), placed(), [], id="the same again"),
        pytest.param(placed(), placed().phase("Running"), [ClusterEvent.POD_UPDATE], id="something else"),
        pytest.param(placed(), placed().label("k", "v"), [ClusterEvent.POD_LABEL], id="labels"),
        pytest.param(plain(), plain().label("k", "v"), [ClusterEvent.WAITING_POD_LABEL], id="a waiting pod's labels"),
        pytest.param(
            placed().request(cpu="2"), placed().request(cpu="1"), [ClusterEvent.POD_SCALE_DOWN], id="asks for less"
        ),
        pytest.param(placed().request(cpu="2"), placed(), [ClusterEvent.POD_SCALE_DOWN], id="asks for none of it"),
        pytest.param(
            placed().request(cpu="1"), placed().request(cpu="2"), [ClusterEvent.POD_UPDATE], id="asks for more"
        ),
        pytest.param(plain(), plain().toleration("k"), [ClusterEvent.WAITING_POD_TOLERATION], id="tolerates more"),
        pytest.param(plain().gate("a", "b"), plain().gate("b"), [ClusterEvent.WAITING_POD_UPDATE], id="a gate remains"),
        pytest.param(
            plain().gate("a"),
            plain().label("k", "v"),
            [ClusterEvent.WAITING_POD_LABEL, ClusterEvent.WAITING_POD_UNGATED],
            id="labelled and ungated",
        ),
    ],
)
def test_pod_update_becomes_cluster_events(old: PodBuilder | None, new: PodBuilder, events: list[ClusterEvent]) -> None:
    assert list_pod_events(old.info() if old else None, new.info()) == events


def test_node_features_are_compared_with_requirements() -> None:
    assert list_node_events(featured("a"), featured("a", "b")) == [ClusterEvent.NODE_FEATURE]
