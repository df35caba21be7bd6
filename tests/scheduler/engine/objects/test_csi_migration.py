"""In-tree volumes as CSI drivers see them: csi-translation-lib's vectors."""

from typing import Any

import msgspec
import pytest

from scheduler.engine.objects import csi_migration
from scheduler.engine.objects.csi_migration import TranslationError
from scheduler.engine.objects.types import NodeSelector, Volume
from tests.scheduler.builders import Json, expression, term
from tests.scheduler.storage import volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
GKE, AWS = "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone"

GCE = {"gcePersistentDisk": {"pdName": "d"}}
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
AZURE = {"azureDisk": {"diskName": "d", "diskURI": "/disks/d"}}


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        pytest.param(EBS, {}, "vol-1", id="ebs"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, "vol-1", id="ebs with a zone"
        ),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "vol-1", id="ebs with none"),
        pytest.param(GCE, {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", id="gce"),
        pytest.param(GCE, {ZONE: "z"}, "projects/UNSPECIFIED/zones/z/disks/d", id="gce of a zone"),
        pytest.param(
            GCE, {ZONE: "z", BETA_ZONE: "b"}, "projects/UNSPECIFIED/zones/b/disks/d", id="the beta label wins"
        ),
        pytest.param(
            GCE, {ZONE: "us-c1-a__us-c1-b"}, "projects/UNSPECIFIED/regions/us-c1/disks/d", id="gce of several zones"
        ),
        pytest.param(AZURE, {}, "/disks/d", id="azure disk"),
        pytest.param({"cinder": {"volumeID": "c"}}, {}, "c", id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "p"}}, {}, "p", id="portworx"),
    ],
)
def test_handles(source: Json, labels: Json, handle: str) -> None:
    assert csi_migration.translate_volume(volume("v", labels=labels, **source)).volume_handle == handle


@pytest.mark.parametrize(
    ("source", "labels", "message"),
    [
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://z/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (disk)",
            id="ebs",
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "d", "kind": "Shared"}},
            {},
            "kind(Shared) is not supported in csi migration",
            id="azure",
        ),
        pytest.param(
            GCE,
            {ZONE: "a__b"},
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
            id="gce zones that are none",
        ),
        pytest.param(
            GCE,
            {ZONE: "us-a-1__eu-a-1"},
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[eu-a:{} us-a:{}]",
            id="gce zones of two regions",
        ),
    ],
)
def test_volume_without_csi_equivalent(source: Json, labels: Json, message: str) -> None:
    with pytest.raises(TranslationError) as e:
        csi_migration.translate_volume(volume("v", labels=labels, **source))
    assert str(e.value) == message


def test_an_inline_disk_of_gce_has_no_zone() -> None:
    inline = msgspec.convert(GCE, Volume)
    assert csi_migration.translate_inline_volume(inline) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


def zone(key: str, *values: str, operator: str = "In") -> Json:
    return expression(key, operator, *values)


@pytest.mark.parametrize(
    ("source", "within", "labels", "expected"),
    [
        pytest.param(GCE, None, {}, None, id="no topology"),
        pytest.param(GCE, term(zone(ZONE, "a")), {}, [term(zone(GKE, "a"))], id="the zone is the driver's"),
        pytest.param(EBS, term(zone(ZONE, "a")), {}, [term(zone(AWS, "a"))], id="of each driver its own"),
        pytest.param(AZURE, term(zone(ZONE, "a")), {}, [term(zone(ZONE, "a"))], id="azure keeps it"),
        pytest.param(EBS, None, {ZONE: "b__a"}, [term(zone(AWS, "a", "b"))], id="from the labels where there is none"),
        pytest.param(GCE, None, {BETA_ZONE: "a"}, [term(zone(GKE, "a"))], id="from the beta label"),
        pytest.param(EBS, None, {ZONE: " __"}, None, id="labels without a zone"),
        pytest.param(
            GCE,
            term(zone("disk", "ssd")),
            {ZONE: "a"},
            [term(zone("disk", "ssd"), zone(GKE, "a"))],
            id="added to the terms that name no zone",
        ),
        pytest.param(
            GCE,
            term(zone(BETA_ZONE, "a"), zone(BETA_REGION, "r")),
            {},
            [term(zone(GKE, "a"), zone(REGION, "r"))],
            id="a beta region becomes a general one",
        ),
        pytest.param(
            GCE,
            term(zone(ZONE, "a"), zone(REGION, "r")),
            {},
            [term(zone(GKE, "a"), zone(REGION, "r"))],
            id="a general region stays",
        ),
    ],
)
def test_topology(source: Json, within: Json | None, labels: Json, expected: Any) -> None:
    wanted = None if expected is None else msgspec.convert({"nodeSelectorTerms": expected}, NodeSelector)
    assert csi_migration.translate_node_affinity(volume("v", within=within, labels=labels, **source)) == wanted
