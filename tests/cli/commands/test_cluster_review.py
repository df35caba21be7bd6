"""`whatif drain` and its like, `capacity` and `consolidate`: arguments, answers from files, golden screens."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from herodotus_answers.brief import shorten
from herodotus_answers.cluster_headlines import HIDDEN_REASON
from herodotus_answers.cluster_review import (
    BlockedPod,
    Capacity,
    ClusterReviewStatus,
    ReviewedGroup,
    ReviewedPlacement,
    build_cluster_review,
)
from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.workloads.admission import AdmissionRefusal
from herodotus_answers.node_groups import NodeGroup, NodeGroupRejection, NodeGroupReview, NodeGroupVerdict, PodVerdicts
from herodotus_answers.node_list import build_node_list
from herodotus_cli import admission_refusals, progress
from herodotus_cli import cluster_review as cluster_question
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment
from herodotus_cli.render import cluster_review, plain_text, terminal
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_record.disclosure import mask_answer
from tests.answer_schemas import validate
from tests.cli.scenes import NOW
from tests.cli.service import Ran, command
from tests.scheduler.engine.nodegroups.objects import (
    daemon_set,
    grouped,
    isin,
    machine_deployment,
    node_pool,
)
from tests.scheduler.engine.whatif.clusters import a_budget, a_node, a_pod
from tests.support.answers import a_status, as_json, fill
from tests.support.kubectls import fake_kubectl
from tests.support.namespaces import OneNamespace
from tests.support.screens import VIEWS, expect

Json = dict[str, Any]

CLUSTER = [
    *(a_node(f"n{i}") for i in range(3)),
    *(a_pod(f"web-{i}", f"n{i % 3}") for i in range(6)),
    a_pod("db-0", "n0", "StatefulSet/db", cpu="2"),
    a_pod("agent", "n0", "DaemonSet/agent", cpu="100m"),
    a_pod("waits", cpu="3", owner=""),
    a_budget("web", "web", minAvailable=5),
]
REASONS = (
    "0/3 nodes are available: 3 Insufficient cpu.",
    "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.",
    "0/3 nodes are available: 3 Too many pods.",
)
NEW = a_pod("new", cpu="500m", owner="")
QUESTIONS = {
    "drain": ("whatif", "drain", "n0"),
    "drain-blocked": ("whatif", "drain", "n0", "node/n1"),
    "drain-then": ("whatif", "drain", "n0", "--then", "add-nodes --like n1 --count 2", "--then", "uncordon n0"),
    "add-nodes": ("whatif", "add-nodes", "--like", "n0", "--zone", "b"),
    "remove": ("whatif", "remove", "n2"),
    "scale": ("whatif", "scale", "rs/web=3", "-n", "shop"),
    "taint": ("whatif", "taint", "n0", "a=b:NoExecute"),
    "nothing": ("whatif", "label", "n0", "disk=ssd"),
    "capacity": ("capacity", "-f", "FILE"),
    "consolidate": ("consolidate",),
    "consolidate-blockers": ("consolidate", "--blockers"),
    "upgrade": ("whatif", "upgrade", "--to", "v1.35"),
    "deschedule": ("whatif", "deschedule", "--policy", "POLICY"),
    "deschedule-pod": ("whatif", "deschedule", "--policy", "POLICY", "--pod", "shop/web-0"),
    "plan": ("plan", "pod", "waits", "-n", "shop", "--all"),
    "plan-none": ("plan", "waits", "-n", "shop", "--kinds", "scale-down"),
    "plan-drain": ("plan", "drain", "n1", "n2"),
    "plan-consolidate": ("plan", "consolidate"),
    "plan-file": ("plan", "-f", "BIG", "--kinds", "move,nodes", "--max-steps", "1"),
    "nodegroups": ("nodegroups",),
    "nodegroups-pod": ("nodegroups", "pod", "waits", "-n", "shop"),
    "nodegroups-file": ("nodegroups", "-f", "FILE", "--node-groups-file", "SHAPES"),
    "nodegroups-pending": ("nodegroups", "--pending", "--all"),
}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "shop"},
    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "waits"},
    "reason": "NotTriggerScaleUp",
    "message": "pod didn't trigger scale-up: 1 Insufficient cpu",
    "count": 3,
    "source": {"component": "cluster-autoscaler"},
}
GROUPS = [
    grouped("g0", "small", cpu="2", zone="a"),
    grouped("g1", "small", cpu="2", zone="b"),
    grouped(
        "g2", "gpu", cpu="16", allocatable={"nvidia.com/gpu": "4"}, taints=[{"key": "gpu", "effect": "NoSchedule"}]
    ),
    machine_deployment("md-0", 3, annotations={"cpu": "8", "memory": "32Gi", "max-size": "3", "min-size": "1"}),
    node_pool(
        "spot",
        isin("topology.kubernetes.io/zone", "a", "b"),
        limits={"cpu": "100"},
        status={
            "resources": {"cpu": "36"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no class"}],
        },
    ),
    daemon_set("agent"),
    EVENT,
]
POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - {name: RemoveDuplicates}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 86400}}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 60}, targetThresholds: {cpu: 80}}
  plugins:
    deschedule: {enabled: [PodLifeTime]}
    balance: {enabled: [RemoveDuplicates, LowNodeUtilization]}
"""
SHAPES = "nodeGroups:\n- {name: big, zones: [a], maxSize: 5, allocatable: {cpu: 64, memory: 256Gi, pods: 110}}\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    (tmp_path / "groups.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": GROUPS}))
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "new.json").write_text(json.dumps(NEW))
    (tmp_path / "big.json").write_text(json.dumps(a_pod("big", cpu="3", owner="")))
    return file


def ask(cluster: Path, *words: str) -> Ran:
    files = {"FILE": "new.json", "BIG": "big.json", "SHAPES": "shapes.yaml", "POLICY": "policy.yaml"}
    named = [str(cluster.parent / files[word]) if word in files else word for word in words]
    more = ("--cluster-file", str(cluster.parent / "groups.json")) if words[0] == "nodegroups" else ()
    return command(*named, "--cluster-file", str(cluster), *more)


@pytest.mark.parametrize(("key", "first"), [("name", "gpu"), ("size", "md-0"), ("{.source}", "md-0")])
def test_node_groups_are_sorted(cluster: Path, key: str, first: str) -> None:
    document = json.loads(ask(cluster, "nodegroups", "--sort-by", key, "-o", "json").out)
    groups = document["status"]["nodeGroups"]["groups"]
    assert groups[0]["name"].endswith(first)
    rows = ask(cluster, "nodegroups", "--sort-by", key, "--no-headers").out.splitlines()
    assert [row.split()[0] for row in rows[: len(groups)]] == [group["name"] for group in groups]


def test_requested_memory_is_the_same_on_every_screen(cluster: Path) -> None:
    """3.61Gi of requests are never shown as 3.6Gi: what pods ask for is rounded up."""
    pod = a_pod("odd", "n0")
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "3700Mi"
    items = [a_node("n0"), pod]
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    listed = build_node_list(items[:1], items[1:])["items"][0]["amounts"]
    screen = ask(cluster, "whatif", "drain", "n0").out
    assert "3.7Gi of " in next(amount["text"] for amount in listed if amount["resource"] == "memory")
    assert "3.7Gi → 0" in screen


@pytest.mark.parametrize(
    ("cpu", "headline", "waiting"),
    [
        (
            "30",
            "No pending pod would get a node; 1 pod would stay Pending; 1 pod of DaemonSets would run on new nodes.",
            ["waits"],
        ),
        ("3", "1 pending pod gets a node; 1 pod of DaemonSets would run on new nodes.", []),
    ],
    ids=["too large", "fits"],
)
def test_new_node_is_about_the_pods_that_wait(cluster: Path, cpu: str, headline: str, waiting: list[str]) -> None:
    items = [a_node("n0"), a_pod("agent", "n0", "DaemonSet/agent", cpu="100m"), a_pod("waits", cpu=cpu, owner="")]
    items.append(a_pod("web", "n0", cpu="3500m"))
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    status = json.loads(ask(cluster, "whatif", "add-nodes", "--like", "n0", "-o", "json").out)["status"]
    assert (status["headline"], [pod["name"] for pod in status["stillPending"]]) == (headline, waiting)


@pytest.mark.parametrize("view", ["piped", "80", "200"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_screen_is_as_recorded(cluster: Path, question: str, view: str) -> None:
    answer = json.loads(ask(cluster, *QUESTIONS[question], "-o", "json").out)
    validate(answer)
    blocks = cluster_review.build_screen(answer, " ".join(QUESTIONS[question]), VIEWS[view])
    options = VIEWS[view]
    text = plain_text.draw(blocks, options) if options.piped else terminal.draw(blocks, options, color=False)
    expect(f"cluster-review-{question}.{view}", text)
    if view == "80":
        assert not [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("drain", "drainable"),
        ("drain-blocked", "insufficient"),
        ("nothing", None),
        ("capacity", "fits"),
        ("consolidate", None),
        ("consolidate-blockers", None),
        ("upgrade", None),
        ("deschedule", None),
        ("plan", "planned"),
        ("plan-none", "no-plan"),
        ("plan-drain", "no-plan"),
        ("plan-consolidate", "planned"),
        ("nodegroups", None),
        ("nodegroups-pod", "untolerated-taint"),
        ("nodegroups-pending", None),
    ],
)
def test_short_form_has_the_first_sentence_of_the_screen(cluster: Path, question: str, code: str | None) -> None:
    brief = json.loads(ask(cluster, *QUESTIONS[question], "-o", "brief").out)
    validate(brief)
    about = ("Node", {"name": "n0"}) if question == "drain" else ("Cluster", {})
    assert (brief["of"], brief["about"], brief["metadata"], brief["code"]) == ("ClusterReview", *about, code)
    assert brief["headline"] in " ".join(ask(cluster, *QUESTIONS[question], "-o", "wide").out.split())


def test_short_form_of_pods_that_stay_pending_has_their_reason() -> None:
    pods = [fill(ReviewedPlacement, namespace="shop", name=f"a{i}", reason=reason) for i, reason in enumerate(REASONS)]
    brief = shorten(build_cluster_review(a_status(placements=pods)))
    assert (brief["code"], brief["params"]) == ("insufficient", {"resource": "cpu"})
    assert brief["headline"] == "All 3 new pods stay Pending: 2 Insufficient cpu, 1 Too many pods."
    empty = fill(Capacity, message=REASONS[0])
    assert shorten(build_cluster_review(a_status(capacity=empty)))["code"] == "insufficient"


def test_short_form_of_a_plan_has_its_changes(cluster: Path) -> None:
    fixes = [
        json.loads(ask(cluster, "plan", "waits", "-n", "shop", "--kinds", kind, "-o", "brief").out)["fix"]
        for kind in ("nodes", "move", "scale-down")
    ]
    assert fixes == [
        {"text": "1 node is added, in 1 step", "command": None, "checked": True},
        {"text": "1 pod is moved, in 3 steps", "command": None, "checked": True},
        None,
    ]


def test_short_form_of_pods_that_cannot_be_evicted() -> None:
    blocked = [fill(BlockedPod, namespace="shop", name="web-0", node="n0", cause="Budget", budget="web")]
    brief = shorten(build_cluster_review(a_status(drained=["n0"], blocked=blocked)))
    verdict = "n0 is not drainable: PodDisruptionBudget shop/web allows no eviction of web-0."
    assert (brief["code"], brief["headline"]) == ("not-evicted", verdict)


@pytest.mark.parametrize(
    ("blocked", "verdict"),
    [
        (
            [("Budget", "web-10", "web"), ("Budget", "web-9", "web"), ("Budget", "web-11", "web")],
            "PodDisruptionBudget shop/web allows no eviction of web-9, web-10 and 1 more.",
        ),
        ([("Budget", "web-0", "")], "several budgets select web-0."),
        (
            [("NoController", "bare", ""), ("NodeNotDrained", "web-0", ""), ("LocalStorage", "cache", "")],
            "no controller replaces bare (--force); cache would lose local storage (--delete-emptydir-data).",
        ),
    ],
    ids=["budget", "several-budgets", "refused"],
)
def test_verdict_on_a_drain_names_each_cause_once(blocked: list[tuple[str, str, str]], verdict: str) -> None:
    pods = [
        fill(BlockedPod, namespace="shop", name=name, node="n0", cause=cause, budget=budget)
        for cause, name, budget in blocked
    ]
    status = build_cluster_review(a_status(drained=["n0"], blocked=pods))["status"]
    assert status["headline"] == f"n0 is not drainable: {verdict}"


def test_nodes_without_a_pod_to_evict_are_drainable() -> None:
    waiting = [fill(ReviewedPlacement, namespace="shop", name="waits", cause="Pending", reason=REASONS[0])]
    review = build_cluster_review(a_status(drained=["n0", "n1", "n2"], stillPending=waiting))
    assert review["status"]["headline"] == "n0, n1 and 1 more are drainable: no pod has to leave."
    assert shorten(review)["code"] == "drainable"
    view = ViewOptions(NOW, width=80, lines=24)
    screen = terminal.draw(cluster_review.build_screen(as_json(review), "drain n0", view), view, color=False)
    assert "waits" not in screen  # it would wait without the drain, too


def test_headline_of_an_answer_that_is_not_complete_has_its_progress() -> None:
    document = build_cluster_review(a_status(phase="Running", progress={"done": 3, "total": 10}))
    assert shorten(document)["headline"] == "3 of 10 pods decided."


@pytest.mark.parametrize(("verdicts", "code"), [(["Fits"], "fits"), (["DoesNotFit", "ShapeUnknown"], "insufficient")])
def test_short_form_about_several_pods_and_node_groups(verdicts: list[str], code: str) -> None:
    rejection = fill(NodeGroupRejection, plugin="NodeResourcesFit", reasons=["Insufficient cpu"], zones=["a"])
    groups = [
        fill(NodeGroupVerdict, group=verdict, verdict=verdict, rejections=[rejection] * (verdict == "DoesNotFit"))
        for verdict in verdicts
    ]
    pods = [fill(PodVerdicts, namespace="shop", name=name, groups=groups) for name in "ab"]
    found = fill(NodeGroupReview, groups=[fill(NodeGroup, name="g")], pods=pods)
    brief = shorten(build_cluster_review(a_status(nodeGroups=found)))
    assert brief["code"] == code
    count = "2 of 2 pods fit" if code == "fits" else "None of 2 pods fits"
    assert brief["headline"] == f"{count} one of 1 node group with room to grow."


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("drain", 0),
        ("drain-blocked", 1),
        ("scale", 0),
        ("upgrade", 0),
        ("deschedule", 0),
        ("plan", 0),
        ("plan-none", 1),
    ],
)
def test_exit_code_tells_whether_everything_fits(cluster: Path, question: str, code: int) -> None:
    assert ask(cluster, *QUESTIONS[question], "--exit-code").code == code
    assert ask(cluster, *QUESTIONS[question]).code == 0


def test_actions_are_applied_in_order(cluster: Path, tmp_path: Path) -> None:
    """A node that is uncordoned after the drain keeps none of its pods, and is schedulable again."""
    answer = json.loads(ask(cluster, *QUESTIONS["drain-then"], "-o", "json").out)["status"]
    nodes = {node["name"]: node for node in answer["nodes"]}
    assert nodes["n0"]["schedulable"]
    assert nodes["n1-new-1"]["before"] is None
    changes = tmp_path / "changes.yaml"
    changes.write_text(
        "- kind: Drain\n  nodes: [n0]\n- {kind: AddNodes, like: n1, count: 2}\n- {kind: Uncordon, nodes: [n0]}\n"
    )
    assert json.loads(ask(cluster, "whatif", "changes", "-f", str(changes), "-o", "json").out)["status"] == answer


def test_further_actions_are_about_the_same_cluster_and_namespace(cluster: Path) -> None:
    """Without a kubeconfig here: the workload's manifest must not be read from a cluster."""
    words = ("whatif", "cordon", "n0", "--then", "scale rs/web=7", "-n", "shop", "-o", "json")
    status = json.loads(ask(cluster, *words).out)["status"]
    assert [pod["cause"] for pod in status["placements"]] == ["ScaledUp"]


def test_objects_of_a_file_are_created_one_after_the_other(cluster: Path, tmp_path: Path) -> None:
    two = tmp_path / "two.json"
    two.write_text(json.dumps({"kind": "List", "items": [NEW, a_pod("other", cpu="9", owner="")]}))
    answer = json.loads(ask(cluster, "whatif", "create", "-f", str(two), "-o", "json").out)["status"]
    assert [(pod["name"], bool(pod["node"])) for pod in answer["placements"]] == [("new", True), ("other", False)]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("whatif", "drain"), 2, "Missing argument 'NODE…'"),
        (("whatif", "drain", "pod/x"), 2, "'pod/x' is not a node"),
        (("whatif", "drain", "gone"), 1, 'change 1 (Drain): nodes "gone" not found'),
        (("whatif", "add-nodes"), 2, "add-nodes needs --like NODE, the node to copy"),
        (("whatif", "taint", "n0"), 2, "name nodes and changes"),
        (("whatif", "taint", "n0", "a=b:Never"), 1, "the effect must be one of NoSchedule"),
        (("whatif", "scale", "rs/web"), 2, "write KIND/NAME=N"),
        (("whatif", "scale", "rs/none=2", "-n", "shop"), 1, "shop/ReplicaSet/none has no pod to copy"),
        (("whatif", "cordon", "n0", "--then", "explode n1"), 2, "'explode' is not an action: use one of drain"),
        (("whatif", "cordon", "n0", "--then", ""), 2, "name an action"),
        (("capacity",), 2, "name one object"),
        (("capacity", "pod", "web-0"), 2, "--cluster-file goes with -f FILE"),
        (("whatif", "deschedule"), 2, "Missing option '--policy'"),
        (("whatif", "deschedule", "--policy", "FILE"), 1, "deschedule: policy: expected descheduler/v1alpha2"),
        (("whatif", "deschedule", "--policy", "POLICY", "--pod", "shop/gone"), 1, 'no node has a pod "shop/gone"'),
        (("consolidate", "gone"), 1, 'nodes "gone" not found'),
        (("consolidate", "gone", "--blockers"), 1, 'scaleDown: nodes "gone" not found'),
        (("consolidate", "--blockers", "--force"), 2, "--blockers lists every reason"),
        (("nodegroups", "pod", "gone", "-n", "shop"), 1, 'pods: "shop/gone" is not a pod without a node'),
        (("nodegroups", "deploy/web", "-n", "shop"), 2, "--cluster-file goes with -f FILE or pod NAME"),
        (("nodegroups", "-f", "FILE", "pod", "x"), 2, "name one object"),
        (("nodegroups", "--node-groups-file", "FILE"), 1, "expected a list nodeGroups whose items have a name"),
    ],
)
def test_wrong_questions_are_errors(
    cluster: Path, words: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(cluster, *words).code == code
    assert message in capsys.readouterr().err


def test_a_cluster_without_node_groups_is_one_line_and_no_error(cluster: Path) -> None:
    ran = command("nodegroups", "--cluster-file", str(cluster), "-o", "json")
    status = json.loads(ran.out)["status"]
    assert (ran.code, status["nodeGroups"]["groups"], len(status["notes"])) == (0, [], 1)
    assert "no node group is known here" in status["notes"][0]
    screen = command("nodegroups", "--cluster-file", str(cluster)).out
    assert len([line for line in screen.splitlines() if "node group" in line and "note:" not in line]) == 1


def test_new_pods_that_a_quota_refuses_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    quota = {"metadata": {"name": "team"}, "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}}
    paths: list[str] = []

    def fetch(path: str) -> tuple[int, Json]:
        paths.append(path.partition("?")[0])
        return (200, {"items": [quota]}) if "resourcequotas" in path else (403, {})

    monkeypatch.setattr(admission_refusals, "open_objects", lambda *_: ClusterObjects(fetch))
    template = {"spec": {"containers": [{"name": "app"}]}}
    spec: Json = {"replicas": 2, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    scale = {"kind": "Scale", "namespace": "shop", "replicas": 4, "object": web}
    settings = ConnectionSettings()
    refusals = admission_refusals.list_refusals({"changes": [scale]}, {}, settings, {})
    assert refusals == [("ResourceQuota team allows 1 of 2 new pods: pods 2 of 3 used", 1)]
    grows = fill(ReviewedPlacement, namespace="shop", name="web-7c9-x", cause="ScaledUp", owner="ReplicaSet/web-7c9f5d")
    scale |= {"workload": "Deployment/web"}
    (refusal,) = admission_refusals.list_refusals({"changes": [scale]}, {"placements": [grows] * 3}, settings, {})
    assert refusal.text.startswith("ResourceQuota team allows 1 of 3 new pods")  # one of its replicas does not exist
    assert paths[:2] == [f"/api/v1/namespaces/shop/{plural}" for plural in ("resourcequotas", "limitranges")]
    asked = {"capacity": {"namespace": "shop", "object": web}}
    assert admission_refusals.list_refusals(asked, {"capacity": {"fits": 1}}, settings, {}) == []
    paths.clear()
    drain = {"changes": [{"kind": "Drain", "nodes": ["n0"]}]}
    assert (admission_refusals.list_refusals(drain, {}, settings, {}), paths) == ([], [])


@pytest.mark.parametrize(
    ("is_capacity", "pods", "allowed", "verdict"),
    [
        (True, 1, 0, "No more pod can be created"),
        (True, 1, 3, "3 more pods can be created"),
        (False, 1, 0, "No new pod can be created"),
        (False, 2, 3, "Not every new pod can be created"),
    ],
)
def test_the_answer_begins_with_what_a_quota_refuses(
    monkeypatch: pytest.MonkeyPatch, is_capacity: bool, pods: int, allowed: int, verdict: str
) -> None:
    refused = f"ResourceQuota team allows {allowed} of 20 new pods: pods 3 of {3 + allowed} used"
    capacity = fill(Capacity, fits=20, limited=True) if is_capacity else None
    status = as_json(a_status(capacity=capacity)) | {"headline": "At least 20 more pods fit, on 10 nodes."}
    monkeypatch.setattr(cluster_question, "connect", lambda *_: None)
    monkeypatch.setattr(cluster_question, "ask", lambda *_: {"status": status})
    monkeypatch.setattr(admission_refusals, "list_refusals", lambda *_: [AdmissionRefusal(refused, allowed)])
    options = cluster_question.ReviewOptions("capacity", (), False)
    spec = {"capacity": {"object": NEW}} if is_capacity else {"changes": [{"kind": "Create", "object": NEW}] * pods}
    answer = cluster_question.fetch_answer(
        spec, options, ConnectionSettings(), Environment({}, StringIO(), lambda: NOW, lambda: 80)
    )
    fits = "By the nodes alone: at least 20 more pods fit, on 10 nodes."
    assert answer["status"]["headline"] == f"{verdict}: {refused}. {fits}"
    assert not cluster_question.meets_aim(answer)
    assert shorten({"kind": "ClusterReview", "metadata": {}} | answer)["code"] == "not-created"


def test_a_file_that_is_no_cluster_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text("kind: Pod\nmetadata: {name: x}\n")
    assert command("whatif", "drain", "n0", "--cluster-file", str(tmp_path / "x.yaml")).code == 1
    assert "the files have no nodes" in capsys.readouterr().err


def test_a_group_that_does_not_fit_says_where_it_stops() -> None:
    stopped = "0/2 nodes are available: 2 Insufficient cpu."
    taken_back = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"
    placements = [
        fill(
            ReviewedPlacement,
            namespace="ml",
            name=f"train-{i}",
            cause="Created",
            reason=stopped if i == 2 else taken_back,
        )
        for i in range(3)
    ]
    groups = [
        fill(
            ReviewedGroup,
            namespace="ml",
            name="train",
            minCount=3,
            pods=3,
            feasible=2,
            stoppedAt="train-2",
            reason=stopped,
        )
    ]
    answer = as_json(build_cluster_review(a_status(placements=placements, groups=groups)))
    validate(answer)
    view = ViewOptions(NOW, width=120)
    text = terminal.draw(cluster_review.build_screen(answer, "create", view), view, color=False)
    assert "All 3 new pods stay Pending: 2 fit only with their group, 1 Insufficient cpu." in text
    assert "train-2: 2 nodes: Insufficient cpu" in text
    assert "ml/train-0" not in text, "a pod that only waits for its group has no line of its own"


def test_a_pod_whose_names_and_message_are_hidden_is_counted() -> None:
    stopped = "0/2 nodes are available: 2 Insufficient cpu."
    placement = fill(ReviewedPlacement, namespace="ml", name="train", cause="Created", reason=stopped)
    masked = mask_answer(a_status(placements=[placement]), ClusterReviewStatus, OneNamespace("shop"))
    answer, view = as_json(build_cluster_review(masked)), ViewOptions(NOW, width=120)
    text = terminal.draw(cluster_review.build_screen(answer, "create", view), view, color=False)
    assert f"The only new pod stays Pending: {HIDDEN_REASON}." in text
    assert "(hidden)/(hidden)" in text


def test_a_long_wait_for_a_cluster_what_if_prints_a_note(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answer").write_text(ask(cluster, *QUESTIONS["drain"], "-o", "json").out)
    environ = fake_kubectl(tmp_path, f"sleep 0.5\ncat {tmp_path}/answer")
    capsys.readouterr()
    assert command(*QUESTIONS["drain"], environ=environ).code == 0
    assert capsys.readouterr().err == "", "half a second is no long wait"
    monkeypatch.setattr(progress, "NOTE_DELAY_S", 0.01)
    assert command(*QUESTIONS["drain"], environ=environ).code == 0
    assert capsys.readouterr().err == f"{cluster_question.WAITING}\n"
