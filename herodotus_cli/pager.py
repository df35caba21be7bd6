"""Shows a screen that is longer than the terminal in a pager, as git does.

Owns: the choice of the pager, and when it is used. Does not own: the screen.

The pager is KUBECTL_HERODOTUS_PAGER, else PAGER, else `less`; an empty value or `cat` means none. TERM=dumb, a terminal
that cannot move its cursor, means none too. Unless LESS is set, less gets git's settings (colours are kept, the text
stays on the terminal afterwards) and a prompt that says how to go on.

Invariant: if no pager can be started, the text is written directly.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping
from typing import TextIO

_VARIABLES = ("KUBECTL_HERODOTUS_PAGER", "PAGER")
_PROMPT = "lines %lt-%lb?e (end).  space\\: more, h\\: help, q\\: quit "  # less(1), PROMPTS
_LESS = {"LESS": f"FRX$Ps{_PROMPT}$", "LESSCHARSET": "utf-8"}


def write(text: str, out: TextIO, environ: Mapping[str, str], height: int) -> None:
    """Write text to `out`, through a pager if it has at least as many lines as the terminal.

    `height` is the number of lines of the terminal; 0 means no pager.
    """
    pager = pager_command(environ)
    if not height or text.count("\n") < height or not pager:
        out.write(text)
        return
    out.flush()
    try:
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, env={**_LESS, **environ})
    except OSError:
        out.write(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager handles Ctrl-C
    try:
        process.communicate(text.encode("utf-8", "replace"))
    finally:
        signal.signal(signal.SIGINT, before)


def pager_command(environ: Mapping[str, str]) -> list[str]:
    """Return the command line of the pager that the variables choose, or [] if no pager is wanted."""
    if environ.get("TERM") == "dumb":
        return []
    value = next((environ[name] for name in _VARIABLES if name in environ), "less")
    try:
        words = shlex.split(value)
    except ValueError:  # an unclosed quote
        return []
    return [] if words == ["cat"] else words
