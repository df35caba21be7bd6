"""Objects by kind, what changed of them, and indexes that follow."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.cluster import RECENT, ClusterObjects, Index
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from tests.scheduler.storage import claim, volume


def test_changes_are_told_by_kind() -> None:
    objects = ClusterObjects()
    before = objects.revision_of(PersistentVolumeClaim)
    objects.set(volume("v"))
    assert objects.changed_since(PersistentVolumeClaim, before) == []
    objects.set(claim("a"))
    objects.remove(claim("b"))
    assert objects.changed_since(PersistentVolumeClaim, before) == [("default", "a"), ("default", "b")]
    assert objects.changed_since(PersistentVolumeClaim, before + 1) == [("default", "b")]
    assert objects.changed_since(PersistentVolumeClaim, objects.revision_of(PersistentVolumeClaim)) == []


def test_what_is_too_long_ago_is_not_told() -> None:
    objects = ClusterObjects()
    for _ in range(RECENT + 1):
        objects.set(volume("v"))
    assert objects.changed_since(PersistentVolume, 0) is None
    assert len(objects.changed_since(PersistentVolume, 1) or ()) == RECENT


def test_a_new_list_is_not_told_either() -> None:
    objects = ClusterObjects()
    objects.set(volume("v"))
    before = objects.revision_of(PersistentVolume)
    objects.replace_all(PersistentVolume, [volume("w")])
    assert objects.changed_since(PersistentVolume, before) is None
    assert objects.changed_since(PersistentVolume, objects.revision_of(PersistentVolume)) == []


STEPS = st.lists(st.tuples(st.sampled_from(["set", "remove", "list", "ask"]), st.integers(0, 3), st.sampled_from("xy")))


@given(STEPS)
def test_an_index_equals_one_built_anew(steps: list[tuple[str, int, str]]) -> None:
    objects = ClusterObjects()
    index = Index(objects, PersistentVolume, lambda v: v.spec.storage_class_name)

    def asked(of: Index[str, PersistentVolume]) -> dict[str, list[PersistentVolume]]:
        return {key: sorted(of.get(key), key=lambda v: v.metadata.name) for key in sorted(of)}

    for what, number, key in [*steps, ("ask", 0, "x")]:
        obj = volume(f"v{number}", storage_class=key)
        match what:
            case "set":
                objects.set(obj)
            case "remove":
                objects.remove(obj)
            case "list":
                objects.replace_all(PersistentVolume, [obj])
            case _:
                assert asked(index) == asked(Index(objects, PersistentVolume, lambda v: v.spec.storage_class_name))
