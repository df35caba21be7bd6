"""docs/commands.md is what the commands say of themselves. HERODOTUS_REGENERATE=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from herodotus_cli.commands import COMMANDS
from herodotus_cli.commands.plan import plan
from herodotus_cli.commands.simulate import simulate
from tests.cli.service import command

REFERENCE = Path(__file__).parents[3] / "docs/commands.md"
GOALS = {
    "plan": [f"plan {goal}" for goal in plan.list_goals()],
    "simulate": [f"simulate {goal}" for goal in simulate.list_goals()],
}
HEAD = """# Commands of kubectl herodotus

For users of the plugin: the `--help` text of every command. This page is generated. Examples with output:
[questions.md](questions.md).

Short names: `po` and `pods` for `pod`, `no` and `nodes` for `node`. Formats of `-o`, their JSON Schema and use in
scripts: [output.md](output.md).

Answers go to stdout, everything else to stderr. Exit codes: 0 answered, 1 an error (not found, forbidden, not
reachable), 2 wrong usage, 130 interrupted. `whatif --exit-code` also exits with 1 if a pod does not fit. `NO_COLOR`
and `--color` control colour. Piped output has no colour, no limit of width, and one record per line. A screen longer
than the terminal goes through `KUBECTL_HERODOTUS_PAGER`, else `PAGER`, else less; empty or `cat` means no pager.
`HERODOTUS_DEBUG=1` prints the traceback of an unexpected error.
"""


def test_reference_matches_help_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    parts = [HEAD]
    for name in ("", *(each for one in COMMANDS for each in (one, *GOALS.get(one, ())))):
        said = "\n".join(line.rstrip() for line in command(*name.split(), "--help").out.rstrip().splitlines())
        parts.append(f"\n## {f'kubectl herodotus {name}'.strip()}\n\n```\n{said}\n```\n")
    text = "".join(parts)
    if os.environ.get("HERODOTUS_REGENERATE"):
        REFERENCE.write_text(text)
    assert text == REFERENCE.read_text(), "HERODOTUS_REGENERATE=1 writes it anew"
