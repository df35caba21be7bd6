"""The outcome of a scheduling cycle as JSON, in the format of tests/golden/README.md. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from herodotus_record import reasons
from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import Code, DecisionPath, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.plugin_results import filter_status, join_reasons
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.trace import FilterRun, ScoreRun
from scheduler.engine.objects.resource_api import DeviceResult, ResourceClaim, to_json
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt, NodeAllocation

Json = dict[str, Any]


def outcome_of(
    profile: Profile, nodes: NodeColumns, result: CycleResult, filters: Iterable[FilterRun], score_error: str = ""
) -> Json:
    """Return the results of a scheduling cycle as a JSON document: verdicts, scores, totals, messages and preemption.

    `filters` holds each filter's verdicts on all nodes, also where an earlier filter rejected the node in the cycle.
    `score_error` is the error of scoring the only feasible node, which kube-scheduler binds without scoring.
    """
    trace, runs, version = result.trace, list(filters), profile.rules.version
    name = nodes.names
    evaluated, feasible = np.flatnonzero(trace.evaluated).tolist(), np.flatnonzero(trace.feasible).tolist()
    outcome: Json = {
        "preFilter": {"code": "Success"},
        "filterOrder": [plugin.name for plugin in profile.filter],
        "scoreOrder": [plugin.name for plugin in profile.score],
        "skippedFilters": [run.plugin for run in trace.filters if run.skipped],
        "skippedScores": [run.plugin for run in trace.scores if run.normalized is None],
        "feasible": [name[slot] for slot in feasible] or None,
        "filters": {name[slot]: row for slot in evaluated if (row := _verdicts(runs, slot, version))},
        "firstFailure": {
            name[slot]: {
                "plugin": (run := trace.filters[int(trace.first[slot])]).plugin,
                **verdict_document(filter_status(run.plugin, run.verdicts.verdict_at(slot)), version),
            }
            for slot in evaluated
            if trace.first[slot] >= 0
        },
        "scores": {run.plugin: _points(run, name, feasible) for run in trace.scores if run.normalized is not None},
    }
    if trace.pre_filters:
        last = trace.pre_filters[-1]
        outcome["preFilter"] = {"plugin": last.plugin, **verdict_document(last.verdict, version)}
    if trace.restricted_by:
        outcome["preFilterNodes"] = [name[slot] for slot in evaluated]
    if trace.totals is not None:
        outcome["totals"] = {name[slot]: int(trace.totals[slot]) for slot in feasible}
    if result.message:
        outcome["cycleError" if result.path is DecisionPath.ERROR else "fitError"] = result.message
    if score_error:
        outcome["cycleError"] = score_error
    attempt = result.state.find(ClaimsOfAttempt)
    if attempt is not None and "cycleError" not in outcome:
        outcome |= _build_allocations(attempt, outcome["feasible"] or ())
    if trace.post_filters:
        last, candidate = trace.post_filters[-1], trace.preemption
        outcome["preemption"] = {"code": last.verdict.code.label, "message": join_reasons(last.verdict, version)}
        if candidate is not None:
            nominated = next(c for c in candidate.candidates if c.node == candidate.nominated_node)
            outcome["preemption"] |= {"nominatedNode": candidate.nominated_node, "victims": list(nominated.victims)}
        if attempt is not None and attempt.writes:
            outcome["preemption"]["claimWrites"] = attempt.writes
    return outcome


def _verdicts(filters: Iterable[FilterRun], slot: int, version: KubernetesVersion) -> Json:
    return {
        run.plugin: verdict_document(v, version)
        for run in filters
        if (v := run.verdicts.verdict_at(slot)).code is not Code.SUCCESS
    }


def verdict_document(verdict: Verdict, version: KubernetesVersion) -> Json:
    """Return a verdict as JSON: the code, and the sentences of its reasons in that version of kube-scheduler."""
    return {"code": verdict.code.label, "reasons": [reasons.format_reason(r, version) for r in verdict.reasons]}


def _points(run: ScoreRun, names: list[str], feasible: Iterable[int]) -> Json:
    assert run.raw is not None
    assert run.normalized is not None
    return {
        "raw": {names[slot]: int(run.raw[slot]) for slot in feasible},
        "normalized": {names[slot]: int(run.normalized[slot]) for slot in feasible},
        "weight": run.weight,
    }


def _build_allocations(attempt: ClaimsOfAttempt, nodes: Iterable[str]) -> Json:
    """Return the allocations on the feasible nodes, their node selectors, and the requests for extended resources."""
    allocations, selectors, requests = {}, {}, {}
    consumes = _index_counters(attempt)
    for node in nodes:
        allocation = attempt.nodes.get(node, NodeAllocation(()))
        claims = [attempt.claims[i] for i in attempt.to_allocate()]
        pairs = list(zip(claims, allocation.results, strict=False))
        allocations[node] = [
            _describe_device(claim, result, consumes) for claim, got in pairs for result in got.devices.results or ()
        ]
        selectors[node] = {
            claim.metadata.name: None if got.node_selector is None else to_json(got.node_selector)
            for claim, got in pairs
        }
        if allocation.extended_claim is not None and allocation.extended_claim.spec.devices.requests:
            requests[node] = [to_json(request) for request in allocation.extended_claim.spec.devices.requests]
    outcome: Json = {"allocations": allocations, "allocationNodeSelectors": selectors}
    return {key: value for key, value in {**outcome, "extendedResourceRequests": requests}.items() if value}


def _describe_device(claim: ResourceClaim, result: DeviceResult, consumes: dict[tuple[str, str, str], Json]) -> Json:
    fields = {"claim": claim.metadata.name, **to_json(result)}
    fields.pop("shareID", None)
    if result.share_id is not None:
        fields["shared"] = True
    fields.pop("bindingFailureConditions", None)
    counters = consumes.get((result.driver, result.pool, result.device))
    return fields | ({"consumesCounters": counters} if counters else {})


def _index_counters(attempt: ClaimsOfAttempt) -> dict[tuple[str, str, str], Any]:
    if attempt.allocator is None:
        return {}
    devices = (device for each in attempt.allocator.slices for device in each.devices)
    return {
        device.id: to_json(device.device.consumes_counters) for device in devices if device.device.consumes_counters
    }
