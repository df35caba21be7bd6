"""An outcome as JSON, in the form of tests/golden/README.md.

Owns: that form. Does not own: any decision. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, Verdict
from scheduler.columns import NodeColumns
from scheduler.cycle import CycleResult
from scheduler.framework.answers import message_of
from scheduler.framework.profile import Profile
from scheduler.framework.trace import FilterRun, ScoreRun

Json = dict[str, Any]


def outcome_of(profile: Profile, nodes: NodeColumns, result: CycleResult) -> Json:
    """What the plugins said, aspect by aspect."""
    trace = result.trace
    name = nodes.names
    evaluated, feasible = np.flatnonzero(trace.evaluated).tolist(), np.flatnonzero(trace.feasible).tolist()
    outcome: Json = {
        "preFilter": {"code": "Success"},
        "filterOrder": [plugin.name for plugin in profile.filter],
        "scoreOrder": [plugin.name for plugin in profile.score],
        "skippedFilters": [run.plugin for run in trace.filters if run.skipped],
        "skippedScores": [run.plugin for run in trace.scores if run.normalized is None],
        "feasible": [name[slot] for slot in feasible] or None,
        "filters": {name[slot]: row for slot in evaluated if (row := _verdicts(trace.filters, slot))},
        "firstFailure": {
            name[slot]: {
                "plugin": (run := trace.filters[int(trace.first[slot])]).plugin,
                **_said(run.verdicts.at(slot)),
            }
            for slot in evaluated
            if trace.first[slot] >= 0
        },
        "scores": {run.plugin: _points(run, name, feasible) for run in trace.scores if run.normalized is not None},
    }
    if trace.pre_filters:
        last = trace.pre_filters[-1]
        outcome["preFilter"] = {"plugin": last.plugin, **_said(last.verdict)}
    if trace.narrowed_by:
        outcome["preFilterNodes"] = [name[slot] for slot in evaluated]
    if trace.totals is not None:
        outcome["totals"] = {name[slot]: int(trace.totals[slot]) for slot in feasible}
    if result.message:
        outcome["fitError"] = result.message
    if trace.post_filters:
        last, found = trace.post_filters[-1], trace.preemption
        outcome["preemption"] = {"code": last.verdict.code.label, "message": message_of(last.verdict)}
        if found is not None:
            nominated = next(c for c in found.candidates if c.node == found.nominated)
            outcome["preemption"] |= {"nominatedNode": found.nominated, "victims": list(nominated.victims)}
    return outcome


def _verdicts(filters: Iterable[FilterRun], slot: int) -> Json:
    return {run.plugin: _said(v) for run in filters if (v := run.verdicts.at(slot)).code is not Code.SUCCESS}


def _said(verdict: Verdict) -> Json:
    return {"code": verdict.code.label, "reasons": [reasons.sentence(r) for r in verdict.reasons]}


def _points(run: ScoreRun, names: list[str], feasible: Iterable[int]) -> Json:
    assert run.raw is not None
    assert run.normalized is not None
    return {
        "raw": {names[slot]: int(run.raw[slot]) for slot in feasible},
        "normalized": {names[slot]: int(run.normalized[slot]) for slot in feasible},
        "weight": run.weight,
    }
