"""What is kept of volumes and claims: the annotations that scheduling reads, and no others."""

import msgspec
import pytest

from scheduler.engine.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
    find_claim_name,
    is_owned_by_pod,
)
from scheduler.engine.objects.types import Object, Volume
from tests.scheduler.builders import make_pod
from tests.scheduler.storage import claim

SECRET = {"kubectl.kubernetes.io/last-applied-configuration": "password", "pv.kubernetes.io/bind-completed": "yes"}


@pytest.mark.parametrize("kind", [PersistentVolume, PersistentVolumeClaim, CSINode, VolumeAttachment])
def test_other_annotations_are_not_kept(kind: type[Object]) -> None:
    obj = msgspec.convert({"metadata": {"name": "n", "annotations": SECRET}}, kind)
    assert "password" not in repr(obj)
    assert "password" not in msgspec.json.encode(obj).decode()


@pytest.mark.parametrize(
    ("volume", "annotations", "bound"),
    [
        pytest.param("v", {"pv.kubernetes.io/bind-completed": ""}, True, id="whatever the annotation says"),
        pytest.param("v", {}, False, id="a volume alone"),
        pytest.param("", {"pv.kubernetes.io/bind-completed": "yes"}, False, id="the annotation alone"),
    ],
)
def test_fully_bound(volume: str, annotations: dict[str, str], bound: bool) -> None:
    assert claim("c", volume=volume, annotations=annotations).fully_bound is bound


@pytest.mark.parametrize(
    ("given", "annotations", "expected"),
    [
        pytest.param("fast", None, "fast", id="spec"),
        pytest.param(None, None, "", id="none"),
        pytest.param("fast", {"volume.beta.kubernetes.io/storage-class": "old"}, "old", id="the annotation wins"),
        pytest.param("fast", {"volume.beta.kubernetes.io/storage-class": ""}, "", id="even an empty one"),
    ],
)
def test_storage_class(given: str | None, annotations: dict[str, str] | None, expected: str) -> None:
    assert claim("c", storage_class=given, annotations=annotations).storage_class == expected


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, "c"),
        ({"name": "v", "ephemeral": {}}, "p-v"),
        ({"name": "v", "emptyDir": {}}, None),
    ],
    ids=["claim", "ephemeral", "neither"],
)
def test_claim_names(volume: dict[str, object], expected: str | None) -> None:
    assert find_claim_name(make_pod("p").obj(), msgspec.convert(volume, Volume)) == expected


def test_a_claim_is_made_for_its_controller() -> None:
    pod = make_pod("p").obj()
    assert is_owned_by_pod(claim("c", owner="uid-p"), pod)
    assert not is_owned_by_pod(claim("c", owner="uid-q"), pod)
    assert not is_owned_by_pod(claim("c"), pod)
