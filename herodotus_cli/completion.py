"""`kubectl_complete-herodotus`: the program that kubectl runs to complete `kubectl herodotus …`.

Owns: kubectl's protocol: the words so far are arguments, the last one unfinished; the output has one candidate per line
and then cobra's directive. Does not own: the candidates (click, `completion_values`).

Invariant: prints candidates or none, and never an error, because the user is in the middle of a line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from click.shell_completion import CompletionItem, ShellComplete

from herodotus_cli.command_line import PROG, cli
from herodotus_cli.environment import Environment, process_environment

NO_FILES = ":4"  # cobra's ShellCompDirectiveNoFileComp
FILES = ":0"  # let the shell complete file names


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the completion candidates for the words in `arguments`, by default those of this process."""
    print(complete(sys.argv[1:] if arguments is None else arguments, process_environment()), end="")


def complete(words: Sequence[str], environment: Environment) -> str:
    """Return what kubectl reads: one completion candidate per line, then a line with cobra's directive.

    `words` are the words of the command line so far; the last one is unfinished or empty.
    """
    *before, unfinished = words or [""]
    try:
        items = ShellComplete(cli, {"obj": environment}, PROG, "").get_completions(list(before), unfinished)
    except Exception:  # a word that cannot be parsed yet, for one
        return f"{NO_FILES}\n"
    files = any(item.type in ("file", "dir") for item in items)
    lines = [_line(item) for item in items if item.type == "plain"]
    return "".join(f"{line}\n" for line in [*lines, FILES if files else NO_FILES])


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)
