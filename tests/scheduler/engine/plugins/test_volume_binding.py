"""VolumeBinding: every message of PreFilter, every way to a volume, and a model that walks over nodes and volumes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record import reasons
from herodotus_record.model import Code, Reason, Verdict
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects import quantity
from scheduler.engine.objects.selectors import label_selector_matches, requirement_matches
from scheduler.engine.objects.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
from scheduler.engine.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from tests.scheduler.builders import Json, NodeBuilder, PodBuilder, columns_of, expression, make_node, make_pod, term
from tests.scheduler.storage import (
    BOUND,
    EBS,
    HOST,
    IMMEDIATE,
    ZONE,
    ClusterWithObjects,
    capacity,
    claim,
    claiming,
    codes,
    csi_node,
    driver,
    on_host,
    storage_class,
    tried,
    volume,
    with_volumes,
)
from tests.support.examples import examples

NO_PROVISIONER = "kubernetes.io/no-provisioner"
IN_ZONE_A = term(expression(ZONE, "In", "a"))


def plugin(*objects: Any) -> VolumeBinding:
    return VolumeBinding(VolumeBindingArgs(), ClusterWithObjects(*objects))


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).label(HOST, name).label(ZONE, zone)


NODES = columns_of([node("n1", "a"), node("n2", "a"), node("n3", "b")])


def decided(pod: PodBuilder, *objects: Any) -> Any:
    return codes(tried(plugin(*objects), pod, NODES))


def row(n1: str = "", n2: str = "", n3: str = "") -> dict[str, str]:
    return {"n1": n1, "n2": n2, "n3": n3}


def everywhere(code: str) -> dict[str, str]:
    return row(code, code, code)


# --- PreFilter --------------------------------------------------------------------------------------------------------

EPHEMERAL: Json = {"ephemeral": {"volumeClaimTemplate": {}}}


@pytest.mark.parametrize(
    ("pod", "objects", "sentence"),
    [
        pytest.param(claiming("c"), [], 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            with_volumes(make_pod(), EPHEMERAL),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"',
            id="no claim for an ephemeral volume yet",
        ),
        pytest.param(
            claiming("c"),
            [claim("c", volume="v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="a lost claim",
        ),
        pytest.param(
            claiming("c"),
            [claim("c", volume="v", deleted=True)],
            'persistentvolumeclaim "c" is being deleted',
            id="a claim that is being deleted",
        ),
        pytest.param(
            with_volumes(make_pod(), EPHEMERAL),
            [claim("p-v0", volume="v", owner="uid-other")],
            "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
            id="an ephemeral volume's claim of someone else",
        ),
        pytest.param(
            claiming("c"),
            [claim("c"), storage_class(mode=IMMEDIATE)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="unbound and not waiting",
        ),
        pytest.param(
            claiming("c"),
            [claim("c")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a class that does not exist",
        ),
        pytest.param(
            claiming("c"),
            [claim("c", storage_class=None)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="no class",
        ),
        pytest.param(
            claiming("c"),
            [claim("c", volume="v", annotations={}), storage_class()],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a volume, but the controller is not done",
        ),
        pytest.param(
            claiming("lost", "none"),
            [claim("lost", volume="v", phase="Lost", deleted=True)],
            'persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"',
            id="the first problem of the first volume",
        ),
        pytest.param(
            claiming("now", "none"),
            [claim("now"), storage_class(mode=IMMEDIATE)],
            'persistentvolumeclaim "none" not found',
            id="every claim must exist before any binding is asked about",
        ),
    ],
)
def test_pods_that_the_plugin_rejects(pod: PodBuilder, objects: list[Any], sentence: str) -> None:
    verdict = tried(plugin(*objects), pod, NODES)
    assert isinstance(verdict, Verdict)
    assert verdict.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert [reasons.format_reason(reason) for reason in verdict.reasons] == [sentence]


def test_a_pod_without_claims_is_skipped() -> None:
    assert decided(with_volumes(make_pod(), {"emptyDir": {}})) == "skip"


def test_a_class_without_a_mode_is_an_error() -> None:
    state, pod = CycleState(), claiming("c").info()
    with pytest.raises(ValueError, match=r'^VolumeBindingMode not set for StorageClass "fast"$'):
        plugin(claim("c"), storage_class(mode=None)).pre_filter(state, pod, NODES)


# --- bound claims -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        pytest.param(None, row(), id="reached from everywhere"),
        pytest.param(IN_ZONE_A, row(n3="volume-affinity"), id="a zone"),
        pytest.param(on_host("n2"), row("volume-affinity", "", "volume-affinity"), id="a local volume"),
        pytest.param(term(expression(ZONE, "NotIn", "a")), row("volume-affinity", "volume-affinity"), id="NotIn"),
        pytest.param({}, everywhere("volume-affinity"), id="an empty term matches nothing"),
        pytest.param(
            term(fields=[expression("metadata.name", "In", "n1")]),
            row(),
            id="by name: upstream skips fields for a node without a name",
        ),
        pytest.param(
            term(expression(ZONE, "Like", "a")), everywhere("volume-affinity"), id="a malformed term matches nothing"
        ),
    ],
)
def test_bound_volumes(within: Json | None, expected: Any) -> None:
    assert decided(claiming("c"), claim("c", volume="v"), volume("v", within=within)) == expected


def test_each_node_has_the_reason_of_its_first_claim_that_fails() -> None:
    objects = (claim("c", volume="v"), volume("v", within=on_host("n1", "n2")), claim("d", volume="missing"))
    assert decided(claiming("c", "d"), *objects) == row(
        "claim-volume-missing", "claim-volume-missing", "volume-affinity"
    )
    assert decided(claiming("d", "c"), *objects) == everywhere("claim-volume-missing")


def test_an_ephemeral_volume_is_bound_like_any_other() -> None:
    objects = (claim("p-v0", volume="v", owner="uid-p"), volume("v", within=IN_ZONE_A))
    assert decided(with_volumes(make_pod(), EPHEMERAL), *objects) == row(n3="volume-affinity")


def test_reasons_name_the_volume_and_where_it_is() -> None:
    verdicts = tried(plugin(claim("c", volume="v"), volume("v", within=IN_ZONE_A)), claiming("c"), NODES)
    assert isinstance(verdicts, dict)
    reason = Reason("volume-affinity", {"volume": "v", "wants": f"{ZONE}=a"})
    assert verdicts["n3"] == Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_migrated_volume_uses_the_csi_topology_of_migrated_nodes() -> None:
    disk: Json = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    nodes = columns_of(
        [
            node("in-tree", "a"),
            node("csi", "a"),
            node("csi-elsewhere", "a").label("topology.ebs.csi.aws.com/zone", "b"),
            node("csi-here", "b").label("topology.ebs.csi.aws.com/zone", "a"),
        ]
    )
    migrated = [csi_node(name, "kubernetes.io/aws-ebs") for name in ("csi", "csi-elsewhere", "csi-here")]
    by = plugin(claim("c", volume="v"), volume("v", within=IN_ZONE_A, **disk), csi_node("in-tree"), *migrated)
    assert codes(tried(by, claiming("c"), nodes)) == {
        "in-tree": "",
        "csi": "volume-affinity",
        "csi-elsewhere": "volume-affinity",
        "csi-here": "",
    }


def test_a_volume_without_a_csi_form_is_an_error_where_it_needs_one() -> None:
    disk: Json = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
    objects = (claim("c", volume="v"), volume("v", **disk), csi_node("n2", "kubernetes.io/azure-disk"))
    error = "!could not translate pv: kind(Dedicated) is not supported in csi migration"
    assert decided(claiming("c"), *objects) == row(n2=error)


# --- claims that wait: volumes that exist -----------------------------------------------------------------------------

MANUAL = storage_class(provisioner=NO_PROVISIONER)
NONE = "no-volume"


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([], everywhere(NONE), id="none"),
        pytest.param([volume("v")], row(), id="one for all nodes"),
        pytest.param([volume("v", within=on_host("n2"))], row(NONE, "", NONE), id="a local one"),
        pytest.param([volume("v", size="9Gi")], everywhere(NONE), id="too small"),
        pytest.param([volume("v", size="10240Mi")], row(), id="just large enough"),
        pytest.param([volume("v", storage_class="other")], everywhere(NONE), id="of another class"),
        pytest.param([volume("v", phase="Released")], everywhere(NONE), id="not available"),
        pytest.param([volume("v", volumeMode="Block")], everywhere(NONE), id="of another mode"),
        pytest.param([volume("v", volumeMode="Filesystem")], row(), id="of the default mode, written out"),
        pytest.param([volume("v", accessModes=["ReadOnlyMany"])], everywhere(NONE), id="of other access modes"),
        pytest.param([volume("v", volumeAttributesClassName="gold")], everywhere(NONE), id="of an attributes class"),
        pytest.param([volume("v", deleted=True)], everywhere(NONE), id="being deleted"),
        pytest.param([volume("v", claim="default/other")], everywhere(NONE), id="kept for another claim"),
        pytest.param([volume("v", claim="default/c", phase="Bound")], row(), id="kept for this claim, in any phase"),
        pytest.param(
            [volume("v", claim="default/c", claim_uid="uid-c", accessModes=[])], row(), id="kept for it, whatever modes"
        ),
        pytest.param(
            [volume("v", claim="default/c", claim_uid="an earlier one")], everywhere(NONE), id="for one of that name"
        ),
        pytest.param(
            [volume("kept", claim="default/c", within=on_host("n1")), volume("free")],
            row("", NONE, NONE),
            id="where one is kept for the claim, no other will do",
        ),
    ],
)
def test_volumes_that_exist(volumes: list[PersistentVolume], expected: Any) -> None:
    assert decided(claiming("c"), claim("c"), MANUAL, *volumes) == expected


def test_the_smallest_that_fits_is_taken_smallest_claim_first() -> None:
    large, small = claim("large", size="10Gi"), claim("small", size="1Gi")
    volumes = (volume("big", size="20Gi"), volume("fits", size="10Gi", within=IN_ZONE_A), volume("tiny", size="1Gi"))
    assert decided(claiming("large", "small"), large, small, MANUAL, *volumes) == row()
    assert decided(claiming("large", "small"), large, small, MANUAL, *volumes[:2]) == row(n3=NONE)


def test_a_selector_chooses_among_volumes() -> None:
    picky = claim("c", selector={"matchLabels": {"tier": "gold"}})
    gold = volume("gold", within=IN_ZONE_A, labels={"tier": "gold"})
    assert decided(claiming("c"), picky, MANUAL, volume("v"), gold) == row(n3=NONE)


def test_a_malformed_selector_is_an_error() -> None:
    broken = claim("c", selector={"matchExpressions": [{"key": "k", "operator": "In"}]})
    verdicts = decided(claiming("c"), broken, MANUAL)
    text = "error creating internal label selector for claim: default/c: for 'in', 'notin' operators"
    assert all(verdict.startswith(f"!{text}") for verdict in verdicts.values())


# --- claims that wait: volumes to be made -----------------------------------------------------------------------------

TOPOLOGIES = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}, {"key": HOST, "values": ["n3"]}]}]
FULL = "no-space"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([storage_class()], row(), id="the class makes one anywhere"),
        pytest.param([storage_class(provisioner="")], everywhere(NONE), id="no provisioner"),
        pytest.param([storage_class(allowedTopologies=TOPOLOGIES)], row(NONE, NONE), id="allowed topologies"),
        pytest.param([storage_class(allowedTopologies=[{}])], everywhere(NONE), id="a term that allows nothing"),
        pytest.param(
            [storage_class(allowedTopologies=TOPOLOGIES), volume("v", within=on_host("n1"))],
            row(n2=NONE),
            id="or one that exists",
        ),
        pytest.param(
            [storage_class(), driver(storage_capacity=False)], row(), id="the driver says nothing of capacity"
        ),
        pytest.param([storage_class(), driver()], everywhere(FULL), id="the driver has reported no capacity"),
        pytest.param(
            [storage_class(), driver(), capacity("c", capacity="10Gi", nodeTopology={"matchLabels": {ZONE: "a"}})],
            row(n3=FULL),
            id="capacity for a zone",
        ),
        pytest.param(
            [storage_class(), driver(), capacity("c", capacity="1Ti", maximumVolumeSize="9Gi", nodeTopology={})],
            everywhere(FULL),
            id="the largest volume counts before the capacity",
        ),
        pytest.param(
            [storage_class(), driver(), capacity("c", capacity="1Ti")], everywhere(FULL), id="capacity of no topology"
        ),
        pytest.param([storage_class(), driver(), capacity("c", nodeTopology={})], everywhere(FULL), id="of no size"),
        pytest.param(
            [storage_class(), driver(), capacity("c", "slow", capacity="1Ti", nodeTopology={})],
            everywhere(FULL),
            id="of another class",
        ),
        pytest.param(
            [storage_class(allowedTopologies=TOPOLOGIES), driver()],
            row(NONE, NONE, FULL),
            id="topology first, then capacity",
        ),
    ],
)
def test_volumes_to_be_made(objects: list[Any], expected: Any) -> None:
    assert decided(claiming("c"), claim("c"), *objects) == expected


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        pytest.param("n2", row(NONE, "", NONE), id="only there"),
        pytest.param("gone", everywhere(NONE), id="a node that is gone"),
        pytest.param("", everywhere(NONE), id="an empty annotation names no node"),
    ],
)
def test_a_selected_node_is_the_only_one(selected: str, expected: Any) -> None:
    chosen = claim("c", annotations={"volume.kubernetes.io/selected-node": selected})
    assert decided(claiming("c"), chosen, storage_class(), volume("free")) == expected


def test_a_claim_without_a_size_needs_no_capacity() -> None:
    sizeless = claim("c", resources={})
    assert decided(claiming("c"), sizeless, storage_class(), driver()) == row()


def test_all_reasons_of_a_node_in_order() -> None:
    reserved = volume("v", within=on_host("n1"), claim="default/bound")
    objects = (claim("bound", volume="v"), reserved, claim("c"), storage_class())
    assert decided(claiming("bound", "c"), *objects, driver()) == row(
        FULL, f"volume-affinity+{FULL}", f"volume-affinity+{FULL}"
    )
    missing = (claim("bound", volume="none"), claim("c"), MANUAL)
    assert decided(claiming("bound", "c"), *missing) == everywhere(f"{NONE}+claim-volume-missing")


# --- points, arguments -----------------------------------------------------------------------------------------------


def test_no_points() -> None:
    by, state, pod = plugin(), CycleState(), claiming("c").info()
    assert by.pre_score(state, pod, NODES, NODES.live).code is Code.SKIP
    assert not by.score(state, pod, NODES, NODES.live).any()


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({}, []),
        ({"bindTimeoutSeconds": 0}, []),
        ({"bindTimeoutSeconds": -1}, ["bindTimeoutSeconds"]),
        ({"shape": [{"utilization": 0, "score": 0}]}, []),
        ({"shape": [{"utilization": 101, "score": 11}]}, ["shape[0].utilization", "shape[0].score"]),
    ],
    ids=str,
)
def test_arguments(args: Json, paths: list[str]) -> None:
    assert [problem.path for problem in msgspec.convert(args, VolumeBindingArgs).problems()] == paths


# --- a model ----------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """binder.go's FindPodVolumes, node by node; volumes in order of their names."""

    volumes: Sequence[PersistentVolume]
    classes: dict[str, StorageClass]
    capacities: Sequence[CSIStorageCapacity]
    checks_capacity: bool

    def reasons(self, labels: dict[str, str], claims: Sequence[PersistentVolumeClaim]) -> str:
        reachable, found = self._bound(labels, [c for c in claims if c.spec.volume_name])
        unbound, space = True, True
        chosen: set[str] = set()
        to_match, to_provision = [], []
        for c in claims:
            if c.spec.volume_name:
                continue
            selected = c.annotations.selected_node
            if selected is None:
                to_match.append(c)
            elif selected != labels[HOST]:
                return self._joined(reachable, False, True, found)
            else:
                to_provision.append(c)
        for c in sorted(to_match, key=lambda c: self._size(c.spec.resources.requests)):
            match = self._match(c, labels, chosen)
            if match is None:
                to_provision.append(c)
            else:
                chosen.add(match.metadata.name)
        for c in to_provision:
            unbound, space = self._provision(c, labels)
            if not (unbound and space):
                break
        return self._joined(reachable, unbound, space, found)

    @staticmethod
    def _joined(reachable: bool, unbound: bool, space: bool, found: bool) -> str:
        checks = ((reachable, "volume-affinity"), (unbound, NONE), (space, FULL), (found, "claim-volume-missing"))
        return "+".join(code for fine, code in checks if not fine)

    def _bound(self, labels: dict[str, str], claims: Sequence[PersistentVolumeClaim]) -> tuple[bool, bool]:
        known = {v.metadata.name: v for v in self.volumes}
        for c in claims:
            if c.spec.volume_name not in known:
                return True, False
            if not self._reaches(known[c.spec.volume_name], labels):
                return False, True
        return True, True

    def _match(self, c: PersistentVolumeClaim, labels: dict[str, str], taken: set[str]) -> PersistentVolume | None:
        best = None
        wanted = self._size(c.spec.resources.requests)
        for v in self.volumes:
            ref = v.spec.claim_ref
            mine = ref is not None and f"{ref.namespace}/{ref.name}" == c.full_name and ref.uid in ("", c.metadata.uid)
            if v.metadata.name in taken or (ref and not mine) or v.spec.storage_class_name != c.spec.storage_class_name:
                continue
            size = self._size(v.spec.capacity)
            if size < wanted:
                continue
            if mine:
                return v if self._reaches(v, labels) else None
            if v.status.phase != "Available" or not self._reaches(v, labels):
                continue
            if not set(c.spec.access_modes or ()) <= set(v.spec.access_modes or ()):
                continue
            if best is None or size < self._size(best.spec.capacity):
                best = v
        return best

    def _provision(self, c: PersistentVolumeClaim, labels: dict[str, str]) -> tuple[bool, bool]:
        its = self.classes[c.spec.storage_class_name or ""]
        if its.provisioner == NO_PROVISIONER:
            return False, True
        allowed = [
            all(labels[r.key] in (r.values or ()) for r in t.match_label_expressions or ())
            for t in its.allowed_topologies or ()
        ]
        if allowed and not any(allowed):
            return False, True
        if its.provisioner != EBS or not self.checks_capacity:
            return True, True
        room = (
            k.storage_class_name == its.metadata.name
            and quantity.parse(k.capacity or 0) >= self._size(c.spec.resources.requests)
            and label_selector_matches(k.node_topology, labels)
            for k in self.capacities
        )
        return True, any(room)

    @staticmethod
    def _reaches(v: PersistentVolume, labels: dict[str, str]) -> bool:
        required = (v.spec.node_affinity or VolumeNodeAffinity()).required
        if required is None:
            return True
        return any(
            all(requirement_matches(r, labels.get(r.key)) for r in t.match_expressions or ())
            for t in required.node_selector_terms or ()
        )

    @staticmethod
    def _size(amounts: Any) -> int:
        return quantity.parse((amounts or {}).get("storage", 0))


CLASSES = {
    "fast": storage_class("fast"),
    "slow": storage_class("slow", provisioner="example.com/slow", allowedTopologies=[
        {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]},
        {"matchLabelExpressions": [{"key": HOST, "values": ["n3"]}]},
    ]),
    "manual": storage_class("manual", provisioner=NO_PROVISIONER),
}  # fmt: skip

SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
CLASS = st.sampled_from(sorted(CLASSES))
WITHIN = st.one_of(
    st.none(),
    st.sampled_from([IN_ZONE_A, on_host("n1"), on_host("n2", "n3"), term(expression(ZONE, "NotIn", "a"))]),
)


@st.composite
def volumes(draw: st.DrawFn, name: str) -> PersistentVolume:
    return volume(
        name,
        size=draw(SIZES),
        storage_class=draw(CLASS),
        within=draw(WITHIN),
        phase=draw(st.sampled_from(["Available", "Available", "Bound"])),
        claim=draw(st.sampled_from(["", "", "", "default/c0", "default/c1", "other/c0"])),
        claim_uid=draw(st.sampled_from(["", "uid-c0"])),
    )


@st.composite
def claims(draw: st.DrawFn, name: str) -> PersistentVolumeClaim:
    kind = draw(st.sampled_from(["bound", "waits", "waits", "waits", "selected"]))
    selected = {"volume.kubernetes.io/selected-node": draw(st.sampled_from(["n1", "n3"]))}
    return claim(
        name,
        size=draw(SIZES),
        storage_class=draw(CLASS),
        volume=draw(st.sampled_from(["v0", "v1", "none"])) if kind == "bound" else "",
        annotations={"waits": None, "bound": BOUND, "selected": selected}[kind],
    )


CAPACITIES = [
    capacity("a", capacity="2Gi", nodeTopology={"matchLabels": {ZONE: "a"}}),
    capacity("n3", capacity="3Gi", nodeTopology={"matchLabels": {HOST: "n3"}}),
]


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_the_verdicts_are_those_of_a_walk_over_nodes(data: st.DataObject) -> None:
    have = [data.draw(volumes(f"v{i}")) for i in range(data.draw(st.integers(0, 4)))]
    wanted = [data.draw(claims(f"c{i}")) for i in range(data.draw(st.integers(1, 3)))]
    checks = data.draw(st.booleans())
    objects = [*have, *wanted, *CLASSES.values(), *CAPACITIES, *([driver()] if checks else [])]
    model = Model(have, CLASSES, CAPACITIES, checks)
    labels = {name: {HOST: name, ZONE: zone} for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))}
    expected = {name: model.reasons(its, wanted) for name, its in labels.items()}
    assert decided(claiming(*(c.metadata.name for c in wanted)), *objects) == expected
