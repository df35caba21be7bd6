"""What plugins answer where they answer in a word: held to be one, and put into words.

Owns: what counts as an answer, an exception as one. Does not own: what follows from an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from herodotus_record import reasons
from herodotus_record.model import Verdict
from scheduler.framework.verdicts import Deferred, Pending, Wait, error

Said = TypeVar("Said")


def message_of(verdict: Verdict) -> str:
    """A status's message: its reasons joined as kube-scheduler joins them."""
    return ", ".join(reasons.sentence(reason) for reason in verdict.reasons)


def safely(call: Callable[[], Said]) -> Said | Verdict:
    """What the plugin says, or the error that it raises."""
    try:
        return answer(call())
    except (Exception, SystemExit) as e:
        return error(str(e))


def answer(said: Said) -> Said:
    """What was said; TypeError where it is no answer, as from a method without `return`."""
    if not isinstance(said, Verdict | Wait | Pending | Deferred):
        raise TypeError(f"answered {said!r}, which is no Verdict")
    return said
