"""The documents keep up with the code."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from herodotus_cli import commands
from herodotus_endpoint import maintenance, options
from scheduler import app
from scheduler.plugins import IN_TREE

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("plugin", sorted(IN_TREE))
def test_every_plugin_has_its_row_in_parity(plugin: str) -> None:
    rows = re.findall(r"^\| (\w+) \|", (ROOT / "docs/parity.md").read_text(), re.MULTILINE)
    assert rows.count(plugin) == 1


def test_readme_has_exactly_two_set_up_commands() -> None:
    """The demo and the tests: nothing else has to be run to see or to check everything."""
    readme = (ROOT / "README.md").read_text()
    block = re.search(r"## Set up\n.*?```\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    commands = [shlex.split(line, comments=True) for line in block[1].splitlines() if line.strip()]
    assert commands == [["./install.sh", "--demo"], ["make", "test"]]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link and every path in backquotes that looks like a file of ours exists."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    links = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in t]
    rooms = r"(?:herodotus_\w+|scheduler|deploy|docs|packages|tests|scripts)/"
    paths = [p for p in re.findall(rf"`({rooms}[\w./-]+)`", text) if not p.endswith("_agents/")]
    missing = [t for t in links if not (document.parent / t).exists()]
    missing += [p for p in paths if not (ROOT / p).exists()]
    assert not missing


RUNBOOKS = ("docs/runbooks.md", "docs/security.md")
FOREIGN = {"--format", "--replicas"}  # of pg_dump and kubectl, where a sentence names them
IN_AN_IMAGE = {"herodotus-scheduler": "scheduler", "herodotus-endpoint": "herodotus_endpoint"}


def test_every_alert_has_its_section() -> None:
    """Once each, in the order of the file; and no section is of an alert that is gone."""
    rules = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["spec"]["groups"][0]["rules"]
    sections = re.findall(r"^### (Herodotus\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules]


@pytest.mark.parametrize("document", RUNBOOKS)
def test_commands_of_the_runbooks_have_their_flags(document: str) -> None:
    """Every command of ours in a block is one that there is, with options that it takes."""
    found = [c for c in map(ours, blocks((ROOT / document).read_text())) if c]
    assert document != "docs/runbooks.md" or len(found) > 5
    unknown = [(path, flag) for path, flags in found for flag in flags if flag not in KNOWN.get(path, ())]
    assert not unknown


@pytest.mark.parametrize("document", RUNBOOKS)
def test_flags_that_sentences_name_are_there(document: str) -> None:
    prose = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    named = {flag for quoted in re.findall(r"`([^`]+)`", prose) for flag in re.findall(r"--[a-z][a-z-]*", quoted)}
    assert named - set().union(*KNOWN.values()) - FOREIGN == set()


@pytest.mark.parametrize("document", RUNBOOKS)
def test_files_that_commands_name_are_there(document: str) -> None:
    words = [word for words in blocks((ROOT / document).read_text()) for word in words]
    assert not [
        w for w in words if w.startswith(("deploy/", "./")) and not (ROOT / w).exists() and "/herodotus-" not in w
    ]


def blocks(text: str) -> Iterator[list[str]]:
    """The words of each line in a block."""
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        yield from (shlex.split(line, comments=True) for line in block.splitlines())


def ours(words: list[str]) -> tuple[str, list[str]] | None:
    """Program and command, and the options that it is given; None for somebody else's program."""
    program, rest = "", words
    for i, word in enumerate(words):
        if word.rpartition("/")[2] in IN_AN_IMAGE and word.startswith("/opt/"):
            program, rest = IN_AN_IMAGE[word.rpartition("/")[2]], words[i + 1 :]
    if words[:2] == ["python", "-m"]:
        program, rest = words[2], words[3:]
    elif words[:2] == ["kubectl", "herodotus"]:
        program, rest = "herodotus_cli", words[2:]
    elif words[:1] == ["./install.sh"]:
        program, rest = "install.sh", words[1:]
    if not program:
        return None
    command = rest[0] if rest and f"{program} {rest[0]}" in KNOWN else ""
    return f"{program} {command}".strip(), [w.partition("=")[0] for w in rest if w.startswith("-")]


def _known() -> Iterator[tuple[str, set[str]]]:
    """Every command of ours with its options."""
    yield "install.sh", set(re.findall(r"--[a-z-]+", (ROOT / "install.sh").read_text().partition("END\n}")[0]))
    for name in commands.COMMANDS:
        yield f"herodotus_cli {name}", {o for p in commands.command(name).params for o in (*p.opts, *p.secondary_opts)}
    yield "herodotus_endpoint", set(options.parser()._option_string_actions)
    for program, parser in (("herodotus_endpoint", maintenance._parser()), ("scheduler", app._parser())):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, command in action.choices.items():
                    yield f"{program} {name}", set(command._option_string_actions)


KNOWN = dict(_known())
