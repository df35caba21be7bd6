"""No document, help text or message asks to install a distribution that is neither ours nor in a lock."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from herodotus_record.installation import PLUGIN, SERVERS
from scripts.lock import INSTALLATIONS
from tests.packages.lock import locked
from tests.processes import ROOT

OURS = {PLUGIN, SERVERS}
LOCKED = {canonicalize_name(entry.name) for installation in INSTALLATIONS for entry in locked(installation)}
TOOLS = {"install", "packaging", "pip", "pipx", "uv"}  # what installs; `pipx runpip NAME install`
COMMAND = re.compile(
    r"\b(?:pip3?|pip3?\.\d+) +(?:install|download|wheel)\b|\bpipx +(?:install|inject|run|runpip)\b"
    r"|\buv +(?:pip +install|tool +(?:install|run)|add)\b|\buvx\b"
)
END = re.compile(r"""[`;|&()#]|\\n|"$|",|"\]|\.$|\.\s|,\s|:\s|<""")
WITH_VALUE = re.compile(
    r"--(?:python|dest|wheel-dir|directory|index-url|find-links|requirement|target|prefix)[= ]\S+|-[rctd] \S+"
)
REQUIREMENT = re.compile(r"^([A-Za-z][\w.-]*)(?:\[([\w,-]*)\])?(?:[=<>~!].*)?$")
TEXTS = (
    "*.md",
    "*.py",
    "*.sh",
    "*.yml",
    "*.yaml",
    "*.txt",
    "*.toml",
    "*.ts",
    "*.tsx",
    "*.html",
    "Makefile",
    "Dockerfile",
)
NOT_READ = (
    ":!CHANGELOG.md",
    ":!packages/lock.txt",
    ":!tests/contract/test_install_commands.py",
    ":!plugins/headlamp/node_modules",
)


def find_requirements(text: str) -> Iterator[str]:
    """Yield the words after each command that installs packages, without options and their values."""
    joined = re.sub(r"\b(install|pip)\s*\n\s*(?:#\s*)?", r"\1 ", text)  # a command that a paragraph breaks
    for match in COMMAND.finditer(joined):
        rest = joined[match.end() :].split("\n", 1)[0]
        end = END.search(rest)
        words = WITH_VALUE.sub(" ", rest[: end.start()] if end else rest).split()
        yield from (word.strip("'\"") for word in words)


def foreign(text: str) -> list[str]:
    """Return the distributions in a text that one is asked to install and that are neither ours nor locked."""
    found = []
    for word in find_requirements(text):
        match = REQUIREMENT.match(word)
        if match and canonicalize_name(match[1]) not in OURS | LOCKED | TOOLS and not match[1].isupper():
            found.append(word)
    return found


def test_no_text_asks_to_install_a_strangers_distribution() -> None:
    command = ["git", "ls-files", "-z", "--", *TEXTS, *NOT_READ]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    texts = {name: (ROOT / name).read_text("utf-8", "replace") for name in names if name and (ROOT / name).is_file()}
    wrong = {name: found for name, text in texts.items() if (found := foreign(text))}
    assert not wrong


def test_a_strangers_distribution_is_found_in_every_form() -> None:
    for command in (
        "pip install herodotus",
        "pip install 'herodotus[mcp]'",
        'pipx install "herodotus[local]"',
        "uv tool install herodotus-servers",
        "python -m pip install --upgrade herodotus==0.1.0",
        "uvx herodotus",
    ):
        assert foreign(command), command
    for command in ("pip install .", "pip install 'kubectl-herodotus[mcp]'", "pip install -r requirements.txt"):
        assert not foreign(command), command
