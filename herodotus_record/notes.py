"""Define the notes of a record: what it does not know, what failed without ending the attempt, what was disabled.

Owns: the sentence of each note. Does not own: who writes a note, which of its parameters a reader may see
(`disclosure`). A note is a `Reason`: a code and parameters. Names of pods and texts written by others are parameters,
never part of a sentence, so that masking need not parse texts. Pure.

Invariant: every note that this version writes has its code here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from herodotus_record.model import Decision, Outcome, Reason

# Notes that hold for a reconstruction alone, or for a record from a log alone: left out where both are merged.
SEEN_AT: Final = "reconstruction-time"
LOG_ALONE: Final = "log-only"
LOG_FILTERS: Final = "log-filters"
LOG_NUMBER: Final = "log-attempt-number"
LOG_SCORES: Final = "log-scores"
LOG_WEIGHTS: Final = "log-weights"
LOG_PREEMPTION: Final = "log-preemption"
NOT_BUILT: Final = "rules-not-built"
OF_ONE_RECORD: Final = frozenset((SEEN_AT, LOG_ALONE, LOG_FILTERS, LOG_NUMBER, LOG_SCORES, LOG_WEIGHTS, LOG_PREEMPTION))

CATALOGUE: Final[Mapping[str, str]] = {
    # filters with nominated pods
    "nominated-pods": "counted as running, because nominated at that time: {node} ({nominated})",
    "nominated-more": "counted as running, because nominated at that time: pods of {count} more nodes",
    # plugins and extenders
    "plugin-said": "{plugin}: {error}",
    "plugin-inputs": "{plugin}: its inputs are not recorded: {error}",
    "extender-failed": "extender {extender} failed to {verb}: {error}",
    "extender-ignored": "extender {extender} failed to {verb}, ignored: {error}",
    "extender-no-points": "extender {extender} failed to prioritize and gave no scores: {error}",
    "extender-inputs": "extender {extender}: its inputs are not recorded: {error}",
    "extender-not-asked": "extender {extender} was not called",
    "extender-not-evaluated": "extender {extender} was not called: evaluate calls no extender",
    # what the process does not do or cannot see
    "absent-kind": "absent: the API server does not serve {kind}",
    "absent-api": "absent: {api}, so no {purpose}",
    "labels-omitted": "left out: {count} of the pod's {total} labels (--omit-labels)",
    NOT_BUILT: "{change}: decided as in {rules}, because what {version} changes is not built ({source})",
    "preemption-disabled": "preemption is disabled (--disable-preemption)",
    "dry-run": "dry run (--dry-run-binding): nothing is bound, evicted or written; decided pods count on their nodes",
    # evaluate and whatif
    "evaluated": "evaluated: no pod was bound",
    "field-left-out": "spec.{field} is ignored",
    "priority-class-unknown": "priority class {name} does not exist here: the pod's priority counts as 0",
    # reconstructions
    SEEN_AT: "reconstructed: the time is when the outcome was observed",
    "seen-attempts": "the attempt's number counts observed attempts",
    "reviewed-by-observer": "decided by an observer of {scheduler}, with the configuration that the observer has",
    "unknown-plugins": "plugins unknown to this version are left out: {plugins}",
    "evaluated-otherwise": "the evaluation gives another message: {message}",
    "evaluation-error": "the evaluation ended in an error: {error}",
    # records from a log
    "log-no-year": "times: the log has no year, so the latest possible one is assumed",
    LOG_ALONE: "read from a log: it lacks the pod's requests and labels, and the nodes' resources",
    LOG_FILTERS: "verdicts on {count} nodes are not in the log",
    "log-no-start": "the attempt's start is not in the log: the time of its first line is used",
    LOG_NUMBER: "the attempt's number counts attempts in the log",
    LOG_SCORES: "scores are not in the log: kube-scheduler writes them at -v=10",
    "log-scores-partial": "lines with scores are missing in the log: its scores are ignored",
    LOG_WEIGHTS: "weights of {plugins} are not in the log: shown as 1",
    LOG_PREEMPTION: "other nodes where preemption would have helped, and disruption budgets, are not in the log",
    "log-batched": "kube-scheduler took {node} from the ranking of an equal pod just before, and scored no node",
    "log-victims-unknown": "how many pods were to be evicted is not in the log",
    "log-victims": "of {count} pods to be evicted the log names {named}",
    # outcomes
    "evicted": "{victim} evicted",
    "eviction-failed": "{victim} not evicted: {error}",
    "taken-back": "{victim} was not bound yet and is rejected",
}


def format_note(note: Reason) -> str:
    """Return a note as a sentence; if this version does not know its code, as the code with the parameters."""
    template = CATALOGUE.get(note.code)
    if template is None:
        shown = ", ".join(f"{name}={value}" for name, value in sorted(note.params.items()))
        return f"{note.code} ({shown})" if shown else note.code
    return template.format_map(_Params(note.params))


def format_notes(notes: Iterable[Reason]) -> list[str]:
    """Return the notes as sentences."""
    return [format_note(note) for note in notes]


def list_missing_rules(notes: Iterable[Reason]) -> list[str]:
    """Return the sentences of the notes with the code NOT_BUILT.

    Each names a change of a Kubernetes version that this scheduler does not implement.
    """
    return [format_note(note) for note in notes if note.code == NOT_BUILT]


def format_decision_notes(decision: Decision) -> list[str]:
    """Return all notes of a decision as sentences, including those that earlier versions wrote as text."""
    return [*format_notes(decision.notes), *decision.text_notes]


def format_outcome_message(outcome: Outcome) -> str:
    """Return the message of an outcome as a sentence, made from its `reason` if it has one."""
    return outcome.message if outcome.reason is None else format_note(outcome.reason)


class _Params(dict[str, str]):
    """The parameters of a note, for filling in its sentence; a missing parameter is shown as `<name>`."""

    def __missing__(self, name: str) -> str:
        return f"<{name}>"
