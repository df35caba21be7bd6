"""The pages with what they show, and what holds for each: it is accessible, complete, fits, and works by keyboard.

With HERODOTUS_SCREENSHOTS=FOLDER each page is also written there as a picture.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from herodotus_record.model import Agreement, Candidate, Cause, Owner, Preemption, Reconstruction
from tests import observed
from tests.builders import CORDONED, INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.pages.browser import PREFIX, Pages, StubApiServer, chromium, served
from tests.endpoint.service import Service, rows
from tests.support.suggestions import LOWER

if TYPE_CHECKING:
    from playwright.sync_api import Page

NODES = tuple(f"worker-{n}" for n in range(1, 13))

WIDTHS = (1440, 390)

MINUTE_US = 60_000_000

PAGES = {
    "summary": "view=summary",
    "summary of a namespace": "view=summary&namespace=shop&from=2026-03-07T00:00&until=2026-03-08T00:00",
    "pending": "view=pending",
    "decisions": "view=decisions",
    "choose a decision": "view=decision",
    "waiting pod": "view=decision&namespace=shop&name=payments-0",
    "placed pod": "view=decision&namespace=shop&name=web-5d9f-1&a=worker-1&b=worker-2&node=worker-3",
    "preemptor": "view=decision&namespace=ci&name=big-0",
    "evicted pod": "view=decision&namespace=shop&name=small",
    "observed pod": "view=decision&namespace=web&name=front-0",
    "workloads": "view=workload",
    "workload": "view=workload&namespace=shop&workload=Deployment/web",
    "nodes": "view=node",
    "node": "view=node&name=worker-1",
    "place pods": "view=whatif",
    **{
        f"what if: {ask}": f"view=clusterwhatif&ask={ask}"
        for ask in ("drain", "add", "capacity", "plan", "consolidate")
    },
    "preemptions": "view=preemptions",
    "balance": "view=balance",
    "balance with weights": "view=balance&weights=ImageLocality=0",
    "disagreements": "view=disagreements",
    "missing pod": "view=decision&namespace=shop&name=absent",
}

LIVE = {
    "kind": "PodExplanation",
    "live": {
        "at": "2026-03-07T12:00:00Z",
        "state": {
            "code": "container-crashes",
            "headline": "Container app of payments-0 fails again and again.",
            "actor": "user",
            "unread": [],
            "causes": [
                {
                    "code": "crash",
                    "text": "container app ended with exit code 1",
                    "source": "status.containerStatuses[app]",
                    "inspect": "kubectl logs -n shop payments-0 --previous",
                    "remedies": [
                        {"text": "read its log", "command": "kubectl logs -n shop payments-0", "checked": True}
                    ],
                }
            ],
            "timeline": [{"at": "2026-03-07T11:59:00Z", "source": "Event Pulling", "text": "pulling image"}],
        },
    },
}


def a_node(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": f"zone-{'abc'[int(name[7:]) % 3]}", "kubernetes.io/hostname": name}
    conditions = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": conditions}}


def a_pod(name: str, on: str = "", namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    container = {"name": "app", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": metadata, "spec": {"containers": [container], **({"nodeName": on} if on else {})}}


def fill_service(service: Service, names: Sequence[str] = NODES) -> None:
    """Store placed, waiting, preempting and observed pods of the last hour, on nodes with these names."""
    service.clock.now_s = observed.NOON_US / 1e6 + 60  # no record may be of later
    at_us = observed.NOON_US - 50 * MINUTE_US
    table = a_table(names, used={name: 300 * (i % 12) for i, name in enumerate(names)})
    full = {name: {"NodeResourcesFit": INSUFFICIENT_CPU} for name in names} | {
        "worker-12": {"NodeUnschedulable": CORDONED}
    }
    some = {name: {"NodeResourcesFit": INSUFFICIENT_CPU} for name in names[len(names) * 2 // 3 :]}
    web: dict[str, Any] = {"nodes": names, "labels": {"pod-template-hash": "5d9f"}, "rejected": some}
    placed = [
        a_decision(
            pod=f"web-5d9f-{i}",
            owner=Owner("ReplicaSet", "web-5d9f"),
            points={f"worker-{i}": {"NodeResourcesFit": 80, "ImageLocality": 9}, "worker-8": {"NodeResourcesFit": 70}},
            sequence=10 * i,
            started_us=at_us + i * 5 * MINUTE_US,
            **web,
        )
        for i in range(1, 5)
    ]
    placed.append(a_decision(pod="small", nodes=names, sequence=60, started_us=at_us))
    outcomes = [bound(decision, table, sequence=decision.sequence + 1) for decision in placed]
    late: dict[str, Any] = {"nodes": names, "rejected": full, "requests": {"cpu": 9000}}
    first = a_decision(
        pod="payments-0", owner=Owner("StatefulSet", "payments"), sequence=70, started_us=at_us + 30 * MINUTE_US, **late
    )
    waits = a_decision(
        pod="payments-0",
        owner=Owner("StatefulSet", "payments"),
        attempt=2,
        sequence=71,
        started_us=at_us + 31 * MINUTE_US,
        **late,
    )
    big = a_decision(pod="big-0", namespace="ci", sequence=72, started_us=at_us + 32 * MINUTE_US, **late)
    victims = (Candidate("worker-1", ("shop/small",), 0),)
    big = replace(big, preemption=Preemption("worker-1", victims, True))
    frames = [each for pair in zip(placed, outcomes, strict=True) for each in pair]
    service.stored(rows(table), *frames, first, replace(waits, suggestions=(LOWER,)), big)
    points = {"worker-1": {"NodeResourcesFit": 60}, "worker-2": {"NodeResourcesFit": 50}}
    of: dict[str, Any] = {"namespace": "web", "points": points, "nodes": ("worker-1", "worker-2")}
    disagrees = Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED)
    for record in (
        observed.seen(**of, pod="front-0"),
        observed.seen(**of, pod="front-1", chosen="worker-2", found=disagrees, sequence=3, at_ms=900),
    ):
        service.stored(*record.frames)


def present_objects(names: Sequence[str] = NODES) -> dict[str, Any]:
    """Return what the API server has by path: these nodes, of which worker-12 is cordoned, and pods."""
    nodes = [a_node(name, **({"unschedulable": True} if name == "worker-12" else {})) for name in names]
    pods = [a_pod(f"web-5d9f-{i}", f"worker-{i}") for i in range(1, 5)] + [a_pod("payments-0")]
    pods += [a_pod("big-0", namespace="ci"), *(a_pod(f"front-{i}", f"worker-{i + 1}", "web") for i in range(2))]
    named = {f"/api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}": p for p in pods}
    return {
        **named,
        "/api/v1/nodes": {"items": nodes},
        "/api/v1/pods": {"items": pods},
        "/live/pods/shop/payments-0": LIVE,
    }


@contextmanager
def a_tab(service: Service, cluster: StubApiServer) -> Iterator[Pages]:
    """A browser's tab at the pages of a service, with the API server around it."""
    with served(service.client, PREFIX, cluster) as url, chromium() as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        pages = Pages(context.new_page(), url, roots={url})
        pages.page.set_default_timeout(60_000)
        pages.page.on("pageerror", lambda error: pages.complaints.append(str(error)))
        yield pages


def check_accessibility(page: Page, name: str, width: int) -> None:
    """Fail on a serious violation in the light or dark scheme; of the dark one only colours can differ."""
    from axe_playwright_python.sync_playwright import Axe

    schemes: tuple[tuple[Literal["light", "dark"], dict[str, Any] | None], ...]
    schemes = (("light", None), ("dark", {"runOnly": ["color-contrast"]}))
    for scheme, only in schemes:
        page.emulate_media(color_scheme=scheme)
        if folder := os.environ.get("HERODOTUS_SCREENSHOTS"):
            picture = Path(folder) / f"{name.replace(' ', '-').replace(':', '')}-{width}-{scheme}.png"
            page.screenshot(path=picture, full_page=True)
        found = Axe().run(page, options=only).response["violations"]
        serious = [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in ("serious", "critical")]
        assert serious == [], scheme


# What a reader would call broken: values that a script lacks, tables and sections without content, links to no page,
# words that are cut off, and sentences that are said twice.
FAULTS = r"""() => {
  const main = document.querySelector("main");
  const faults = [...(main.innerText.match(/undefined|NaN|\[object|Invalid Date/g) ?? [])];
  if (document.querySelectorAll("main h1").length !== 1) faults.push("not one h1");
  for (const table of main.querySelectorAll("table")) {
    if (!table.querySelector("tbody tr:not(.spacer)")) faults.push(`empty table: ${table.caption?.textContent}`);
  }
  for (const head of main.querySelectorAll("section > h2")) {
    const rest = head.parentElement.innerText.replace(head.innerText, "").trim();
    if (!rest) faults.push(`empty section: ${head.textContent}`);
  }
  const views = [...document.querySelectorAll("nav a")].map((a) => new URLSearchParams(a.search).get("view"));
  for (const { search, origin } of main.querySelectorAll("a")) {
    const view = new URLSearchParams(search).get("view");
    if (origin !== location.origin) faults.push(`elsewhere: ${origin}`);
    if (view && ![...views, "decision", "clusterwhatif"].includes(view)) faults.push(`no page: ${view}`);
  }
  for (const one of document.querySelectorAll("button, label, th, dt, h1, h2, summary")) {
    const isCut = one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1;
    if (isCut && !one.closest(".heat, .unseen")) faults.push(`cut off: ${one.textContent}`);
  }
  const sentences = [...main.querySelectorAll("p.answer, section > p, .marks")].map((p) => p.innerText.trim());
  const said = sentences.filter((text) => text.length > 30);
  faults.push(...said.filter((text, i) => said.indexOf(text) !== i).map((text) => `twice: ${text}`));
  return faults;
}"""


def check_keyboard(page: Page) -> None:
    """Fail if Tab does not reach everything that it may stop at, in the order of the page, with an outline.

    Arrow keys reach the other rows of a table of nodes.
    """
    wanted = page.evaluate(FOCUSABLE)
    reached: list[str] = []
    for _ in range(8 * len(wanted)):  # a field for a time has a stop for each of its parts
        page.keyboard.press("Tab")
        at, outline = page.evaluate(FOCUSED)
        if at is None or (reached and at == wanted[0]):
            break  # behind the last one, or at the first again
        assert outline == "solid", at
        if not reached or reached[-1] != at:
            reached.append(at)
    assert reached == wanted


FOCUSABLE = """() => {
  const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
  const stops = [...all].filter((one) => one.tabIndex >= 0 && !one.disabled);
  const seen = stops.filter((one) => one.type !== "hidden" && one.checkVisibility());
  const name = (one) => one.ariaLabel ?? one.textContent.slice(0, 40);
  seen.forEach((one, i) => { one.dataset.stop = `${i} ${one.localName} ${name(one)}`; });
  return seen.map((one) => one.dataset.stop);
}"""

FOCUSED = """() => {
  const { activeElement: one } = document;
  return [one.dataset.stop ?? null, getComputedStyle(one).outlineStyle];
}"""
