"""Records of a newer scheduler, made readable: reasons that this version has no sentence for.

Owns: what stands in for them. Does not own: the catalogue (`herodotus_record.reasons`).

Invariant: a decision that was stored can be answered from; nothing but the wording of unknown reasons changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from herodotus_record import reasons
from herodotus_record.model import Code, Decision, Reason, Verdict


def readable(decision: Decision) -> Decision:
    """The decision, with each reason that has no sentence here replaced by one that shows its code and parameters."""
    if all(map(_known, _verdicts(decision))):
        return decision
    return replace(
        decision,
        pre_filters=tuple(replace(v, verdict=_worded(v.verdict)) for v in decision.pre_filters),
        filters=tuple(replace(f, verdicts=tuple(map(_worded, f.verdicts))) for f in decision.filters),
        post_filters=tuple(replace(v, verdict=_worded(v.verdict)) for v in decision.post_filters),
    )


def _verdicts(decision: Decision) -> Iterable[Verdict]:
    for filter_column in decision.filters:
        yield from filter_column.verdicts
    for plugin_verdict in (*decision.pre_filters, *decision.post_filters):
        yield plugin_verdict.verdict


def _known(verdict: Verdict) -> bool:
    try:
        for reason in verdict.reasons:
            reasons.sentence(reason)
    except (KeyError, ValueError, IndexError):
        return False
    return True


def _worded(verdict: Verdict) -> Verdict:
    return verdict if _known(verdict) else replace(verdict, reasons=tuple(map(_in_words, verdict.reasons)))


def _in_words(reason: Reason) -> Reason:
    if _known(Verdict(Code.UNSCHEDULABLE, (reason,))):
        return reason
    shown = ", ".join(f"{name}={value}" for name, value in sorted(reason.params.items()))
    return Reason("text", {"text": f"{reason.code} ({shown})" if shown else reason.code})
