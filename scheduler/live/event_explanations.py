"""The text that `--explain-events` adds to a pod's FailedScheduling event: a suggestion, and where the decision is.

Owns: the text, and how many events a second get one. Does not own: the search (`engine.suggestions`), events.

Invariant: the text names no node and no other pod, because everyone who may read the events of a namespace reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from herodotus_answers.suggestions import format_change
from herodotus_record.model import Decision, Suggestion

MAX_BYTES: Final = 400  # of an event's 1,024: kube-scheduler's own message needs the rest
RATE: Final = 10.0  # texts a second: events of a storm of rejected pods stay as small as kube-scheduler's
BURST: Final = 100.0

# Changes of the pod whose sentences consist of the pod's own spec and of taints, which the message names, too.
DISCLOSED: Final = frozenset(
    {
        "add-toleration",
        "set-request",
        "remove-host-port",
        "set-max-skew",
        "set-when-unsatisfiable",
        "remove-pod-affinity",
        "remove-pod-anti-affinity",
    }
)


class EventExplainer:
    """Builds the texts for the events of rejected pods, at most RATE a second after a burst of BURST."""

    def __init__(self, url: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Create the builder. `url` is the address of the web pages; without it the texts have a command for a link."""
        self._url = url.rstrip("/")
        self._clock = clock
        self._tokens = BURST
        self._at = clock()

    def explain(self, decision: Decision) -> str:
        """Return the link to a decision without a node, preceded by a suggestion if every reader may see it.

        Return "" if more than RATE texts a second were built after the burst, or if the text is above MAX_BYTES.
        """
        now = self._clock()
        self._tokens = min(BURST, self._tokens + (now - self._at) * RATE)
        self._at = now
        if self._tokens < 1:
            return ""
        self._tokens -= 1
        reference = f"Decision: {self._locate(decision)}"
        suggestion = next((format_suggestion(s) for s in decision.suggestions if is_disclosed(s)), "")
        text = f"Suggestion: {suggestion}. {reference}" if suggestion else reference
        if len(text.encode()) > MAX_BYTES:
            text = reference
        return text if len(text.encode()) <= MAX_BYTES else ""

    def _locate(self, decision: Decision) -> str:
        """Return the URL of the decision's page, or the command that shows the decision."""
        pod = decision.pod
        if self._url:
            query = urlencode({"view": "decision", "namespace": pod.namespace, "name": decision.id})
            return f"{self._url}/?{query}"
        return f"kubectl herodotus pod {pod.name} -n {pod.namespace}"


def is_disclosed(suggestion: Suggestion) -> bool:
    """Return whether everyone who may read the events of the rejected pod's namespace may see the suggestion."""
    return all(change.code in DISCLOSED for change in suggestion.changes)


def format_suggestion(suggestion: Suggestion) -> str:
    """Return the changes of a suggestion as one line."""
    return " and ".join(format_change(suggestion, change) for change in suggestion.changes)
