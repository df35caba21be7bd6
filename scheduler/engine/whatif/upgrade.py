"""Which decisions would be others under the rules of another version of Kubernetes, and by which rule.

    compare_versions(state, question, report) -> UpgradeReview, notes

Every pod is decided alone, as if it had no node, once by the present rules and once by those of the other version. The
cluster stays as it is: the review compares decisions, and not what follows if all pods were created anew.

Owns: the choice of pods, the comparison, and the rule that causes a difference. Does not own: a single decision
(`engine.cycle`), the rules (`engine.rules`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np

from herodotus_answers.cluster_questions import UpgradeQuestion
from herodotus_answers.cluster_review import UpgradedDecisions, UpgradedRule, UpgradeReview
from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import DecisionPath
from herodotus_record.notes import list_missing_rules
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import FINISHED_PHASES, PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.progress import ProgressReport
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import GATES_BY_NAME
from scheduler.engine.rules.version_rules import VERSION_RULES
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.owners import find_workload
from scheduler.engine.whatif.simulation import WhatIfState

FITS_NO_MORE, FITS_NOW, NODE_REJECTS = "FitsNoMore", "FitsNow", "NodeRejects"
OTHER_NODE, MAY_MOVE, OTHER_MESSAGE = "OtherNode", "MayMove", "OtherMessage"
MAX_EXAMPLES: Final = 5  # best nodes that an answer names
MAX_EXPLAINED: Final = 50  # differences whose rule is searched: each rule decides each of them again
_SEED: Final = 0  # which of equally good nodes is drawn plays no role


class UpgradeError(ValueError):
    """A question about another version that cannot be answered. The message says why."""


class _Subject(NamedTuple):
    """A pod that is decided: `node` is where it is, or "" if it waits."""

    pod: Pod
    workload: str
    node: str


class _Outcome(NamedTuple):
    """What the decision on a pod says: which nodes are best, as a packed mask, and whether its own node fits."""

    best: bytes
    own_node_fits: bool
    message: str

    @property
    def fits(self) -> bool:
        return any(self.best)

    def list_best(self, nodes: NodeColumns) -> list[str]:
        """Return the names of the best nodes, at most `MAX_EXAMPLES` of them."""
        mask = np.unpackbits(np.frombuffer(self.best, np.uint8), count=nodes.slots)
        return [nodes.names[slot] for slot in np.flatnonzero(mask)[:MAX_EXAMPLES].tolist()]


@dataclass
class _Difference:
    """The pods of one workload whose decisions differ in one way; the first stands for all of them."""

    subject: _Subject
    kind: str
    before: _Outcome
    after: _Outcome
    pods: int = 0
    causes: list[str] = field(default_factory=list)


def compare_versions(
    state: WhatIfState, question: UpgradeQuestion, report: ProgressReport
) -> tuple[UpgradeReview, list[str]]:
    """Decide pods by the present rules and by those of another version, and return the differences and notes.

    It changes how `state` counts pods on nodes, so the state cannot be used for other decisions afterwards. Raises
    UpgradeError for an unknown version, or one in which a configured feature gate does not exist.
    """
    if state.rebuild is None:
        raise UpgradeError("upgrade: this process cannot decide by the rules of another version")
    before = state.rules
    try:
        after = Rules.from_settings(state.feature_gates, KubernetesVersion.parse(question.to))
    except ValueError as e:
        raise UpgradeError(f"upgrade: {e}") from e
    subjects, total = _choose_pods(state, question.pods_per_workload)
    comparison = _Comparison(state, report, 2 * len(subjects))
    earlier = list(comparison.decide(subjects, before))
    differences: dict[tuple[str, str, str], _Difference] = {}
    for subject, old, new in zip(subjects, earlier, comparison.decide(subjects, after), strict=True):
        kind = _compare(subject, old, new)
        if kind:
            key = (subject.pod.metadata.namespace, subject.workload, kind)
            differences.setdefault(key, _Difference(subject, kind, old, new)).pods += 1
    changed = list(_list_changed_rules(before, after))
    explained = [each for each in differences.values() if each.kind != OTHER_MESSAGE][:MAX_EXPLAINED]
    comparison.explain(explained, before, after, [rule["name"] for rule in changed])
    review: UpgradeReview = {
        "fromVersion": str(before.version),
        "toVersion": str(after.version),
        "pods": total,
        "decided": len(subjects),
        "changes": [_describe(each, state.nodes) for each in sorted(differences.values(), key=_rank)],
        "rules": changed,
    }
    return review, [*comparison.notes]


class _Comparison:
    """Decides the same pods by several rules on one cluster."""

    def __init__(self, state: WhatIfState, report: ProgressReport, total: int) -> None:
        self._state, self._report, self._total = state, report, total
        self._claims = SimulatedClaims(state.objects)
        self._done = 0
        self.notes: dict[str, None] = {}  # sentences on rules that some decided pod lacks, in order

    def decide(self, subjects: Iterable[_Subject], rules: Rules) -> Iterator[_Outcome]:
        """Yield the outcome of each subject under these rules, in order."""
        assert self._state.rebuild is not None
        find_framework = self._state.rebuild(rules)
        frameworks: dict[str, Framework] = {}
        for subject in subjects:
            name = subject.pod.spec.scheduler_name
            if name not in frameworks:
                frameworks[name] = find_framework(name)
                frameworks[name].prepare(self._state.nodes)
            yield self._decide(subject, frameworks[name])
            self._done += 1
            self._report(min(self._done, self._total), self._total)

    def _decide(self, subject: _Subject, framework: Framework) -> _Outcome:
        """Return the outcome for a pod as if it had no node; its node and claims are restored afterwards."""
        nodes, claims = self._state.nodes, self._claims
        spec = msgspec.structs.replace(subject.pod.spec, node_name="")
        pod = PodInfo(msgspec.structs.replace(subject.pod, spec=spec))
        if subject.node:
            nodes.remove_pod(pod.uid, subject.node)
            claims.release(pod, deletes_generated=False)
        try:
            result = schedule_regardless_of_group(framework, pod, Snapshot.from_columns(nodes), _SEED)
        finally:
            if subject.node:
                claims.undo(0)
                nodes.add_pod(PodInfo(subject.pod, running=True), subject.node)
        self.notes.update(dict.fromkeys(list_missing_rules(result.trace.notes)))
        own = nodes.index.get(subject.node)
        fits = own is not None and bool(result.trace.feasible[own]) and result.path is not DecisionPath.ERROR
        return _Outcome(_pack_best(result), fits, result.message)

    def explain(self, differences: Sequence[_Difference], before: Rules, after: Rules, names: Iterable[str]) -> None:
        """Add to each difference's `causes` the rules in `names` that alone remove it if set as in `before`.

        `after` holds the other version's rules.
        """
        subjects = [each.subject for each in differences]
        for name in names if differences else ():
            without = after.replace(name, before.enabled(name))
            for each, outcome in zip(differences, self.decide(subjects, without), strict=True):
                if _compare(each.subject, each.before, outcome) != each.kind:
                    each.causes.append(name)


def _pack_best(result: CycleResult) -> bytes:
    """Return a packed bit mask, by node slot, of the feasible nodes with the highest total; empty after an error."""
    trace = result.trace
    best = trace.feasible.copy()
    if result.path is DecisionPath.ERROR:
        best[:] = False
    elif trace.totals is not None and best.any():
        best &= trace.totals == trace.totals[best].max()
    return np.packbits(best).tobytes()


def _compare(subject: _Subject, old: _Outcome, new: _Outcome) -> str:
    """Return the kind of the difference between the decisions on a pod, or "" if they are equal."""
    if old.fits != new.fits:
        return FITS_NOW if new.fits else FITS_NO_MORE
    if subject.node and old.own_node_fits and not new.own_node_fits:
        return NODE_REJECTS
    if old.best != new.best:
        shared = np.frombuffer(old.best, np.uint8) & np.frombuffer(new.best, np.uint8)
        return MAY_MOVE if shared.any() else OTHER_NODE
    return OTHER_MESSAGE if old.message != new.message else ""


def _choose_pods(state: WhatIfState, per_workload: int) -> tuple[list[_Subject], int]:
    """Return the pods to decide, at most `per_workload` of each workload (0: all), and the number of candidates."""
    chosen: list[_Subject] = []
    counts: dict[tuple[str, str], int] = defaultdict(int)
    total = 0
    for pod, node in _list_pods(state):
        total += 1
        workload = str(find_workload(pod, state.objects) or "")
        key = (pod.metadata.namespace, workload or pod.metadata.name)
        counts[key] += 1
        if not per_workload or counts[key] <= per_workload:
            chosen.append(_Subject(pod, workload, node))
    return chosen, total


def _list_pods(state: WhatIfState) -> Iterator[tuple[Pod, str]]:
    """Yield the waiting pods, each with "", then those on nodes, each with its node's name.

    Pods that are finished, in deletion or have scheduling gates are skipped.
    """
    yield from ((pod.pod, "") for pod in state.list_waiting())
    nodes = state.nodes
    for slot in np.flatnonzero(nodes.live[: nodes.slots]).tolist():
        for info in list(nodes.pods[slot].values()):
            if not info.terminating and info.pod.status.phase not in FINISHED_PHASES:
                yield info.pod, nodes.names[slot]


def _list_changed_rules(before: Rules, after: Rules) -> Iterator[UpgradedRule]:
    """Yield the version rules and feature gates whose values differ between the two versions."""
    plugins: Mapping[str, tuple[str, str]] = {rule.name: (rule.plugin, rule.effect) for rule in VERSION_RULES} | {
        name: ("", gate.effect) for name, gate in GATES_BY_NAME.items()
    }
    for name, (plugin, effect) in plugins.items():
        if before.enabled(name) != after.enabled(name):
            yield {"name": name, "plugin": plugin, "enabled": after.enabled(name), "effect": effect}


def _rank(difference: _Difference) -> tuple[int, int]:
    """Return a sort key that puts the most serious kind of difference first, then the one with the most pods."""
    kinds = (FITS_NO_MORE, NODE_REJECTS, FITS_NOW, OTHER_NODE, MAY_MOVE, OTHER_MESSAGE)
    return kinds.index(difference.kind), -difference.pods


def _describe(difference: _Difference, nodes: NodeColumns) -> UpgradedDecisions:
    subject, before, after = difference.subject, difference.before, difference.after
    return {
        "namespace": subject.pod.metadata.namespace,
        "owner": subject.workload,
        "change": difference.kind,
        "pods": difference.pods,
        "name": subject.pod.metadata.name,
        "node": subject.node,
        "bestBefore": before.list_best(nodes),
        "bestAfter": after.list_best(nodes),
        "messageBefore": before.message,
        "messageAfter": after.message,
        "rules": difference.causes,
    }
