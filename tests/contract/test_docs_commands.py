"""Every command in the documents exists.

A command in a block is parsed by the real parsers. In a sentence it may be partial: then the program, the command and
its options exist.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from bench import __main__ as bench
from herodotus_agents import command_line as agents
from herodotus_cli import commands
from herodotus_endpoint import maintenance, options
from herodotus_sim import __main__ as sim
from scheduler.commands import main as app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IN_AN_IMAGE = {"herodotus-scheduler": "scheduler", "herodotus-endpoint": "herodotus_endpoint"}
MODULES: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "scheduler": app._parser,
    "herodotus_endpoint": options.build_parser,
    "herodotus_agents": agents._parser,
    "herodotus_sim": sim._parser,
    "bench": bench._parser,
}
FOREIGN = {
    "--format",
    "--replicas",
    "--chunk-size",
    "--unshallow",
    "--set",
    "--take-ownership",
    "--force-conflicts",
}  # of pg_dump, kubectl, git and Helm, in sentences
GUIDES = [
    f"docs/{name}.md"
    for name in (
        "alerts",
        "getting-started",
        "installing",
        "records",
        "replace-default-scheduler",
        "security",
        "troubleshooting",
        "upgrade",
    )
]
WITH_VALUE = {"--prefix", "--bin", "--with", "--wheels", "--demo-kill", "--demo-restart"}  # of install.sh
ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>"}


def in_blocks(text: str) -> Iterator[list[str]]:
    """Yield the words of each line of each block, without prompt, comment and pipes."""
    for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            yield from _commands(line.strip().removeprefix("$ "))


def in_sentences(text: str) -> Iterator[list[str]]:
    for quoted in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield from _commands(quoted)


def _commands(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(re.sub(r"[\[\]]", "", line), comments=True)
    except ValueError:  # a sentence, or output, with an apostrophe
        return
    end = next((i for i, word in enumerate(words) if word in ENDS), len(words))
    yield words[:end]


def ours(words: list[str]) -> tuple[str, list[str]] | None:
    """Return the program and its arguments, or None for another project's program."""
    for i, word in enumerate(words):
        if word.startswith("/opt/") and word.rpartition("/")[2] in IN_AN_IMAGE:
            return IN_AN_IMAGE[word.rpartition("/")[2]], words[i + 1 :]
    match words:
        case ["python" | "python3", "-m", module, *rest]:
            return module, rest
        case ["kubectl", "herodotus", *rest] | ["kubectl-herodotus", *rest]:
            return "kubectl herodotus", rest
        case ["make" | "./install.sh" as program, *rest]:
            return program, rest
    return None


def found(document: Path, commands: Callable[[str], Iterator[list[str]]]) -> list[tuple[str, list[str]]]:
    return [command for command in map(ours, commands(document.read_text())) if command]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_in_blocks_parse(document: Path) -> None:
    refused = {}
    for program, rest in found(document, in_blocks):
        if why := wrong(program, rest):
            refused[f"{program} {shlex.join(rest)}"] = why
    assert not refused


def test_there_are_commands_to_parse() -> None:
    assert len([c for document in DOCUMENTS for c in found(document, in_blocks)]) > 80


def wrong(program: str, rest: list[str]) -> str:
    """Return why the command is rejected, or "" if it is valid."""
    try:
        match program:
            case "kubectl herodotus":
                if rest and not rest[0].startswith("-"):
                    commands.load_command(rest[0]).make_context(rest[0], rest[1:])
            case "make" | "./install.sh":
                return ", ".join(sorted({w for w in rest if "=" not in w} - _words_of(program) - _values(rest)))
            case _ if program not in MODULES:
                return "" if importlib.util.find_spec(program) else "no such module"
            case _:
                _parser(program, rest).parse_args(rest)
    except (click.ClickException, KeyError) as e:
        return str(e)
    except SystemExit as e:  # argparse has said why
        return "argparse refuses it" if e.code else ""
    return ""


def _values(rest: list[str]) -> set[str]:
    """Return the values of options that take one."""
    return {rest[i + 1] for i, word in enumerate(rest[:-1]) if word in WITH_VALUE}


def _parser(program: str, rest: list[str]) -> argparse.ArgumentParser:
    work = program == "herodotus_endpoint" and rest[:1] and rest[0] in maintenance.COMMANDS
    return maintenance._parser() if work else MODULES[program]()


def _words_of(program: str) -> set[str]:
    if program == "make":
        return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return set(re.findall(r"--[a-z-]+", (ROOT / "install.sh").read_text().partition("END\n}")[0]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_in_sentences_exist(document: Path) -> None:
    unknown = []
    for program, rest in found(document, in_sentences):
        known, left = known_words(program, rest)
        unknown += [(program, w) for w in left if w.startswith("-") and w.partition("=")[0] not in known]
    assert not unknown


def known_words(program: str, rest: list[str]) -> tuple[set[str], list[str]]:
    """Return the options of the command that `rest` begins with, and the words after its name.

    Raises KeyError if there is no such command.
    """
    if program == "kubectl herodotus":
        if not rest or rest[0].startswith("-"):
            return {"--help", "-h", "--version"}, rest
        return {o for p in commands.load_command(rest[0]).params for o in (*p.opts, *p.secondary_opts)}, rest[1:]
    if program in ("make", "./install.sh"):
        assert not (program == "make" and set(rest) - _words_of(program)), rest
        return _words_of(program), rest
    if program not in MODULES:
        assert importlib.util.find_spec(program), program
        return {word for word in rest if word.startswith("-")}, rest
    parser = _parser(program, rest)
    while rest and (below := _below(parser)) and rest[0] in below:
        parser, rest = below[rest[0]], rest[1:]
    return set(parser._option_string_actions), rest


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(groups[0]) if groups else {}


@pytest.mark.parametrize("document", GUIDES)
def test_flags_in_sentences_exist(document: str) -> None:
    prose = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    named = {flag for quoted in re.findall(r"`([^`]+)`", prose) for flag in re.findall(r"--[a-z][a-z-]*", quoted)}
    assert named - set(_every_flag()) - FOREIGN == set()


def _every_flag() -> Iterator[str]:
    yield from _words_of("./install.sh")
    for name in commands.COMMANDS:
        yield from known_words("kubectl herodotus", [name])[0]
    for parser in (*(make() for make in MODULES.values()), maintenance._parser()):
        yield from _options(parser)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from parser._option_string_actions
    for below in _below(parser).values():
        yield from _options(below)


@pytest.mark.parametrize("document", ["README.md", *GUIDES])
def test_files_in_commands_exist(document: str) -> None:
    words = [word for words in in_blocks((ROOT / document).read_text()) for word in words]
    named = [w for w in words if w.startswith("./") or (w.startswith("deploy/") and Path(w).suffix)]
    assert not [w for w in named if not (ROOT / w).exists()]
