"""`evaluate --cluster FILES --pod FILE`: what kubectl prints and what people write; one line for whatever is wrong."""

from __future__ import annotations

import io
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.commands import main as app
from tests.scheduler.builders import make_node

Captured = pytest.CaptureFixture[str]
Json = dict[str, Any]

A = make_node("a").json | {"apiVersion": "v1", "kind": "Node"}
B = make_node("b").json | {"apiVersion": "v1", "kind": "Node"}
WEB: Json = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}


def bound(name: str, node: str, **metadata: Any) -> Json:
    """Return a handwritten pod that uses all cpu of a node."""
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def a_list(*items: Json, kind: str = "List") -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": ""}, "items": list(items)}


def typeless(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


class Files:
    """A directory of files, and evaluate run on them."""

    def __init__(self, directory: Path, capsys: Captured) -> None:
        self.directory = directory
        self.capsys = capsys

    def write(self, name: str, *documents: Any) -> str:
        path = self.directory / name
        if name.endswith(".json"):
            path.write_text("".join(map(json.dumps, documents)))
        else:
            path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    def evaluate(self, *arguments: str) -> tuple[int, Json | None, list[str]]:
        """Return the exit code, the output, and the lines on standard error without the directory."""
        code = app.main(["evaluate", *arguments])
        said = self.capsys.readouterr()
        errors = said.err.replace(f"{self.directory}/", "").splitlines()
        return code, json.loads(said.out) if said.out else None, errors

    def decided(self, *arguments: str) -> Json:
        """Return the outcome of a run without error and notes."""
        code, document, errors = self.evaluate(*arguments)
        assert (code, errors) == (0, [])
        assert document is not None
        return document


@pytest.fixture
def files(tmp_path: Path, capsys: Captured) -> Files:
    return Files(tmp_path, capsys)


def feasible(document: Json) -> list[str]:
    return document["expect"]["feasible"] or []


CLUSTERS: dict[str, list[tuple[str, list[Any]]]] = {
    "one list": [("all.yaml", [a_list(A, B, bound("p", "a"))])],
    "one list as JSON": [("all.json", [a_list(A, B, bound("p", "a"))])],
    "a file each": [("nodes.yaml", [a_list(A, B)]), ("pods.json", [a_list(bound("p", "a"))])],
    "documents": [("all.yaml", [A, None, B, bound("p", "a")])],
    "a list of lists' kinds": [
        ("n.yaml", [a_list(typeless(A), typeless(B), kind="NodeList")]),
        ("p.yaml", [a_list(typeless(bound("p", "a")), kind="PodList")]),
    ],
    "without API versions": [("all.yaml", [{k: v for k, v in o.items() if k != "apiVersion"} for o in (A, B)])],
}


@pytest.mark.parametrize("written", CLUSTERS.values(), ids=CLUSTERS)
def test_a_cluster_as_kubectl_prints_it(files: Files, written: list[tuple[str, list[Any]]]) -> None:
    paths = [files.write(name, *documents) for name, documents in written]
    paths.append(files.write("more.yaml", bound("q", "a")))
    document = files.decided("--cluster", *paths, "--pod", files.write("web.yaml", bound("web", "")))
    assert (document["id"], feasible(document)) == ("default/web", ["b"])


def test_a_directory_is_its_manifests(files: Files) -> None:
    for name, obj in (("a.yaml", A), ("b.yml", B), ("p.json", bound("p", "b"))):
        files.write(name, obj)
    (files.directory / "notes.txt").write_text("not: [a manifest")
    web = files.write("web.yaml", WEB)
    Path(web).rename(files.directory / "web")
    document = files.decided("--cluster", str(files.directory), "--pod", str(files.directory / "web"))
    assert feasible(document) == ["a", "b"]


def test_standard_input_is_one_of_the_files(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(a_list(A, B)).encode())))
    document = files.decided(
        "--cluster", files.write("p.yaml", bound("p", "a")), "-", "--pod", files.write("w.yaml", WEB)
    )
    assert feasible(document) == ["a", "b"]


def test_timestamp_like_values_are_strings(files: Files) -> None:
    (files.directory / "a.yaml").write_text(
        "kind: Node\nmetadata: {name: a, creationTimestamp: 2026-03-01T12:00:00Z, labels: {day: 2026-03-01}}\n"
        "status: {allocatable: {pods: 1}}\n"
    )
    web = files.write("web.yaml", {**WEB, "spec": {"nodeSelector": {"day": "2026-03-01"}}})
    assert feasible(files.decided("--cluster", str(files.directory / "a.yaml"), "--pod", web)) == ["a"]


class TestBoundPods:
    def test_count_each_though_they_have_no_uid(self, files: Files) -> None:
        pods = [bound("p", "a"), bound("p", "b", namespace="other")]
        code, document, _ = files.evaluate(
            "--cluster", files.write("c.yaml", a_list(A, B, *pods)), "--pod", files.write("w.yaml", bound("w", ""))
        )
        assert document is not None
        assert (code, document["expect"]["fitError"].partition(".")[0]) == (
            0,
            "0/2 nodes are available: 2 Insufficient cpu",
        )

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_that_have_finished_do_not_count(self, files: Files, phase: str) -> None:
        cluster = files.write("c.yaml", A, bound("p", "a") | {"status": {"phase": phase}})
        assert feasible(files.decided("--cluster", cluster, "--pod", files.write("w.yaml", bound("w", "")))) == ["a"]

    @pytest.mark.parametrize(
        ("there", "asked"),
        [
            (bound("web", "a"), bound("web", "")),
            (bound("web", "a", uid="1"), bound("web", "", uid="1")),
            (bound("web", "a", uid="1"), bound("web", "", uid="2")),
        ],
        ids=["by name", "by UID", "of another UID: two cannot have one name"],
    )
    def test_the_pod_itself_does_not_count(self, files: Files, there: Json, asked: Json) -> None:
        cluster = files.write("c.yaml", A, there)
        assert feasible(files.decided("--cluster", cluster, "--pod", files.write("w.yaml", asked))) == ["a"]

    def test_where_the_pod_is_does_not_bind_it(self, files: Files) -> None:
        cluster, web = files.write("c.yaml", A, B, bound("web", "a")), files.write("w.yaml", bound("web", "a"))
        code, document, notes = files.evaluate("--cluster", cluster, "--pod", web)
        assert document is not None
        assert (code, feasible(document)) == (0, ["a", "b"])
        assert notes == ["note: w.yaml: the pod is on node a; it is decided as if it were on none"]


def test_ignored_kinds_are_reported_once(files: Files) -> None:
    """A kind is known by its API version too: Services of Knative are none of ours."""
    strangers: list[Json] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": 3},
    ]
    cluster = files.write("c.yaml", a_list(A, *strangers))
    code, document, notes = files.evaluate("--cluster", cluster, "--pod", files.write("w.yaml", WEB))
    assert document is not None
    assert (code, feasible(document)) == (0, ["a"])
    assert notes == ["note: skipped: serving.knative.dev/v1/Service, v1/ConfigMap"]


def test_the_profile_is_the_pods(files: Files) -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    off = {"filter": {"disabled": [{"name": "*"}]}, "preFilter": {"disabled": [{"name": "*"}]}}
    off |= {"postFilter": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}}
    off |= {"score": {"disabled": [{"name": "*"}]}}
    profiles = [{"schedulerName": "strict"}, {"schedulerName": "lax", "plugins": off}]
    config = files.write("config.yaml", {**head, "profiles": profiles})
    cluster = files.write("c.yaml", make_node("a").cordoned().json | {"kind": "Node"})

    def decided(scheduler: str) -> tuple[list[str], list[str]]:
        web = files.write("w.yaml", {**WEB, "spec": {"schedulerName": scheduler}})
        _, document, notes = files.evaluate("--cluster", cluster, "--pod", web, "--config", config)
        assert document is not None
        return feasible(document), notes

    assert decided("lax") == (["a"], [])
    assert decided("strict") == ([], [])
    note = 'note: no profile is named "other", as the pod asks for; the first, "strict", decides'
    assert decided("other") == ([], [note])


NULLS = {"nodeName", "schedulerName", "priority", "affinity", "tolerations", "volumes", "hostNetwork", "initContainers"}


def test_a_field_that_is_null_is_absent(files: Files) -> None:
    null: dict[str, Any] = dict.fromkeys(NULLS)
    container = {"name": "c", "image": None, "ports": None, "resources": {"requests": {"cpu": "1"}, "limits": None}}
    web = {**WEB, "spec": {"containers": [container], **null}, "status": None}
    node = {**A, "spec": None, "metadata": {**A["metadata"], "uid": None, "labels": None}}
    document = files.decided("--cluster", files.write("c.yaml", node, B), "--pod", files.write("w.yaml", web))
    plain = {**WEB, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    node = {**A, "metadata": {k: v for k, v in A["metadata"].items() if k != "labels"}, "spec": {}}
    assert document == files.decided("--cluster", files.write("c.yaml", node, B), "--pod", files.write("w.yaml", plain))


@pytest.mark.parametrize("what", ["labels", "nodeSelector", "requests"])
def test_a_value_of_the_users_own_that_is_null_is_refused(files: Files, what: str) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": None} if what == "requests" else {}}}
    web: dict[str, Any] = {**WEB, "spec": {"containers": [container]}}
    if what == "labels":
        web["metadata"] = {**WEB["metadata"], "labels": {"app": None}}
    if what == "nodeSelector":
        web["spec"]["nodeSelector"] = {"zone": None}
    code, _, (error,) = files.evaluate("--cluster", files.write("c.yaml", A), "--pod", files.write("w.yaml", web))
    assert code == 1
    assert f"{what}[...]: Expected" in error


def test_a_gated_pod_is_decided_with_a_note(files: Files) -> None:
    web = {**WEB, "spec": {**WEB["spec"], "schedulingGates": [{"name": "g"}, {"name": "h"}]}}
    code, document, notes = files.evaluate("--cluster", files.write("c.yaml", A), "--pod", files.write("w.yaml", web))
    assert document is not None
    assert (code, feasible(document)) == (0, ["a"])
    assert [n.rpartition(": ")[2] for n in notes] == [
        "the pod has scheduling gates (g, h); it is decided as if they were gone"
    ]


def test_a_decision_is_the_record_of_an_attempt(files: Files) -> None:
    cluster, web = files.write("c.yaml", A, B, bound("p", "a")), files.write("w.yaml", bound("web", ""))
    document = files.decided("--cluster", cluster, "--pod", web, "-o", "decision")
    spec, status = document["spec"], document["status"]
    assert (document["kind"], document["metadata"]["namespace"], spec["pod"]["name"]) == ("Decision", "default", "web")
    assert (spec["key"]["source"], spec["key"]["podUID"]) == ("reconstructed", "default/web")
    assert (status["path"], status["node"]) == ("only-feasible-node", "b")
    assert "evaluated: no pod was bound" in spec["notes"]
    assert spec["rank"] == {"b": 1}


DEEP = "[" * 100_000
NODE = yaml.safe_dump(A)
POD = yaml.safe_dump(WEB)
BAD = {
    "not YAML": ("a: [1\nb: 2\n", POD, "c.yaml: line 2: did not find expected ',' or ']'"),
    "not YAML, the pod": (NODE, "a: [1\nb: 2\n", "w.yaml: line 2: did not find expected ',' or ']'"),
    "a control character": ('a: "\0"', POD, "c.yaml: not YAML: unacceptable character #x0000"),
    "nested without end": (DEEP, POD, "c.yaml: nested deeper than 200 levels"),
    "nested without end, as JSON": ('{"a":' * 100_000, POD, "c.yaml: nested deeper than 200 levels"),
    "a tag": ("!!python/object:os.system {}", POD, "c.yaml: line 1: could not determine a constructor for the tag"),
    "text": ("hello", POD, "c.yaml: expected an object"),
    "no kind": ("metadata: {name: x}", POD, "c.yaml: kind: required"),
    "no name": ("kind: Node\n---\n" + NODE, POD, "c.yaml: document 1 (Node): metadata.name: required"),
    "no nodes": ("", POD, "c.yaml: no Node in the cluster"),
    "only pods": (yaml.safe_dump(bound("p", "a")), POD, "c.yaml: no Node in the cluster"),
    "items that are none": ("kind: List\nitems: 3", POD, "c.yaml (List): items: expected an array"),
    "a wrong type": (
        NODE + "---\nkind: Pod\nmetadata: {name: p, namespace: n}\nspec: {containers: {}}",
        POD,
        "c.yaml: document 2 (Pod n/p): spec.containers: Expected `array | null`, got `object`",
    ),
    "an amount": (
        yaml.safe_dump(a_list(A, make_node("b").allocatable(cpu="4x").json | {"kind": "Node"})),
        POD,
        "c.yaml: items[1] (Node b): status.allocatable.cpu: '4x' is not a quantity",
    ),
    "an amount of storage": (
        NODE + "---\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {capacity: {storage: lots}}",
        POD,
        "c.yaml: document 2 (PersistentVolume v): spec.capacity.storage: 'lots' is not a quantity",
    ),
    "the pod's amount": (
        NODE,
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a}, {name: b, resources: {limits: {cpu: x}}}]}",
        "w.yaml: spec.containers[1].resources.limits.cpu: 'x' is not a quantity",
    ),
    "another kind": (NODE, "kind: Deployment\nmetadata: {name: d}", "w.yaml: kind: expected Pod, found Deployment"),
    "another Pod": (NODE, "apiVersion: v2\nkind: Pod", "w.yaml: expected a Pod (v1), found v2/Pod"),
    "two pods": (NODE, f"{POD}---\n{POD}", "w.yaml: expected one Pod, found 2 objects"),
    "no pod": (NODE, "", "w.yaml: expected one Pod, found no objects"),
    "a line break in a name": (NODE, 'kind: Pod\nmetadata: {name: 3, namespace: "a\\nb"}', "w.yaml (Pod a\\nb): "),
}


@pytest.mark.parametrize(("cluster", "pod", "message"), BAD.values(), ids=BAD)
def test_error_is_one_line(files: Files, cluster: str, pod: str, message: str) -> None:
    for name, text in (("c.yaml", cluster), ("w.yaml", pod)):
        (files.directory / name).write_text(text)
    c, w = (str(files.directory / name) for name in ("c.yaml", "w.yaml"))
    code, document, errors = files.evaluate("--cluster", c, "--pod", w)
    assert (code, document, len(errors)) == (1, None, 1)
    assert errors[0].startswith(f"error: {message}")


def test_binary_file_is_an_error(files: Files) -> None:
    (files.directory / "c.yaml").write_bytes(b"\xff\xfa")
    web = files.write("w.yaml", WEB)
    code, _, (error,) = files.evaluate("--cluster", str(files.directory / "c.yaml"), "--pod", web)
    assert code == 1
    assert error.startswith("error: c.yaml: not UTF-8 text: ")


def test_files_that_are_not_there(files: Files) -> None:
    web, empty = files.write("w.yaml", WEB), files.directory / "empty"
    empty.mkdir()
    assert files.evaluate("--cluster", "absent.yaml", "--pod", web)[::2] == (
        1,
        ["error: absent.yaml: No such file or directory"],
    )
    assert files.evaluate("--cluster", str(empty), "--pod", web)[::2] == (
        1,
        ["error: empty: no .json, .yaml, .yml file in the directory"],
    )
    assert files.evaluate("--cluster", "-", "--pod", "-")[::2] == (
        1,
        ["error: standard input (-) can be read once only"],
    )


def test_aliases_that_write_one_thing_a_billion_times(files: Files) -> None:
    names = "abcdefghij"
    bomb = '&a ["x"]\n' + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(names))
    (files.directory / "w.yaml").write_text(f"{POD}a: {bomb}")
    code, _, errors = files.evaluate("--cluster", files.write("c.yaml", A), "--pod", str(files.directory / "w.yaml"))
    assert (code, [e.rpartition(": ")[2] for e in errors]) == (1, ["document contains excessive aliasing"])


@pytest.mark.parametrize("arguments", [["--cluster", "x"], ["--pod", "x"], ["-o", "table"]], ids=" ".join)
def test_wrong_usage_is_2(capsys: Captured, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        app.main(["evaluate", *arguments])
    assert raised.value.code == 2
