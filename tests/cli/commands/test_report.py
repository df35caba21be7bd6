"""`report`: one file that has the answer, needs nothing else, and reads no text as markup."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from herodotus_answers.pending import build_pending_pods
from herodotus_cli.command_line import run
from herodotus_cli.environment import Environment
from herodotus_cli.render.reports import ABOUT, FORMATS, AnswerReport, Section, draw
from herodotus_cli.render.screen_elements import Block, Cell, SplitLine, TextLine, build_table, labelled_rows
from tests.cli.scenes import NOW, scenes
from tests.cli.service import API, Ran, Service, command
from tests.endpoint.pages.browser import chromium
from tests.support.documents import pending_pod

HOSTILE = "<script>alert(1)</script> | `x` **y** [z](http://a.test) &amp; \x1b[2J"
POD = "checkout-7d9f-x2k"


def reported(service: Service, *words: str) -> Ran:
    return command("report", *words, "--endpoint", service.url)


@pytest.fixture
def placed(service: Service) -> Service:
    service.answer(f"{API}/namespaces/shop/podexplanations/{POD}?all=true", scenes()["placed-all"]().answer)
    return service


class Elements(HTMLParser):
    """The elements of an HTML document with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_report() -> AnswerReport:
    table = build_table(("NODE", HOSTILE), [("n1", Cell(HOSTILE, "bad"))])
    blocks: list[Block] = [SplitLine(HOSTILE, HOSTILE), TextLine(HOSTILE, "bad")]
    blocks += [TextLine(f"kubectl {HOSTILE}", command=True), table, labelled_rows([("FIX", HOSTILE)])]
    return AnswerReport(HOSTILE, [("Question", HOSTILE)], [Section("", blocks)])


def test_html_needs_no_other_file_and_no_script(placed: Service) -> None:
    page = Elements(reported(placed, "pod", POD, "-n", "shop").out)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert not [value for _, given in page.elements for value in given.values() if value and "//" in value]
    assert "best of 5 feasible nodes out of 12" in page.text
    assert "worker-12" in page.text, "every node"
    assert f"kubectl herodotus pod {POD} -n shop" in page.text, "the question"


def test_no_text_is_read_as_markup() -> None:
    page = Elements(draw(hostile_report(), "html"))
    assert not {"script", "a", "strong"} & {tag for tag, _ in page.elements}
    assert page.text.count("<script>alert(1)</script>") >= 7
    rendered = Elements(MarkdownIt("commonmark", {"html": True}).enable("table").render(draw(hostile_report(), "md")))
    assert not {"script", "a", "em"} & {tag for tag, _ in rendered.elements}
    assert rendered.text.count("<script>alert(1)</script>") >= 7
    assert [tag for tag, _ in rendered.elements].count("td") == 2
    for format_ in FORMATS:
        assert "\x1b" not in draw(hostile_report(), format_)


def test_markdown_has_tables_of_the_same_cells(placed: Service) -> None:
    text = reported(placed, "pod", POD, "-n", "shop", "-o", "md").out
    page = Elements(MarkdownIt("commonmark").enable("table").render(text))
    assert text.startswith(f"# {POD} (shop)")
    assert [tag for tag, _ in page.elements].count("table") > 1
    assert "NodeResourcesFit" in page.text
    assert text.rstrip().splitlines()[-1].startswith("- **Plugin**")


def test_svg_is_a_picture_that_loads_nothing(placed: Service) -> None:
    text = reported(placed, "pod", POD, "-n", "shop", "-o", "svg").out
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert not re.findall(r"url\((?!#)|@import|@font-face", text)
    assert "worker-7" in "".join(root.itertext())


def test_file_name_tells_the_format(service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{API}/namespaces/shop/pendingpods", build_pending_pods([pending_pod("a", None)], now_us=10**15))
    for name, start in (("r.md", "# "), ("r.svg", "<svg"), ("r.html", "<!doctype html>"), ("r", "<!doctype html>")):
        assert reported(service, "pending", "-n", "shop", "--to", str(tmp_path / name)).code == 0
        assert (tmp_path / name).read_text().startswith(start)
    assert "bytes" in capsys.readouterr().err
    assert reported(service, "pending", "-n", "shop", "--to", str(tmp_path / "none" / "r.md")).code == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.pdf"])
def test_an_ending_of_no_format_is_refused_with_the_command_for_the_document(
    placed: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / name
    assert reported(placed, "pod", POD, "-n", "shop", "--to", str(file)).code == 2
    assert not file.exists()
    said = capsys.readouterr().err
    assert ".html, .md, .svg" in said
    assert f"kubectl herodotus pod {POD} -n shop --endpoint {placed.url} -o json" in said
    assert reported(placed, "pod", POD, "-n", "shop", "--to", str(file), "-o", "md").code == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("pod", POD), f"pod-{POD}.html"),
        (("pod", f"shop/{POD}", "-o", "svg"), f"pod-shop-{POD}.svg"),
        (("drain", "worker-3", "--force"), "drain-worker-3.html"),
    ],
    ids=["html", "svg", "drain"],
)
def test_markup_is_not_written_to_a_terminal(
    words: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    environment = Environment({}, terminal, lambda: NOW, lambda: 80)
    assert run(["report", *words], environment) == 1
    assert f"into a file: --to {file}" in capsys.readouterr().err
    assert terminal.getvalue() == ""


def test_json_is_found_without_report(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(service, "drain", "worker-3", "-o", "json").code == 2
    assert "kubectl herodotus whatif drain worker-3" in capsys.readouterr().err


def test_the_making_is_told_last(placed: Service) -> None:
    text = Elements(reported(placed, "pod", POD, "-n", "shop").out).text
    about = text[text.index(ABOUT) :]
    assert "recorded by the scheduler that decided" in about
    assert "herodotus-0, version 0.1.0, profile herodotus-scheduler" in about


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_its_screen_and_is_accessible(
    placed: Service, tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    file = tmp_path / "report.html"
    assert reported(placed, "pod", POD, "-n", "shop", "--to", str(file)).code == 0
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
    assert [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in ("serious", "critical")] == []


def test_errors_are_those_of_the_question(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(service, "pods", "none", "-n", "shop").code == 1
    assert "NotFound" in capsys.readouterr().err
    assert reported(service, "nothing").code == 2
    assert "there is no report on 'nothing'" in capsys.readouterr().err
    assert reported(service, "pending", "--no-such").code == 2
    assert "No such option" in capsys.readouterr().err
