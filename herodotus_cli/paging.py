"""A long screen through a pager, as git does it.

Owns: which pager, and when one is used: on a terminal, for what it does not hold. Does not own: the screen.

KUBECTL_HERODOTUS_PAGER, then PAGER, then `less` where there is one; empty or `cat`: none. less gets git's settings
where LESS is not set: colours pass, and what it showed stays on the terminal.

Invariant: without a pager that runs, the text is written as it is.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping
from typing import TextIO

_ORDER = ("KUBECTL_HERODOTUS_PAGER", "PAGER")
_LESS = {"LESS": "FRX", "LESSCHARSET": "utf-8"}


def write(text: str, out: TextIO, environ: Mapping[str, str], height: int) -> None:
    """Writes a screen to a terminal of that many lines; 0: it is no terminal, or nobody sits before it."""
    pager = chosen(environ)
    if not height or text.count("\n") < height or not pager:
        out.write(text)
        return
    out.flush()
    try:
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, env={**_LESS, **environ})
    except OSError:
        out.write(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        process.communicate(text.encode("utf-8", "replace"))
    finally:
        signal.signal(signal.SIGINT, before)


def chosen(environ: Mapping[str, str]) -> list[str]:
    """The pager's command line; empty where none is wanted."""
    said = next((environ[name] for name in _ORDER if name in environ), "less")
    try:
        words = shlex.split(said)
    except ValueError:  # a quote that is not closed
        return []
    return [] if words == ["cat"] else words
