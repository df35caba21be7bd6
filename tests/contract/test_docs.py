"""The documents agree with the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from scheduler.engine.plugins import IN_TREE

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("plugin", sorted(IN_TREE))
def test_every_plugin_has_its_row_in_parity(plugin: str) -> None:
    rows = re.findall(r"^\| (\w+) \|", (ROOT / "docs/parity.md").read_text(), re.MULTILINE)
    assert rows.count(plugin) == 1


def test_readme_sets_up_with_two_commands() -> None:
    """One answers on the reader's cluster, the other runs the demo, which shows everything."""
    section = re.search(r"## Set up\n(.*?)\n## ", (ROOT / "README.md").read_text(), re.DOTALL)
    assert section is not None
    lines = "".join(re.findall(r"```\n(.*?)```", section[1], re.DOTALL)).splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    assert [c for c in commands if c[0] == "./install.sh"] == [["./install.sh", "--local"], ["./install.sh", "--demo"]]


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_each_page_begins_with_its_audience(document: Path) -> None:
    title, first_paragraph, *_ = document.read_text().split("\n\n")
    assert title.startswith("# ")
    assert first_paragraph.startswith("For ")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_link_targets_exist(document: Path) -> None:
    """Covers every relative link, and every path in backquotes that looks like one of our files."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    links = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in t]
    rooms = r"(?:herodotus_\w+|scheduler|deploy|docs|packages|tests|scripts)/"
    paths = [p for p in re.findall(rf"`({rooms}[\w./-]+)`", text) if not p.endswith("_agents/")]
    missing = [t for t in links if not (document.parent / t).exists()]
    missing += [p for p in paths if not (ROOT / p).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_linked_headings_exist(document: Path) -> None:
    """The part after # is a heading of that document, in GitHub's form."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text) if "://" not in link[0]]
    assert not [f"{to}#{anchor}" for to, anchor in links if anchor not in headings(document.parent / to, document)]


def headings(file: Path, here: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", (file if file.is_file() else here).read_text(), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_alert_has_its_section() -> None:
    """Each alert has one, in the order of the file, and no other section exists."""
    rules = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["spec"]["groups"][0]["rules"]
    sections = re.findall(r"^### (Herodotus\w+)$", (ROOT / "docs/alerts.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules]
