"""`whatif`: the request of each form of arguments, the golden screens, and rejected arguments."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from herodotus_cli import cluster_review, progress
from herodotus_cli.render import plain_text, terminal, whatif
from herodotus_cli.render.screen_elements import ViewOptions
from tests.cli.scenes import a_pending, a_placed
from tests.cli.service import API, Service, command
from tests.processes import ROOT
from tests.support.kubectls import fake_kubectl
from tests.support.screens import VIEWS, expect
from tests.support.what_if_documents import Json, review, review_with_victims, several

REVIEWS = f"{API}/namespaces/shop/placementreviews"
POD = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}}
CREATED = "2026-03-01T12:00:00Z"


SCENES: dict[str, tuple[Callable[[], Json], Json]] = {
    "fits": (lambda: review([a_placed(pod="checkout")], replicas=1, kind="Pod"), {}),
    "all-nodes": (
        lambda: review([a_placed(pod="checkout")], replicas=1, kind="Pod", every_node=True),
        {"every_node": True},
    ),
    "nowhere": (lambda: review([a_pending()], replicas=1, kind="Pod"), {}),
    "replicas": (lambda: review(several(), replicas=3), {}),
    "replicas-all": (lambda: review(several(), replicas=3, every_node=True), {"every_node": True}),
    "replicas-stopped": (review_with_victims, {}),
    "node": (lambda: review([a_placed(pod="checkout")], replicas=1, kind="Pod", node="worker-12"), {"one_node": True}),
}


def drawn(scene: str, view: ViewOptions, *, color: bool = False) -> str:
    make, how = SCENES[scene]
    blocks = whatif.build_screen(make(), view, **how)
    return plain_text.draw(blocks, view) if view.piped else terminal.draw(blocks, view, color=color)


@pytest.mark.parametrize("view", ["piped", "80", "200"])
@pytest.mark.parametrize("scene", SCENES)
def test_screen_is_as_recorded(scene: str, view: str) -> None:
    text = drawn(scene, VIEWS[view])
    expect(f"whatif-{scene}.{view}", text)
    if view == "80":
        assert not [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize("scene", SCENES)
def test_colour_adds_nothing_but_escape_sequences(scene: str) -> None:
    coloured = drawn(scene, VIEWS["80"], color=True)
    assert "\x1b[" in coloured
    plainly = re.sub(r"\x1b\[[0-9;]*m", "", coloured).replace(" ", "")
    assert plainly == drawn(scene, VIEWS["80"]).replace(" ", "")


def sent_request(service: Service, *arguments: str, code: int = 0) -> Json:
    """Return the document that a command line sends."""
    service.answer(REVIEWS, review([a_placed(pod="checkout")], replicas=1), 201)
    ran = command("whatif", *arguments, "--endpoint", service.url)
    assert ran.code == code
    (sent,) = service.sent
    return dict(sent)


def written(folder: Path, text: str) -> str:
    path = folder / "file.yaml"
    path.write_text(text)
    return str(path)


def test_sends_placement_review(service: Service, tmp_path: Path) -> None:
    file = written(
        tmp_path, f"kind: Service\n---\nkind: Pod\nmetadata: {{name: web, creationTimestamp: {CREATED}}}\nspec: {{}}\n"
    )
    options = ("-n", "shop", "--replicas", "3", "--node", "node/n1", "--all", "--scheduler", "ours")
    assert sent_request(service, "-f", file, *options) == {
        "apiVersion": "herodotus.dev/v1alpha1",
        "kind": "PlacementReview",
        "spec": {
            "object": {"kind": "Pod", "metadata": {"name": "web", "creationTimestamp": CREATED}, "spec": {}},
            "node": "n1",
            "allNodes": True,
            "schedulerName": "ours",
            "replicas": 3,
        },
    }


def test_uses_namespace_of_the_file_and_rejects_another(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, json.dumps(POD | {"metadata": {"name": "web", "namespace": "shop"}}))
    assert sent_request(service, "-f", file)["spec"]["object"]["metadata"]["namespace"] == "shop"
    assert command("whatif", "-f", file, "-n", "ci", "--endpoint", service.url).code == 1
    assert 'object "shop" does not match the namespace "ci"' in capsys.readouterr().err


def test_other_forms(service: Service, tmp_path: Path) -> None:
    answer = review(several(), replicas=3)
    service.answer(REVIEWS, answer, 201)
    file = written(tmp_path, json.dumps(POD))
    outputs = {
        f: command("whatif", "-f", file, "-n", "shop", "-o", f, "--endpoint", service.url) for f in ("json", "name")
    }
    assert json.loads(outputs["json"].out) == json.loads(json.dumps(answer))
    assert outputs["name"].out == "node/worker-7\nnode/worker-3\nnode/worker-7\n", "one line a pod that fits"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("pod", "web"), "/api/v1/namespaces/shop/pods/web"),
        (("pod/web",), "/api/v1/namespaces/shop/pods/web"),
        (("web",), "/api/v1/namespaces/shop/pods/web"),
        (("deploy/web",), "/apis/apps/v1/namespaces/shop/deployments/web"),
        (("job", "web"), "/apis/batch/v1/namespaces/shop/jobs/web"),
    ],
)
def test_reads_existing_object_and_sends_it_with_kubectl(tmp_path: Path, words: tuple[str, ...], path: str) -> None:
    (tmp_path / "answer").write_text(json.dumps(review([a_placed(pod="checkout")], replicas=1)))
    (tmp_path / "object").write_text(json.dumps(POD))
    script = f"[ $1 = get ] && exec cat {tmp_path}/object\ncat > {tmp_path}/sent\ncat {tmp_path}/answer"
    assert command("whatif", *words, "-n", "shop", environ=fake_kubectl(tmp_path, script)).code == 0
    got, created = (tmp_path / "arguments").read_text().splitlines()
    assert got == f"get --raw {path}"
    assert re.fullmatch(rf"create --raw /api/v1/.*/proxy{REVIEWS} -f -", created)
    assert json.loads((tmp_path / "sent").read_text())["spec"]["object"] == POD


FORBIDDEN = (
    'Error from server (Forbidden): {0} is forbidden: User "eve" cannot create resource "{0}" in API group "{1}"'
    ' in the namespace "{2}"'
)


@pytest.mark.parametrize(
    ("way", "stderr", "hint"),
    [
        (
            "proxy",
            FORBIDDEN.format("services/proxy", "", "herodotus").replace("services/proxy is", 'services "x" is'),
            "needed: create on services/proxy, https:herodotus-endpoint:8000 in namespace herodotus\n"
            "  or evaluate the cluster with your own rights: --local",
        ),
        (
            "group",
            FORBIDDEN.format("placementreviews", "herodotus.dev", "shop"),
            "needed: the ClusterRole herodotus-whatif in the pod's namespace, which edit and admin include",
        ),
    ],
)
def test_forbidden_names_the_needed_role(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str, stderr: str, hint: str
) -> None:
    other = (
        "echo '{}'"
        if way == "group"
        else "echo 'Error from server (NotFound): the server could not find the requested resource' >&2; exit 1"
    )
    script = f"case \"$*\" in 'get --raw {API}') {other};; *) echo '{stderr}' >&2; exit 1;; esac"
    file = written(tmp_path, json.dumps(POD))
    assert command("whatif", "-f", file, "-n", "shop", environ=fake_kubectl(tmp_path, script)).code == 1
    assert capsys.readouterr().err == f"{stderr}\n  {hint}\n"


@pytest.mark.parametrize(
    "question", [("capacity", "deploy/web"), ("whatif", "deploy/web"), ("nodegroups", "deploy/web")]
)
@pytest.mark.parametrize(
    ("listed", "hint"),
    [
        ('echo \'{"items": [{"metadata": {"namespace": "shop"}}]}\'', "in other namespaces: shop (-n shop)"),
        ("echo '{\"items\": []}'", "looked for in namespace here; another one: -n NAMESPACE"),
        (f"echo '{FORBIDDEN}' >&2; exit 1", "looked for in namespace here; another one: -n NAMESPACE"),
    ],
    ids=["elsewhere", "nowhere", "forbidden"],
)
def test_workload_that_is_in_another_namespace_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: tuple[str, ...], listed: str, hint: str
) -> None:
    missing = 'Error from server (NotFound): deployments.apps "web" not found'
    script = f"case \"$*\" in *fieldSelector=metadata.name%3Dweb*) {listed};; *) echo '{missing}' >&2; exit 1;; esac"
    assert command(*question, "-n", "here", environ=fake_kubectl(tmp_path, script)).code == 1
    assert capsys.readouterr().err == f"{missing}\n  {hint}\n"


def test_capacity_asks_for_a_number_of_replicas(service: Service, tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps(POD))
    command("capacity", "-f", file, "-n", "shop", "--replicas", "5", "--endpoint", service.url)
    assert service.sent[-1]["spec"]["capacity"]["limit"] == 5


def test_retries_while_other_reviews_run(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_review, "RETRY_INTERVAL_S", 0.0)
    service.refuse(REVIEWS, 429, "TooManyRequests", "8 reviews are under way; ask again")
    assert (
        command("whatif", "-f", written(tmp_path, json.dumps(POD)), "-n", "shop", "--endpoint", service.url).code == 1
    )
    assert len(service.sent) == cluster_review.MAX_TRIES
    assert capsys.readouterr().err == "Error from server (TooManyRequests): 8 reviews are under way; ask again\n"


def test_silent_scheduler_gives_kubectl_hint(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'scheduler "herodotus-scheduler" has not taken a review for 10 s'
    service.refuse(REVIEWS, 503, "ServiceUnavailable", text)
    file = written(tmp_path, json.dumps(POD))
    assert command("whatif", "-f", file, "-n", "shop", "--endpoint", service.url).code == 1
    assert capsys.readouterr().err == (
        f"Error from server (ServiceUnavailable): {text}\n  --local evaluates here, with your own rights\n"
    )


def test_long_wait_prints_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "NOTE_DELAY_S", 0.01)
    (tmp_path / "answer").write_text(json.dumps(review([a_placed(pod="checkout")], replicas=1)))
    environ = fake_kubectl(tmp_path, f"sleep 0.5\ncat {tmp_path}/answer")
    file = written(tmp_path, json.dumps(POD))
    assert command("whatif", "-f", file, "-n", "shop", environ=environ).code == 0
    assert capsys.readouterr().err == "note: this what-if takes a moment to evaluate\n"


def test_unknown_scheduler_suggests_scheduler_option(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = 'no scheduler named "default-scheduler" answers reviews; these do: herodotus-scheduler'
    service.refuse(REVIEWS, 404, "NotFound", message)
    assert (
        command("whatif", "-f", written(tmp_path, json.dumps(POD)), "-n", "shop", "--endpoint", service.url).code == 1
    )
    assert capsys.readouterr().err.endswith("  choose one of them: --scheduler NAME\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no Pod, and no workload with a template of pods\n  it holds: nothing"),
        ("kind: Service", "it holds: Service"),
        ("{a: [}", "not valid YAML (line 1)"),
    ],
)
def test_rejects_files_without_one_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert command("whatif", "-f", written(tmp_path, text), "--endpoint", "http://127.0.0.1:1").code == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "name one object: -f FILE, pod NAME, or KIND/NAME"),
        (("pod", "a", "-f", "x"), 2, "name one object"),
        (("pod",), 2, "name the pod: pod NAME"),
        (("pod", "a", "b"), 2, "names several objects: give one"),
        (("ds/a",), 2, "a is a daemonset. Its controller pins one pod to each node"),
        (("pod", "a", "--then", "cordon n1"), 2, "  kubectl herodotus whatif cordon n1"),
        (("-f", "x", "--node", "n1", "--then", "cordon n1"), 1, "error: x: No such file or directory"),
        (("deploy/a", "--node", "n1", "--then", "cordon n1"), 2, "--scheduler go without --then"),
        (("drian", "n1"), 2, "did you mean: kubectl herodotus whatif drain"),
        (("add-node", "--like", "n1"), 2, "did you mean: kubectl herodotus whatif add-nodes"),
        (("svc/a",), 2, "is not a workload"),
        (("pod", "a", "--cluster-file", "x"), 2, "--cluster-file goes with -f FILE"),
        (("pod", "a", "--replicas", "101"), 2, "'101' is not a whole number from 1 to 100"),
        (
            ("pod", "a", "--endpoint", "http://127.0.0.1:1"),
            1,
            "pod/a must be read from the API server: leave out --endpoint",
        ),
        (("-f", "/nowhere.yaml"), 1, "error: /nowhere.yaml: No such file or directory"),
    ],
)
def test_rejects_wrong_arguments(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, says: str
) -> None:
    assert command("whatif", *arguments).code == code
    assert says in capsys.readouterr().err


CLUSTER = [
    {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "9"}}}
    for name, cpu in (("small", "2"), ("large", "4"))
]


def test_cluster_files_run_the_scheduler_locally(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": CLUSTER}))
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    file = written(tmp_path, json.dumps(POD | {"spec": {"containers": [container]}}))
    environ = {"PATH": str(tmp_path)}
    ran = command(
        "whatif", "-f", file, "--cluster-file", str(cluster), "--replicas", "9", "-o", "name", environ=environ
    )
    assert (ran.code, sorted(ran.out.split())) == (0, ["node/large", "node/large", "node/small"])


def test_missing_scheduler_names_its_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus_cli.local_evaluation.find_spec", lambda _name: None)
    file = written(tmp_path, json.dumps(POD))
    assert command("whatif", "-f", file, "--cluster-file", file, environ={"PATH": str(tmp_path)}).code == 1
    assert capsys.readouterr().err == (
        "error: --cluster-file needs the scheduler, which is not part of the plugin: no herodotus-scheduler on PATH\n"
        f"  it comes with the engine: {ROOT / 'install.sh'} --with local\n"
        "  or leave out --cluster-file, to use a running cluster\n"
    )


def test_passes_on_errors_of_the_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, json.dumps(POD))
    assert (
        command(
            "whatif", "-f", file, "--cluster-file", file, environ={"PATH": str(Path(sys.executable).parent / "no")}
        ).code
        == 1
    )
    assert capsys.readouterr().err.endswith("no Node in the cluster\n")


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--exit-code",), 1)], ids=["default", "exit code"])
def test_exit_code_says_that_a_pod_does_not_fit(
    service: Service, tmp_path: Path, flags: tuple[str, ...], code: int
) -> None:
    file = written(tmp_path, json.dumps(POD))
    for scene, expected in (("replicas-stopped", code), ("nowhere", code), ("fits", 0)):
        service.answer(REVIEWS, SCENES[scene][0]())
        ran = command("whatif", "-f", file, "-n", "shop", "--endpoint", service.url, *flags)
        assert (ran.code, bool(ran.out)) == (expected, True)
