"""`report simulate`: plots over time of each variant, without a script, on a screen, a phone and paper."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from io import StringIO
from pathlib import Path
from typing import Literal

import pytest
from markdown_it import MarkdownIt

from herodotus_cli.commands.report import build_report
from herodotus_cli.environment import Environment
from herodotus_cli.render.reports import FORMATS, draw
from herodotus_cli.render.reports.cluster import TITLE
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.importing import import_csv
from tests.cli.scenes import NOW
from tests.endpoint.pages.browser import chromium

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TITLES = [
    *(f"{resource} {what}, %" for resource in ("cpu", "memory") for what in ("requested", "fragmentation")),
    "pods waiting",
]
SEEDS = ("--seeds", "2")
LONG = "a-file-with-a-long-name-that-says-which-cluster-and-which-week-it-is-about"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report of two variants in each format: two nodes, and pods that wait for room."""
    folder = tmp_path_factory.mktemp("reports")
    nodes, pods, trace = folder / "nodes.csv", folder / "pods.csv", folder / "day.trace"
    nodes.write_text("name,cpu,memory\nn1,4,16Gi\nn2,4,16Gi\n")
    pods.write_text("name,arrives_s,runs_s,cpu\n" + "".join(f"p{i},{i * 60},900,2\n" for i in range(30)))
    write_trace(trace, import_csv(nodes, pods))
    words = ["--config", str(folder / "stock.yaml"), "--config", str(folder / f"{LONG}.yaml")]
    (folder / "stock.yaml").write_text(CONFIG)
    (folder / f"{LONG}.yaml").write_text(f"{CONFIG}podMaxBackoffSeconds: 600\n")
    report = build_report("simulate", [str(trace), *words, *SEEDS], Environment({}, StringIO(), lambda: NOW, int))
    for format_, end in FORMATS.items():
        (folder / f"report{end}").write_text(draw(report, format_))
    return folder


def test_each_plot_has_a_line_for_each_variant_and_its_ends_as_text(reports: Path) -> None:
    text = (reports / "report.html").read_text()
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    assert [re.findall(r"<figcaption>(.*?)</figcaption>", each) for each in figures] == [[title] for title in TITLES]
    for figure in figures:
        points = re.findall(r'points="(.*?)"', figure)
        assert [len(each.split()) for each in points] == [20, 20]
        assert figure.count("<li>") == 2
        heights = [float(point.partition(",")[2]) for each in points for point in each.split()]
        assert min(heights) >= 0
        assert max(heights) <= 100
    requested, waiting = figures[0], figures[-1]
    assert "stock.yaml: 25 to 100" in requested  # 2 of 8 cpu at the first moment
    assert "<span>100</span><span>0</span>" in requested
    highest = re.findall(r"<li>.*?stock.yaml: 0 to (\d+)", waiting)
    assert int(highest[0]) > 0
    assert "<script" not in text
    assert not re.findall(r"(?:src|href)=", text)


def test_no_report_of_a_simulation_is_about_the_present_cluster(reports: Path) -> None:
    assert all(TITLE not in (reports / f"report{end}").read_text() for end in FORMATS.values())


def test_text_formats_have_the_plots_as_bars(reports: Path) -> None:
    markdown = (reports / "report.md").read_text()
    rendered = MarkdownIt("commonmark").enable("table").render(markdown)
    assert len(re.findall(r"<td>[▁▂▃▄▅▆▇█]{20}</td>", rendered)) == 2 * len(TITLES)
    picture = "".join(ET.fromstring((reports / "report.svg").read_text()).itertext())
    assert len(re.findall("[▁▂▃▄▅▆▇█]{20}", picture)) == 2 * len(TITLES)


def test_pages_fit_screen_phone_and_paper_and_are_accessible(reports: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    wrong: list[tuple[object, ...]] = []
    views: list[tuple[int, Literal["screen", "print"], Literal["light", "dark"]]] = [
        (1440, "screen", "light"),
        (390, "screen", "dark"),
        (794, "print", "light"),
    ]
    with chromium() as browser:
        for width, media, scheme in views:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.emulate_media(media=media)
            page.goto((reports / "report.html").as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wrong.append((width, media, "overflows"))
            boxes = page.locator(".plot svg").evaluate_all("all => all.map(each => each.getBoundingClientRect().width)")
            wrong += [(width, media, "narrow", box) for box in boxes if box < min(300, width - 100)]
            sizes = page.locator("figure span, figure li, figcaption").evaluate_all(
                "all => all.map(each => parseFloat(getComputedStyle(each).fontSize))"
            )
            wrong += [(width, media, "small", size) for size in sizes if size < 11]
            strokes = (
                page.locator("figure")
                .first.locator("polyline")
                .evaluate_all("all => all.map(each => getComputedStyle(each).strokeDasharray)")
            )
            if len({*strokes}) < len(strokes):  # who sees no colour, or prints without, tells the lines apart
                wrong.append((width, media, "alike", strokes))
            found = Axe().run(page).response["violations"] if media == "screen" else ()
            wrong += [(width, each["id"]) for each in found if each["impact"] in ("serious", "critical")]
            page.close()
    assert wrong == []
