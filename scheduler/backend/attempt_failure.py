"""Why an attempt did not bind its pod, as the queue, the nominated pods and events need it.

Owns: the value, and what it says about a cycle or a refusal. Does not own: what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from herodotus_record import reasons
from herodotus_record.model import Code, DecisionPath, PluginVerdict
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.rules import Rules


@dataclass(frozen=True)
class AttemptFailure:
    """Why an attempt did not bind its pod.

    `rejectors` are the plugins that rejected the pod, and `pending` those of them whose status code was Pending.
    `is_error` says that the attempt ended with an error and not by a rejection. `explanation` follows the message in
    the event (`--explain-events`).
    """

    message: str
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nomination: Nomination | None = CLEARED
    is_error: bool = False
    explanation: str = ""

    @classmethod
    def from_result(cls, result: CycleResult) -> AttemptFailure:
        """Return the failure of a cycle that chose no node.

        Without PostFilter no plugin proposed a node, so an earlier nomination is cleared.
        """
        is_error = result.path is DecisionPath.ERROR
        nomination = result.trace.nomination if result.trace.post_filters and not is_error else CLEARED
        return cls(result.message, result.rejectors, result.pending, nomination, is_error)

    @classmethod
    def from_refusal(cls, refusal: PluginVerdict, phase: str, rules: Rules) -> AttemptFailure:
        """Return the failure of an assumed pod that a plugin refused in `phase`, which the message of an error names.

        Without a phase, "", the message is that of the plugin alone.
        """
        code = refusal.verdict.code
        message = join_reasons(refusal.verdict)
        if code.is_rejection:
            sentences = [(reasons.format_reason(reason, rules.version), 1) for reason in refusal.verdict.reasons]
            message = reasons.format_fit_error(1, sentences)
        elif phase:
            message = f'running {phase} plugin "{refusal.plugin}": {message}'
        rejectors = frozenset({refusal.plugin})
        pending = rejectors if code is Code.PENDING else frozenset[str]()
        return cls(message, rejectors, pending, is_error=not code.is_rejection)
