"""Snapshots: what is kept decides as the whole does, damage is noticed, and pods are placed again on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from scheduler.commands import main as app
from scheduler.engine.objects.types import Object, Pod
from scheduler.offline.snapshots.document import SnapshotError, items_of, snapshot
from scheduler.offline.snapshots.taking import PATHS, items
from tests.e2e.random_cluster import RandomCluster
from tests.kube.servers import api_of, status
from tests.scheduler.builders import PodBuilder, make_node, make_pod
from tests.support.configurations import PACKED

Json = dict[str, Any]
SECRET = "s3cr3t"


class PagingApiServer:
    """An API server that lists in pages of one object, and serves no API of autoscalers without an object of it."""

    def __init__(self, objects: dict[str, list[Json]]) -> None:
        self._objects = objects

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, query = request.url.path, request.url.params
        if path not in self._objects and path not in PATHS:
            return status(404, "NotFound", "the server could not find the requested resource")
        objects, at = self._objects.get(path, []), int(query.get("continue", "0"))
        more = {"continue": str(at + 1)} if at + 1 < len(objects) else {}
        return httpx.Response(200, json={"metadata": more, "items": objects[at : at + 1]})


def taken(objects: dict[str, list[Json]], *, full: bool = False, annotations: tuple[str, ...] = ()) -> list[Json]:
    return list(items(api_of(PagingApiServer(objects)), full=full, annotations=annotations, report=lambda *_: None))


def of(api_server: list[Json], **metadata: Any) -> Json:
    return snapshot(api_server, cluster="c", server="v1.36.2", taken_at="2026-03-01T12:00:00Z", full=False, **metadata)


def test_objects_of_autoscalers_are_kept_with_the_fields_that_are_read() -> None:
    pool = {
        "metadata": {"name": "spot", "annotations": {"note": SECRET}},
        "spec": {"limits": {"cpu": "100"}, "template": {"spec": {"nodeClassRef": {"name": SECRET}}}},
    }
    kept = taken({"/apis/karpenter.sh/v1/nodepools": [pool]})
    assert kept == [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "spot"},
            "spec": {"limits": {"cpu": "100"}},
        }
    ]
    assert not [body for body in taken({}) if body["kind"] == "NodePool"]


@pytest.mark.parametrize("seed", range(3))
def test_snapshot_decodes_to_the_same_objects(seed: int) -> None:
    """So every pod is decided as on the cluster itself: scheduling reads nothing but what is decoded."""
    cluster = RandomCluster(seed, 12)
    pods = [*cluster.running(), *(cluster.incoming(i) for i in range(20))]
    others = [
        (path, body) for path, body in cluster.first() if path.replace("/namespaces/", "/") in PATHS or path in PATHS
    ]
    given: dict[str, list[Json]] = {"/api/v1/nodes": cluster.nodes(), "/api/v1/pods": pods}
    for path, body in others:
        given.setdefault(path, []).append(body)
    kept = taken(given)
    assert [body["kind"] for body in kept].count("Pod") == len(pods)
    whole: dict[str, list[Object]] = {}
    for path, bodies in given.items():
        kind = PATHS[path][0]
        whole.setdefault(kind.__name__, []).extend(msgspec.convert(body, kind) for body in bodies)
    decoded: dict[str, list[Object]] = {}
    for body in kept:
        kind = next(kind for kind, _ in PATHS.values() if kind.__name__ == body["kind"])
        decoded.setdefault(body["kind"], []).append(msgspec.convert(body, kind))
    assert decoded == whole


def test_unread_fields_are_left_out() -> None:
    pod = make_pod("p").request(cpu="1").json
    pod["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": SECRET}], "args": [SECRET]}
    pod["metadata"]["annotations"] = {"note": SECRET}
    node = make_node("n").json
    node["metadata"]["annotations"] = {"price": "3", "note": SECRET}
    objects = {"/api/v1/nodes": [node], "/api/v1/pods": [pod]}
    kept = taken(objects, annotations=("price",))
    assert SECRET not in json.dumps(kept)
    assert kept[0]["metadata"]["annotations"] == {"price": "3"}
    assert SECRET in json.dumps(taken(objects, full=True))


def test_an_empty_selector_is_not_an_absent_one() -> None:
    """The one matches everything, the other nothing."""
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = make_pod("p").label("empty", "").with_spec(affinity=affinity).json
    (kept,) = taken({"/api/v1/pods": [pod]})
    assert msgspec.convert(kept, Pod) == msgspec.convert(pod, Pod)
    (required,) = kept["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == term
    assert kept["metadata"]["labels"] == {"empty": ""}


class TestDamage:
    def test_a_whole_one_is_read(self) -> None:
        kept = taken({"/api/v1/nodes": [make_node("n").json]})
        again = json.loads(json.dumps(of(kept)))
        assert items_of(again) == kept

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            pytest.param(lambda d: d["items"].pop(), "damaged", id="cut"),
            pytest.param(lambda d: d["items"][0]["metadata"].update(name="m"), "damaged", id="changed"),
            pytest.param(lambda d: d.pop("items"), "metadata and items: required", id="no items"),
            pytest.param(
                lambda d: d.update(apiVersion="x/v9"), "apiVersion: 'x/v9' is not read here", id="of another version"
            ),
        ],
    )
    def test_incomplete_snapshot_is_refused(self, change: Any, said: str) -> None:
        document = of(taken({"/api/v1/nodes": [make_node("n").json]}))
        change(document)
        with pytest.raises(SnapshotError, match=said):
            items_of(document)


# --- replay -----------------------------------------------------------------------------------------------------------


def on(node: str, name: str, second: int) -> Json:
    pod: PodBuilder = make_pod(name).request(cpu="1").owner("ReplicaSet", "web-7f5d").node(node)
    pod.label("pod-template-hash", "7f5d")
    pod.json["metadata"]["creationTimestamp"] = f"2026-03-01T12:00:{second:02}Z"
    pod.json["status"]["phase"] = "Running"
    return pod.json


@pytest.fixture
def spread(tmp_path: Path) -> Path:
    """Two nodes, four pods, as the default profile places them."""
    nodes = [make_node(n).allocatable(cpu="8").json for n in ("a", "b")]
    pods = [on("ab"[i % 2], f"web-{i}", i) for i in range(4)]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(of(taken({"/api/v1/nodes": nodes, "/api/v1/pods": pods}))))
    return path


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> Any:
    assert app.main(["replay", *map(str, arguments), "-o", "json"]) == code
    said = capsys.readouterr()
    return json.loads(said.out) if code == 0 else said.err


def test_the_same_configuration_changes_nothing(spread: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = replayed(capsys, spread)
    assert (answer["pods"], answer["same"], answer["moved"], answer["unplaced"], answer["nodes"]) == (4, 4, [], [], [])


def test_another_configuration_moves_what_it_would_move(
    spread: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "packed.yaml").write_text(PACKED)
    answer = replayed(capsys, spread, "--config", tmp_path / "packed.yaml")
    assert [(m["pod"], m["from"], m["to"], m["decidedBy"]) for m in answer["moved"]] == [
        ("web-1", "b", "a", "NodeResourcesFit"),
        ("web-3", "b", "a", "NodeResourcesFit"),
    ]
    assert answer["nodes"] == [{"node": "a", "before": 2, "after": 4}, {"node": "b", "before": 2, "after": 0}]
    against_itself = replayed(
        capsys, spread, "--config", tmp_path / "packed.yaml", "--baseline", tmp_path / "packed.yaml"
    )
    assert against_itself["same"] == 4


def test_pods_that_are_nominated_for_a_node_keep_their_room_in_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(n).allocatable(cpu="8").json for n in ("a", "b")]
    urgent = make_pod("urgent").request(cpu="8").priority(9).nominated("a").json
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(of(taken({"/api/v1/nodes": nodes, "/api/v1/pods": [on("a", "web-0", 0), urgent]}))))
    assert [(m["pod"], m["from"], m["to"]) for m in replayed(capsys, path)["moved"]] == [("web-0", "a", "b")]


@pytest.mark.parametrize(
    ("only", "pods"),
    [
        (("--pod", "default/web-1"), 1),
        (("--namespace", "default"), 4),
        (("--workload", "default/replicaset/web-7f5d"), 4),
        (("--workload", "default/Deployment/web"), 4),
    ],
    ids=lambda v: v[0] if isinstance(v, tuple) else "",
)
def test_some_pods_alone(spread: Path, capsys: pytest.CaptureFixture[str], only: tuple[str, ...], pods: int) -> None:
    assert replayed(capsys, spread, *only)["pods"] == pods


def test_recorded_decisions_give_the_order(spread: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decisions = [
        {"metadata": {"creationTimestamp": f"2026-03-01T12:00:{second:02}Z"}, "spec": {"pod": {"uid": f"uid-web-{i}"}}}
        for i, second in ((3, 1), (2, 2))
    ]
    (tmp_path / "decisions.jsonl").write_text("".join(f"{json.dumps(d)}\n" for d in decisions))
    (tmp_path / "packed.yaml").write_text(PACKED)
    answer = replayed(capsys, spread, "--decisions", tmp_path / "decisions.jsonl", "--config", tmp_path / "packed.yaml")
    # web-3 first: a and b are alike for it, so it stays; then b is the fuller
    assert [(m["pod"], m["from"], m["to"]) for m in answer["moved"]] == [("web-2", "a", "b")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"kind": "List", "items": []}', "expected a ClusterSnapshot, found List"),
        ("[", "expected"),
        ("", "expected one document, found none"),
    ],
    ids=["a foreign one", "damaged", "empty"],
)
def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str) -> None:
    (tmp_path / "file.json").write_text(content)
    assert said in replayed(capsys, tmp_path / "file.json", code=1)


@pytest.mark.parametrize(
    "option", [("--pod", "default/other"), ("--workload", "default/Deployment/web-7f5d")], ids=lambda v: v[0]
)
def test_selection_without_pods_is_an_error(
    spread: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert f"no pod on a node matches {' '.join(option)}" in replayed(capsys, spread, *option, code=1)


def test_a_snapshot_is_a_cluster_for_evaluate(spread: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.json").write_text(json.dumps({"kind": "Pod", **make_pod("new").request(cpu="1").json}))
    assert app.main(["evaluate", "--cluster", str(spread), "--pod", str(tmp_path / "pod.json")]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["expect"]["feasible"]) == ["a", "b"]
