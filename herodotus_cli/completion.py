"""`kubectl_complete-herodotus`: kubectl asks it for the words that may follow `kubectl herodotus …`.

Owns: kubectl's way to ask (the words so far as arguments, the last one unfinished) and to be told (a word a line, then
cobra's directive). Does not own: which words there are (click, `live`).

Invariant: prints words or nothing, never an error: the user is in the middle of a line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from click.shell_completion import CompletionItem, ShellComplete

from herodotus_cli.command_line import PROG, cli
from herodotus_cli.context import Environment, Given, surroundings

NO_FILES = ":4"  # cobra's ShellCompDirectiveNoFileComp
FILES = ":0"  # let the shell complete file names


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the words and exits."""
    print(completed(sys.argv[1:] if arguments is None else arguments, surroundings()), end="")


def completed(words: Sequence[str], around: Environment) -> str:
    """The answer for the words so far; the last one is unfinished, and may be empty."""
    *before, unfinished = words or [""]
    try:
        found = ShellComplete(cli, {"obj": Given(around)}, PROG, "").get_completions(list(before), unfinished)
    except Exception:  # a word that cannot be parsed yet, for one
        return f"{NO_FILES}\n"
    files = any(item.type in ("file", "dir") for item in found)
    lines = [_line(item) for item in found if item.type == "plain"]
    return "".join(f"{line}\n" for line in [*lines, FILES if files else NO_FILES])


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)
