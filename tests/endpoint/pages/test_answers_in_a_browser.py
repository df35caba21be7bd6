"""The parts of the pages that answer: suggestions, holders, live refresh, pickers, what-if, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from herodotus_record.model import Candidate, Decision, Owner, Preemption, Reason, ScoreReasons, Suggestion, Verdict
from tests.builders import CORDONED, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.pages.browser import PREFIX, Pages, StubApiServer, chromium, served, texts
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import Service, a_service, rows
from tests.support.answering_scheduler import answering, placed, stopped
from tests.support.suggestions import LOWER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.wide  # drives Chromium

NODES = ("worker-1", "worker-2", "worker-10")
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES} | {"worker-10": {"NodeUnschedulable": CORDONED}}
UNCORDON = Suggestion("worker-10", (Reason("uncordon"),), "", is_checked=False)
WAITING = "view=decision&namespace=shop&name=payments-0"
BALANCE = "view=balance"
SCREENS = ((1440, 900), (390, 844))
HTML = '<img src=x onerror="window.hacked=1">&amp;'
READS = re.compile(r"/decisions\?")
ZONE = "topology.kubernetes.io/zone"
CPU_HOLDERS: dict[str, Any] = {
    "what": "cpu",
    "node": "worker-1",
    "text": "2 cpu would have to become free: ci/runner-5d9f-a alone would be enough.",
    "pods": [{"namespace": "ci", "name": "runner-5d9f-a", "amount": "2", "priority": 0, "owner": "Job/runner"}],
    "omitted": 3,
}
NOT_LISTED = {
    "what": "cpu",
    "node": "worker-1",
    "text": "Who holds cpu on worker-1 is not shown: you may not list pods.",
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"schedulerName": "herodotus-scheduler", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


def a_pod(name: str, cpu: str = "1", namespace: str = "ci", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    owner = {"kind": "ReplicaSet", "name": "runner-5d9f", "controller": True}
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}", "ownerReferences": [owner]}
    return {
        "metadata": metadata | {"labels": {"pod-template-hash": "5d9f"}},
        "spec": {"containers": [container], **spec},
    }


def waiting(**given: Any) -> Decision:
    """A pod of a StatefulSet with two suggestions, one of which deletes it."""
    options: dict[str, Any] = {"owner": Owner("StatefulSet", "payments"), "requests": {"cpu": 7900}, "sequence": 1}
    decision = a_decision(pod="payments-0", nodes=NODES, rejected=FULL, **(options | given))
    return replace(decision, suggestions=(LOWER, UNCORDON))


def objects(*pods: dict[str, Any]) -> dict[str, Any]:
    """What the API server has: the waiting pod, and pods on any node."""
    mine = a_pod("payments-0", "7900m", "shop")
    zones = {"worker-1": "zone-b", "worker-2": "zone-a", "worker-10": "zone-a"}
    nodes = [{"metadata": {"name": name, "labels": {ZONE: zone}}} for name, zone in zones.items()]
    return {
        "/api/v1/pods": {"items": [mine, *pods]},
        "/api/v1/namespaces/shop/pods/payments-0": mine,
        "/api/v1/nodes": {"items": nodes},
        "/apis/apps/v1/namespaces/shop/deployments/web": DEPLOYMENT,
    }


@dataclass
class Scene:
    """A tab at a service of its own, with the API server around it."""

    tab: Pages
    service: Service
    cluster: StubApiServer

    def open(self, query: str) -> Page:
        return self.tab.open(query)

    def answer(self) -> str:
        return self.tab.answer()

    def store(self, *decisions: Decision) -> None:
        """Store decisions, those with a node as bound; a sequence number after theirs is free."""
        table = a_table(NODES, used=dict.fromkeys(NODES, 300))
        frames: list[Any] = [rows(table)]
        for decision in decisions:
            frames.append(decision)
            if decision.chosen is not None:
                frames.append(bound(decision, table, sequence=decision.sequence + 1))
        self.service.stored(*frames)

    def serve_live(self, **document: Any) -> None:
        """Let `kubectl herodotus ui` serve the pages, and answer about the waiting pod with this document."""
        self.cluster.live = True
        self.cluster.objects["/live/pods/shop/payments-0"] = {"live": {"at": "2026-03-01T12:00:00Z"}, **document}

    def pass_time(self, seconds: int) -> None:
        """Let the page's clock run."""
        self.tab.page.clock.run_for(seconds * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@contextmanager
def a_scene(
    browser: Browser, folder: Path, cluster: StubApiServer, *, token: str = "", **settings: Any
) -> Iterator[Scene]:
    service = a_service(folder, **settings)
    with served(service.client, PREFIX, cluster) as url:
        context = browser.new_context(
            viewport={"width": 1440, "height": 900},
            permissions=["clipboard-read", "clipboard-write"],
            extra_http_headers=bearer(token) if token else {},
        )
        pages = Pages(context.new_page(), url, roots={url})
        pages.page.set_default_timeout(20_000)
        pages.page.on("pageerror", lambda error: pages.complaints.append(str(error)))
        pages.page.on("request", lambda request: pages.asked.append(request.url))
        yield Scene(pages, service, cluster)
        context.close()
        assert pages.complaints == []
        assert pages.asked_elsewhere() == set()
    service.store.close()


@pytest.fixture
def scene(browser: Browser, tmp_path: Path) -> Iterator[Scene]:
    with a_scene(browser, tmp_path, StubApiServer(objects())) as made:
        yield made


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_pod_begins_with_state_reason_and_suggestion_above_the_fold(scene: Scene, width: int, height: int) -> None:
    scene.store(waiting())
    scene.serve_live(holders=CPU_HOLDERS)
    scene.tab.page.set_viewport_size({"width": width, "height": height})
    page = scene.open(WAITING)
    assert re.match(
        r"StatefulSet/payments · Pending for \S+, last tried \S+ ago", page.locator(".stateline").inner_text()
    )
    assert scene.answer() == (
        "✗ No node fits: 2 of 3 nodes have too little cpu (worker-1, worker-2), 1 is cordoned (worker-10). Closest:"
        " worker-1 (cpu: requests 7900m; free 7700m of 8)."
    )
    first, second = page.locator(".one-suggestion").all()
    assert "lower the cpu request of container app from 2 to 1700m: fits worker-1" in first.inner_text()
    assert first.locator(".deletes").inner_text() == "deletes Pod/payments-0"
    assert "uncordon worker-10 (changes a node; not checked)" in second.inner_text()
    assert second.locator(".deletes").count() == 0
    for element in (page.locator(".stateline"), page.locator(".answer"), first.locator("pre")):
        box = element.bounding_box()
        assert box
        assert box["y"] + box["height"] < height
    tops = [
        page.locator(which).first.bounding_box()
        for which in (".stateline", ".answer", ".suggestion", ".holders", "section:has(.wide) h2")
    ]
    assert [top["y"] for top in tops if top] == sorted(top["y"] for top in tops if top)


def test_command_is_copied_and_marked_where_it_deletes(scene: Scene) -> None:
    scene.store(waiting())
    page = scene.open(WAITING)
    command = page.locator(".one-suggestion code").first.inner_text()
    assert command.startswith("kubectl -n shop patch statefulset payments")
    assert command.endswith("delete pod payments-0")
    page.get_by_role("button", name="it deletes Pod/payments-0").click()
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == command
    assert "patch statefulsets.apps in shop, delete pods in shop" in page.locator(".needs").first.inner_text()


def test_holders_are_those_of_the_plugin(scene: Scene) -> None:
    scene.store(waiting())
    scene.serve_live(holders=CPU_HOLDERS)
    page = scene.open(WAITING)
    page.get_by_role("heading", name="Who holds cpu on worker-1").wait_for()
    assert texts(page, "Pods that hold cpu on worker-1") == [["ci/runner-5d9f-a", "2", "0", "Job/runner"]]
    said = page.locator(".holders p").all_inner_texts()
    assert said == [CPU_HOLDERS["text"], "… and 3 other pods. Read from the API server just now."]
    assert sum(each.startswith("/live/") for each in scene.cluster.asked) == 1, (
        "one answer has the state and the holders"
    )
    page.locator(".holders td").get_by_role("link", name="runner-5d9f-a").click()
    page.wait_for_url("**name=runner-5d9f-a*")
    scene.serve_live(holders=NOT_LISTED)
    scene.open(WAITING).get_by_text(NOT_LISTED["text"]).wait_for()


def test_pages_without_the_plugin_name_the_command_that_reads_the_present(scene: Scene) -> None:
    scene.store(waiting())
    scene.cluster.away = True
    page = scene.open(WAITING)
    page.get_by_text(
        "What became of the pod after this decision, and who holds what it lacks, is not in the record. The plugin"
        " reads it: kubectl herodotus pod payments-0 -n shop"
    ).wait_for()
    assert page.locator(".holders").count() == 0
    asked = len(scene.cluster.asked)
    scene.open(WAITING)
    assert len(scene.cluster.asked) == asked, "it is known by now that no API server is there"


@pytest.mark.parametrize(
    ("fate", "says"), [("deleted", "no longer exists"), ("replaced", "an earlier pod of that name")]
)
def test_pod_that_is_gone_has_no_suggestion(scene: Scene, fate: str, says: str) -> None:
    scene.store(waiting())
    mine = scene.cluster.objects.pop("/api/v1/namespaces/shop/pods/payments-0")
    if fate == "replaced":
        other = mine | {"metadata": mine["metadata"] | {"uid": "another"}}
        scene.cluster.objects["/api/v1/namespaces/shop/pods/payments-0"] = other
    page = scene.open(WAITING)
    assert says in page.locator(".marks").inner_text()
    assert page.locator(".suggestion, .holders").count() == 0
    assert "next try" not in page.locator(".stateline").inner_text()


def test_placed_pod_that_is_gone_says_so(scene: Scene) -> None:
    scene.store(a_decision(pod="web-0", nodes=NODES, sequence=3))
    page = scene.open("view=decision&namespace=shop&name=web-0")
    assert "no longer exists" in page.locator(".marks").first.inner_text()


def test_evicted_pod_names_its_preemptor(scene: Scene) -> None:
    preemptor = a_decision(pod="big-0", namespace="ci", nodes=NODES, rejected=FULL, sequence=5)
    victims = (Candidate("worker-1", ("shop/web-0",), 0),)
    scene.store(
        a_decision(pod="web-0", nodes=NODES, sequence=3),
        replace(preemptor, preemption=Preemption("worker-1", victims, True)),
    )
    page = scene.open("view=decision&namespace=shop&name=web-0")
    said = page.locator(".marks").first.inner_text()
    assert re.fullmatch(r"Evicted from worker-1 .+ to make room for ci/big-0 \(priority .+, attempt 1\)\.", said)
    page.locator(".marks").get_by_role("link", name="big-0").click()
    page.wait_for_url(f"**name={preemptor.id}*")


def test_state_of_the_pod_now_is_that_of_the_plugin(browser: Browser, tmp_path: Path) -> None:
    cause = {
        "code": "image-pull",
        "text": "container app: registry.example/web:1.9 not found",
        "object": None,
        "source": "status.containerStatuses",
        "at": None,
        "remedies": [{"text": "set an image that exists", "command": "kubectl -n shop set image pod/web-0 app=…"}],
    }
    state = {
        "code": "pod-not-running",
        "headline": "Scheduled; the kubelet waits for an image",
        "actor": "kubelet",
        "causes": [cause],
        "timeline": [{"at": "2026-03-01T12:00:00Z", "source": "Event Pulling", "text": "pulling image"}],
        "unread": ["Event"],
    }
    live = {"source": "kube-apiserver", "at": "2026-03-01T12:00:00Z", "fate": "exists", "state": state}
    pod = a_pod("web-0", namespace="shop")
    documents = {"/api/v1/namespaces/shop/pods/web-0": pod, "/live/pods/shop/web-0": {"live": live}}
    with a_scene(browser, tmp_path, StubApiServer(documents, live=True)) as scene:
        scene.store(a_decision(pod="web-0", nodes=NODES, uid=pod["metadata"]["uid"]))
        page = scene.open("view=decision&namespace=shop&name=web-0")
        panel = page.get_by_label("State now")
        panel.wait_for()
        assert panel.locator(".answer").inner_text() == "✗ Scheduled; the kubelet waits for an image"
        assert "image-pull, from status.containerStatuses" in panel.get_by_label("Causes").inner_text()
        assert "FIX" in panel.inner_text()
        assert "set an image that exists (not checked)" in panel.inner_text()
        assert panel.locator("pre").inner_text() == "kubectl -n shop set image pod/web-0 app=…"
        assert "a cause may be missing: Event." in panel.inner_text()
        page.get_by_text("Timeline: 1 event").press("Enter")
        assert [row[1:] for row in texts(page, "Timeline, oldest first")] == [["Event Pulling", "pulling image"]]
        assert page.get_by_text("kubectl herodotus pod web-0").count() == 0
        panel.get_by_role("button", name="Read again").press("Enter")
        page.wait_for_timeout(300)
        assert page.evaluate("document.activeElement.textContent") == "Read again"


UNDECIDED = "/api/v1/namespaces/shop/pods/held"
SCHEDULED = {"conditions": [{"type": "PodScheduled"}]}


@pytest.mark.parametrize(
    ("spec", "status", "says"),
    [
        (
            {"schedulingGates": [{"name": "example.com/quota"}]},
            {},
            "Waits for its scheduling gates (example.com/quota)",
        ),
        ({"nodeName": "worker-1"}, {}, "On worker-1: the pod was created with spec.nodeName"),
        (
            {"nodeName": "worker-1", "schedulerName": "mine"},
            SCHEDULED,
            "On worker-1. Why is not known: the pod belongs",
        ),
        ({"schedulerName": "mine"}, {}, "belongs to mine, whose decisions are not recorded."),
    ],
    ids=["gated", "node-name", "placed-by-another", "waits-for-another"],
)
def test_pod_without_a_decision_says_why(scene: Scene, spec: dict[str, Any], status: dict[str, Any], says: str) -> None:
    scene.store(waiting())
    pod = a_pod("held", namespace="shop", **spec)
    pod["metadata"]["creationTimestamp"] = "2026-03-01T11:00:00Z"
    scene.cluster.objects[UNDECIDED] = pod | {"status": status}
    page = scene.open("view=decision&namespace=shop&name=held")
    assert says in page.locator(".answer").inner_text()
    commands = page.locator(".one-suggestion code").all_inner_texts()
    assert commands[1:] == (["kubectl herodotus pod held -n shop --local"] if spec == {"schedulerName": "mine"} else [])
    del scene.cluster.objects[UNDECIDED]
    assert (
        "no decision for pod" in scene.open("view=decision&namespace=shop&name=held").locator(".failure").inner_text()
    )


def test_preemption_names_its_victims(scene: Scene) -> None:
    victims = (Candidate("worker-1", ("ci/job-1", "ci/job-2"), 1),)
    scene.store(replace(waiting(), preemption=Preemption("worker-1", victims, True)))
    page = scene.open(WAITING)
    said = page.get_by_role("heading", name="Preemption").locator("xpath=following-sibling::p[1]")
    assert said.inner_text() == "evicted ci/job-1, ci/job-2 from worker-1, against 1 disruption budget"
    assert said.locator("a").all_inner_texts() == ["ci", "job-1", "ci", "job-2", "worker-1"]


def test_placed_pod_says_that_all_nodes_passed(scene: Scene) -> None:
    scene.store(a_decision(pod="web-0", nodes=NODES, points={"worker-2": {"ImageLocality": 9}}))
    page = scene.open("view=decision&namespace=shop&name=web-0")
    assert scene.answer().startswith("✓ On worker-2: best of 3 feasible nodes")
    assert page.get_by_text("All 3 nodes passed all 6 filters.").count() == 1
    assert page.locator(".suggestion, .holders").count() == 0


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_page_says_what_decided_and_that_the_plugin_reads_the_state(scene: Scene, width: int, height: int) -> None:
    best = ScoreReasons("ImageLocality", "worker-2", (Reason("image-present", {"image": "web:1", "size": "400Mi"}),))
    decision = a_decision(pod="web-0", nodes=NODES, points={"worker-2": {"ImageLocality": 9}})
    pod = a_pod("web-0", namespace="shop")
    pod["metadata"]["uid"] = decision.pod.uid
    scene.cluster.objects["/api/v1/namespaces/shop/pods/web-0"] = pod
    scene.store(replace(decision, score_reasons=(best, ScoreReasons("ImageLocality", "worker-1", ()))))
    scene.tab.page.set_viewport_size({"width": width, "height": height})
    page = scene.open("view=decision&namespace=shop&name=web-0")
    assert texts(page, "worker-2 against worker-1") == [["ImageLocality", "+9", "image web:1 (400Mi) against none"]]
    note = page.get_by_text("What became of the pod after this decision is not in the record.")
    assert "kubectl herodotus pod web-0 -n shop" in note.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_suggestion_says_how_many_other_pods_it_helps(scene: Scene) -> None:
    scene.store(replace(waiting(), suggestions=(replace(UNCORDON, helps=3),)))
    page = scene.open(WAITING)
    assert "also helps 3 other pods, each alone" in page.locator(".suggestion").inner_text()


def test_summary_is_the_first_page_and_leads_to_everything(scene: Scene) -> None:
    scene.store(waiting(), a_decision(pod="web-0", nodes=NODES, sequence=3, started_us=MONDAY_US + 3_000_000_000))
    page = scene.open("")
    assert page.get_by_role("heading", level=1).inner_text() == "Summary"
    assert scene.answer() == "✗ 1 pod is pending."
    ((count, reason, suggestion, pods, _),) = texts(page, "Pending pods by reason")
    assert (count, reason, pods) == ("1", "nodes have too little cpu; others are cordoned", "shop/payments-0")
    assert suggestion == "lower the cpu request of container app from 2 to 1700m: fits worker-1"
    assert [row[:2] for row in texts(page, "Last placements")] == [["shop/web-0", "worker-1"]]
    assert texts(page, "Nodes that reject most")[0][0] == "worker-1"
    assert page.get_by_role("heading", name="Agreement of the observer").count() == 0
    page.get_by_role("link", name=suggestion).click()
    page.wait_for_url("**view=decision*")
    scene.tab.ready().locator("h1").get_by_role("link", name="shop").click()
    page.wait_for_url("**view=summary&namespace=shop")
    assert "Namespace shop" in scene.tab.ready().locator("h1").inner_text()


def test_deleted_pods_are_not_pending(scene: Scene) -> None:
    scene.store(waiting(), waiting(uid="another", sequence=5))
    scene.cluster.objects["/api/v1/pods"] = {"items": [a_pod("payments-0", "1", "shop")]}
    scene.open("view=pending")
    most = "1 pod is pending, most for: nodes have too little cpu; others are cordoned."
    assert scene.answer() == f"{most} 1 other was deleted or placed since."


def test_reasons_of_one_pod_each_are_counted(scene: Scene) -> None:
    cordoned = {node: {"NodeUnschedulable": CORDONED} for node in NODES}
    other = a_decision(pod="web-0", uid="uid-shop-web-0", nodes=NODES, rejected=cordoned, sequence=5)
    scene.store(waiting(), other)
    scene.cluster.objects["/api/v1/pods"] = {"items": [a_pod(name, "1", "shop") for name in ("payments-0", "web-0")]}
    scene.open("view=pending")
    assert scene.answer() == "2 pods are pending, for 2 reasons."


def test_page_shows_new_records_by_itself(scene: Scene) -> None:
    scene.store(waiting())
    scene.tab.page.clock.install()
    page = scene.open("view=decisions")
    assert scene.answer() == "The newest 1 decisions: there are no more."
    live = page.locator("#live")
    assert re.fullmatch(r"Live read \d+s ago Pause", " ".join(live.inner_text().split()))
    page.evaluate("document.querySelector('tbody tr').dataset.kept = 'yes'")
    with page.expect_response(READS):
        scene.pass_time(12)
    scene.pass_time(2)
    assert page.locator("tr[data-kept]").count() == 1, "nothing changed, so nothing is drawn anew"
    scene.store(a_decision(pod="web-0", nodes=NODES, sequence=3))
    scene.pass_time(12)
    page.get_by_role("link", name="web-0").wait_for()


def test_pod_page_shows_a_new_attempt_and_keeps_the_readers_place(scene: Scene) -> None:
    scene.store(waiting())
    scene.tab.page.clock.install()
    page = scene.open(WAITING)
    page.get_by_role("button", name="worker-2", exact=True).click()
    page.get_by_role("heading", name="worker-2", exact=True).wait_for()
    page.get_by_role("button", name="worker-1", exact=True).focus()
    scene.store(waiting(sequence=3, attempt=2, started_us=MONDAY_US + 60_000_000))
    scene.pass_time(12)
    page.get_by_role("link", name="2 attempts").wait_for()
    page.get_by_role("heading", name="worker-2", exact=True).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "worker-1"


def test_refresh_can_be_paused(scene: Scene) -> None:
    scene.store(waiting())
    scene.tab.page.clock.install()
    page = scene.open("view=decisions")
    page.get_by_role("button", name="Pause").click()
    assert page.locator(".livestate").inner_text() == "Paused"
    page = scene.open("view=decisions")
    assert page.locator(".livestate").inner_text() == "Paused", "it holds for the tab"
    scene.store(a_decision(pod="web-0", nodes=NODES, sequence=3))
    scene.pass_time(60)
    assert page.get_by_role("link", name="web-0").count() == 0
    page.get_by_role("button", name="Resume").click()
    scene.pass_time(2)
    page.get_by_role("link", name="web-0").wait_for()


def test_refresh_waits_while_a_form_is_edited(scene: Scene) -> None:
    scene.store(waiting())
    scene.tab.page.clock.install()
    page = scene.open("view=decisions")
    page.get_by_label("Reason or text").fill("half a wo")
    scene.store(a_decision(pod="web-0", nodes=NODES, sequence=3))
    scene.pass_time(15)
    page.get_by_text("Held while you type or select").wait_for()
    assert page.get_by_label("Reason or text").input_value() == "half a wo"
    page.get_by_label("Reason or text").fill("")
    page.get_by_label("Reason or text").blur()
    scene.pass_time(15)
    page.get_by_role("link", name="web-0").wait_for()


def test_absent_service_is_said_and_found_again(scene: Scene) -> None:
    scene.store(waiting())
    page = scene.tab.page
    page.clock.install()
    scene.open("view=decisions")
    page.route(READS, lambda route: route.abort())
    scene.pass_time(12)
    page.get_by_text("No answer, trying again: The decisions service does not answer.").wait_for()
    assert page.get_by_role("link", name="payments-0").count() == 1, "what was read before stays"
    page.reload()
    scene.tab.ready()
    assert page.locator("h1").inner_text() == "No answer"
    assert "kubectl -n herodotus get pods" in page.get_by_role("alert").inner_text()
    page.unroute(READS)
    scene.pass_time(60)
    page.get_by_role("link", name="payments-0").wait_for()
    assert page.locator(".livestate").inner_text() == "Live"


def test_fields_offer_the_known_names(scene: Scene) -> None:
    web = a_decision(
        pod="web-5d9f-a",
        nodes=NODES,
        owner=Owner("ReplicaSet", "web-5d9f"),
        labels={"pod-template-hash": "5d9f"},
        sequence=3,
    )
    scene.store(waiting(), web)
    page = scene.open("view=decisions")
    assert page.locator("datalist option").count() == 0, "read when a field is used"
    offered = {}
    for label, name in (("Node", "node"), ("Namespace", "namespace"), ("Pod", "pod"), ("Owner", "workload")):
        page.get_by_label(label, exact=True).focus()
        page.locator(f"#names-{name} option").first.wait_for(state="attached")
        offered[name] = page.locator(f"#names-{name} option").evaluate_all("all => all.map(o => o.value)")
    assert offered == {
        "node": ["worker-1", "worker-2", "worker-10"],
        "namespace": ["shop"],
        "pod": ["payments-0", "web-5d9f-a"],
        "workload": ["ReplicaSet/web-5d9f", "StatefulSet/payments"],
    }
    page = scene.open("view=workload&namespace=shop")
    page.get_by_label("Workload", exact=True).focus()
    page.locator("#names-workload option[value='Deployment/web']").wait_for(state="attached")


def test_workload_page_shows_nodes_and_zones(scene: Scene) -> None:
    owner, labels = Owner("ReplicaSet", "web-5d9f"), {"pod-template-hash": "5d9f"}
    pods = [
        a_decision(
            pod=f"web-5d9f-{i}",
            owner=owner,
            labels=labels,
            nodes=NODES,
            points={node: {"ImageLocality": 9}},
            sequence=10 * i,
        )
        for i, node in enumerate(("worker-1", "worker-10", "worker-2", "worker-10"), 1)
    ]
    scene.store(*pods)
    page = scene.open("view=workload")
    page.get_by_role("link", name="Deployment/web").click()
    page.wait_for_url("**workload=Deployment*")
    scene.tab.ready()
    assert scene.answer().startswith("4 pods went to 3 of 3 nodes, at most 2 to one (worker-10).")
    assert [row[:3] for row in texts(page, "Nodes")] == [
        ["worker-10", "zone-a", "2"],
        ["worker-1", "zone-b", "1"],
        ["worker-2", "zone-a", "1"],
    ]
    assert page.get_by_text("kubectl herodotus workload Deployment/web -n shop").count() == 1
    page.get_by_role("link", name="zone-b").first.click()
    page.wait_for_url("**zone=zone-b*")
    assert scene.tab.ready().locator("h1").inner_text() == "Zone zone-b"
    page = scene.open("view=node&name=worker-2")
    assert page.get_by_role("link", name="zone-a").count() == 1


def test_nodes_are_in_natural_order(scene: Scene) -> None:
    scene.store(a_decision(pod="web-0", nodes=("worker-10", "worker-1", "worker-2")))
    page = scene.open("view=node")
    assert [row[0] for row in texts(page, "Nodes")] == ["worker-1", "worker-2", "worker-10"]
    page = scene.open("view=decision&namespace=shop&name=web-0&sort=name")
    assert page.locator("table.heat tbody th button").all_inner_texts() == ["worker-1", "worker-2", "worker-10"]


def test_what_is_said_of_a_node_is_beside_its_row(scene: Scene) -> None:
    scene.store(waiting())
    page = scene.open(WAITING)
    row = page.get_by_role("button", name="worker-2", exact=True)
    row.click()
    page.get_by_role("heading", name="worker-2", exact=True).wait_for()
    sheet, panel = page.locator(".sheet").bounding_box(), page.locator(".details .panel").bounding_box()
    assert sheet
    assert panel
    assert panel["x"] >= sheet["x"] + sheet["width"]
    assert panel["x"] < sheet["x"] + sheet["width"] + 40
    assert abs(panel["y"] - sheet["y"]) < 5
    page.get_by_role("button", name="Close").click()
    page.locator(":focus:text-is('worker-2')").wait_for()
    assert page.locator(".details .panel").count() == 0


@pytest.mark.parametrize("query", [WAITING, "view=summary", "view=decisions", "view=pending", "view=node", BALANCE])
def test_narrow_screen_shows_cards_without_broken_words(scene: Scene, query: str) -> None:
    scene.store(waiting(), a_decision(pod="web-with-a-long-name-5d9f7c8b6-x2k4m", nodes=NODES, sequence=3))
    scene.tab.page.set_viewport_size({"width": 390, "height": 844})
    page = scene.open(query)
    cell = page.locator(".cards td").nth(1)
    label = cell.get_attribute("data-label")
    assert label
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == f'"{label}"'
    assert page.locator(".cards thead").first.evaluate("head => head.getBoundingClientRect().height") <= 1
    assert page.evaluate(BROKEN_WORDS) == []


BROKEN_WORDS = r"""() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest("pre, svg, .unseen, .heat, select, datalist, textarea, thead")) continue;
    for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top)));
      if (tops.size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


def test_numbers_and_durations_have_units(scene: Scene) -> None:
    page = scene.open("view=summary")
    said = page.evaluate(
        """async () => {
          const words = await import(document.querySelector("script").src.replace("main.js", "words.js"));
          return [words.duration(0.00001), words.duration(0.0125), words.duration(1), words.duration(3661),
            words.number(0.083, 1), words.number(1234.56, 1),
            words.percent(0.5), words.percent(0.0834), words.percent(0.0001)];
        }"""
    )
    assert said == ["< 0.1ms", "12.5ms", "1s", "1h1m", "< 0.1", "1,234.6", "50%", "8.3%", "< 0.1%"]


def test_manifest_is_placed(scene: Scene) -> None:
    scheduler = answering(scene.service, *placed())
    with scheduler.working():
        page = scene.open("view=whatif")
        assert page.locator("#live").is_hidden()
        page.get_by_label("or a manifest, YAML or JSON").fill(MANIFEST)
        page.get_by_role("button", name="Show where they would go").click()
        page.get_by_role("heading", name="shop/web: Pod, decided by herodotus-scheduler").wait_for()
    assert page.locator("#result .answer").inner_text().startswith("✓ On worker-2: best of 3 feasible nodes")
    (asked,) = scheduler.asked
    assert (asked["namespace"], asked["template"]["kind"]) == ("shop", "Pod")


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
spec:
  schedulerName: herodotus-scheduler
  containers: [{name: c, image: i}]
"""


def test_workload_of_the_cluster_is_placed_again(scene: Scene) -> None:
    scheduler = answering(scene.service, *stopped())
    with scheduler.working():
        page = scene.open("view=whatif&namespace=shop&workload=Deployment/web&replicas=3")
        assert scheduler.asked == [], "a link asks nothing by itself"
        page.get_by_label("Pods", exact=True).press("Enter")
        page.get_by_role("heading", name="shop/web: 3 pods, decided by herodotus-scheduler").wait_for()
    (asked,) = scheduler.asked
    assert (asked["replicas"], asked["template"]["kind"], asked["template"]["pod"]["metadata"]) == (
        3,
        "Deployment",
        {"labels": {"app": "web"}},
    )
    assert page.evaluate("document.activeElement.localName") == "h2"
    result = page.locator("#result")
    assert "✗ None of 3 pods fits. No node fits: 3 of 3 nodes have too little cpu" in result.inner_text()
    assert "preemption would evict shop/small, ci/job-1 from worker-1" in result.inner_text()
    assert result.locator("pre").count() == 0, "no command changes a pod that does not exist"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "Paste a manifest, or name a pod or workload: Deployment/web, Pod/web-0."),
        ({"or a manifest, YAML or JSON": "a: b: c"}, "spec.manifest: not valid YAML (line 1)"),
        ({"Pod or workload that exists": "Deployment/other"}, "deployments not found"),
        ({"Pod or workload that exists": "DaemonSet/x"}, "Of a DaemonSet no pods can be placed: paste a manifest."),
        ({"or a manifest, YAML or JSON": MANIFEST}, "no scheduler answers what-ifs"),
    ],
    ids=["nothing", "manifest", "absent", "kind", "no-scheduler"],
)
def test_question_that_cannot_be_asked_says_why(scene: Scene, fields: dict[str, str], says: str) -> None:
    page = scene.open("view=whatif")
    for label, value in fields.items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Show where they would go").click()
    page.get_by_role("alert").wait_for()
    assert says in page.get_by_role("alert").inner_text()


def test_hostile_names_are_shown_as_text(scene: Scene) -> None:
    node = f"worker {HTML}"
    named = Reason("untolerated-taint", {"key": HTML, "value": HTML, "effect": "NoSchedule"})
    rejected = {node: {"TaintToleration": Verdict(INSUFFICIENT_CPU.code, (named,))}}
    pod = a_decision(
        pod=HTML,
        namespace=HTML,
        nodes=(node,),
        rejected=rejected,
        owner=Owner("ReplicaSet", HTML),
        labels={"app": HTML},
        notes=(HTML,),
    )
    patch = Suggestion(
        node,
        (Reason("set-request", {"container": HTML, "group": "containers", "resource": HTML, "from": "1", "to": "2"}),),
        "{}",
        is_checked=True,
    )
    hostile = replace(pod, message=f"0/1 nodes are available: 1 {HTML}.", suggestions=(patch,))
    scene.service.stored(rows(a_table((node,))), hostile)
    scene.cluster.away = True
    for query in (
        "view=summary",
        "view=pending",
        "view=decisions",
        "view=node",
        "view=workload",
        f"view=decision&namespace=x&name={hostile.id}",
    ):
        page = scene.open(query)
        if "namespace=x" not in query:
            assert HTML in page.locator("main").inner_text(), query
        assert page.locator("main img").count() == 0, query
    scene.open("view=decisions").locator("tbody td .pod a").nth(1).click()
    page = scene.tab.page
    page.wait_for_url("**view=decision&*")
    text = scene.tab.ready().locator("main").inner_text()
    assert text.count(HTML) >= 6
    assert f"lower the {HTML} request of container {HTML} from 1 to 2" in text
    page.get_by_role("button", name=node, exact=True).click()
    page.locator(".details h3").wait_for()
    assert page.locator(".details h3").inner_text() == node
    assert page.locator("main img").count() == 0
    assert page.evaluate("window.hacked") is None


def test_reader_without_rights_is_told_what_is_missing(browser: Browser, tmp_path: Path) -> None:
    api = Reviewer(tokens={"ann": ("ann", "")})
    with a_scene(browser, tmp_path, StubApiServer(away=True), access=api.access(), token="ann") as scene:
        page = scene.open("view=decisions")
        assert page.locator("h1").inner_text() == "No right to see this"
        assert 'cannot list resource "decisions"' in page.get_by_role("alert").inner_text()
        api.allowed |= {("ann", "list", resource, "shop") for resource in ("decisions", "pendingpods")}
        page.get_by_label("Namespace", exact=True).fill("shop")
        page.keyboard.press("Enter")
        page.wait_for_url("**namespace=shop*")
        scene.tab.ready()
        assert scene.answer() == "No stored decision matches the filters."
        page = scene.open("view=summary&namespace=shop")
        assert scene.answer().startswith("No scheduler has sent records yet")
        missing = page.locator(".missing").all_inner_texts()
        assert [re.search(r'resource "(\w+)"', text)[1] for text in missing] == ["nodehistories", "agreements"]  # type: ignore[index]


def test_empty_service_says_that_it_has_no_records(scene: Scene) -> None:
    page = scene.open("")
    assert scene.answer() == "No scheduler has sent records yet: which pods are pending is not known."
    assert "No placement is recorded in the last 24 hours." in page.locator("main").inner_text()
    for query, says in (
        ("view=pending", "No scheduler has sent records yet"),
        ("view=decisions", "No stored decision matches the filters."),
        ("view=node", "No node has a history yet."),
        ("view=workload", "No decision about a workload's pod was made in the last 24 hours."),
        ("view=balance", "No"),
        ("view=disagreements", "No decision of another scheduler was observed in the last 24 hours."),
    ):
        scene.open(query)
        assert scene.answer().startswith(says), query
    page = scene.open(WAITING)
    assert page.locator("h1").inner_text() == "Not found"
    page.get_by_role("link", name="Decisions of shop").click()
    page.wait_for_url("**view=decisions&namespace=shop")


@pytest.mark.parametrize(("width", "height"), SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_answer_has_no_serious_accessibility_violation(
    scene: Scene, scheme: Literal["light", "dark"], width: int, height: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    scene.store(waiting())
    scene.serve_live(holders=CPU_HOLDERS)
    scene.tab.page.set_viewport_size({"width": width, "height": height})
    scene.tab.page.emulate_media(color_scheme=scheme)
    page = scene.open(WAITING)
    page.get_by_role("heading", name="Who holds").wait_for()
    found = Axe().run(page).response["violations"]
    assert [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in ("serious", "critical")] == []


def test_everything_is_reached_by_keyboard(scene: Scene) -> None:
    scene.store(waiting())
    page = scene.open(WAITING)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    names = [name for name, _ in reached]
    assert names[0] == "To the content"
    for wanted in ("Pause", "worker-1", "Command: lower the cpu request of container app from 2 to 1700m"):
        assert wanted in names
    assert any(name.startswith("Copy the command: lower") for name in names)
    assert {outline for name, outline in reached if name} == {"solid"}


FOCUSED = """() => {
  const { activeElement } = document;
  return [activeElement.ariaLabel ?? activeElement.textContent, getComputedStyle(activeElement).outlineStyle];
}"""
