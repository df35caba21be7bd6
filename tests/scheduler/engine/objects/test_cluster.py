"""Objects by kind, what changed of them, and indexes that follow."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.objects.cluster import MAX_CHANGES, ClusterObjects, Index
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from tests.scheduler.storage import claim, volume


def test_changes_are_reported_by_kind() -> None:
    objects = ClusterObjects()
    before = objects.revision_of(PersistentVolumeClaim)
    objects.set(volume("v"))
    assert objects.changed_since(PersistentVolumeClaim, before) == []
    objects.set(claim("a"))
    objects.remove(claim("b"))
    assert objects.changed_since(PersistentVolumeClaim, before) == [("default", "a"), ("default", "b")]
    assert objects.changed_since(PersistentVolumeClaim, before + 1) == [("default", "b")]
    assert objects.changed_since(PersistentVolumeClaim, objects.revision_of(PersistentVolumeClaim)) == []


def test_old_victims_are_not_reported() -> None:
    objects = ClusterObjects()
    for _ in range(MAX_CHANGES + 1):
        objects.set(volume("v"))
    assert objects.changed_since(PersistentVolume, 0) is None
    assert len(objects.changed_since(PersistentVolume, 1) or ()) == MAX_CHANGES


def test_relisted_object_is_not_reported() -> None:
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


class TestAssumed:
    """What this process believes of an object before the API server shows it."""

    FREE, TAKEN = volume("v"), volume("v", claim="default/c")

    def made(self) -> ClusterObjects:
        objects = ClusterObjects()
        objects.set(self.FREE)
        objects.assume(self.TAKEN)
        return objects

    def reads(self, objects: ClusterObjects) -> list[PersistentVolume | None]:
        return [objects.get(PersistentVolume, "v"), objects.shown(PersistentVolume, "v")]

    def test_it_is_read_so_until_it_is_restored(self) -> None:
        objects = self.made()
        assert self.reads(objects) == [self.TAKEN, self.FREE]
        objects.restore(self.TAKEN)
        assert self.reads(objects) == [self.FREE, self.FREE]

    def test_an_index_follows(self) -> None:
        objects = ClusterObjects()
        objects.set(self.FREE)
        index = Index(objects, PersistentVolume, lambda v: v.spec.claim_ref is None)
        assert index.get(True) == [self.FREE]
        objects.assume(self.TAKEN)
        assert (index.get(True), index.get(False)) == ([], [self.TAKEN])

    def test_another_version_ends_it_and_the_same_one_does_not(self) -> None:
        objects = self.made()
        objects.set(volume("v"))
        assert self.reads(objects) == [self.TAKEN, self.FREE]
        newer = volume("v", version="2")
        objects.set(newer)
        assert self.reads(objects) == [newer, newer]
        objects.restore(self.TAKEN)
        assert self.reads(objects) == [newer, newer]

    def test_a_new_list_with_the_same_version_leaves_it(self) -> None:
        objects = self.made()
        objects.replace_all(PersistentVolume, [volume("v"), volume("w")])
        assert self.reads(objects) == [self.TAKEN, self.FREE]
        newer = volume("v", version="2")
        objects.replace_all(PersistentVolume, [newer])
        assert self.reads(objects) == [newer, newer]

    def test_deleted_object_is_absent(self) -> None:
        objects = self.made()
        objects.remove(self.FREE)
        assert self.reads(objects) == [None, None]
