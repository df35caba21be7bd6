"""Groups log entries into scheduling attempts: which lines belong together, and when an attempt is complete.

Lines carry their pod's name, so lines of other pods may come in between. An attempt ends with the line that has the
result of its binding. After `no fit` come lines about preemption and the queue, so the attempt is kept for GRACE_US of
the log's own time, or until the pod's next attempt. That one may start before the last victim is logged, because the
deletion of a victim requeues the pod: an attempt with unnamed victims is then kept until they are named, or for
GRACE_US.

Messages and keys are those of v1.31 to v1.36; where versions differ, a comment at the message names them.

Invariant: memory is bounded by MOST_OPEN attempts; an attempt without an end in the log is counted, not recorded.
Sequence numbers and the order of nodes follow from the lines alone, not from when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from herodotus_record import reasons
from herodotus_record.model import Code, Reason, Verdict
from scheduler.offline.read_log.lines import Entry

MOST_OPEN: Final = 10_000  # pods between decision and binding: kube-scheduler at 500/s with 20 s of volume binding
GRACE_US: Final = 10_000_000  # preemption's last line comes when the victims are deleted, not gone: well within it
MOST_VICTIMS: Final = 1_000
MOST_COUNTED: Final = 200_000  # pods whose attempts are numbered; 100 bytes each

_FIT_ERROR: Final = re.compile(r"0/(\d+) nodes are available")


@dataclass
class LoggedAttempt:
    """The fields of one scheduling attempt that the log has shown so far.

    Times are microseconds since the epoch. A field that is None was not logged.
    """

    pod: str  # NAMESPACE/NAME
    number: int = 1  # of the pod's attempts in this log
    sequence: int = 0  # of its decision, given when it ends; its outcome, where a node was chosen, has the next
    first_us: int = 0  # its first line
    started: bool = False  # whether that is the line that says that the attempt starts
    profile: str = ""
    rejected: dict[str, tuple[str, Verdict]] = field(default_factory=dict)  # node -> filter and what it said
    scores: dict[str, dict[str, int]] = field(default_factory=dict)  # plugin -> node -> weighted points
    extended: dict[str, dict[str, int]] = field(default_factory=dict)  # extender -> node -> its own score
    totals: dict[str, int] = field(default_factory=dict)
    in_post_filter: bool = False
    node: str = ""  # chosen
    evaluated: int | None = None
    feasible: int | None = None
    total: int | None = None
    binding_us: int | None = None
    ended_us: int | None = None
    bound: bool = False
    failed: bool = False  # chosen, and binding failed
    error: bool = False  # ended by an error, not by nodes that do not fit
    message: str = ""
    hint: str = ""  # the node that kube-scheduler took from an earlier pod's ranking, to look at first
    nominated: str = ""
    victims: list[str] = field(default_factory=list)
    victims_announced: int | None = None
    queue: str = ""

    @property
    def misses_victims(self) -> bool:
        """Whether the log may still name victims that this attempt's pod preempts."""
        return bool(self.nominated) and (self.victims_announced is None or self.victims_announced > len(self.victims))


@dataclass
class LoggedWeights:
    """The weight of each score plugin by name, as kube-scheduler logs them at start; None if profiles differ in it."""

    by_plugin: dict[str, int | None] = field(default_factory=dict)

    def learn(self, plugins: Any) -> None:
        """Store the weights of one profile's score plugins.

        `plugins` is the logged value {"Score": {"Enabled": [{"Name", "Weight"}]}}; any other value is ignored.
        """
        try:
            listed = [(str(p["Name"]), p["Weight"]) for p in plugins["Score"]["Enabled"] or ()]
        except (TypeError, KeyError):
            return
        for name, weight in listed:
            if isinstance(weight, int) and weight > 0:
                self.by_plugin[name] = weight if self.by_plugin.get(name, weight) == weight else None


class AttemptAssembler:
    """Groups the entries of kube-scheduler's log into scheduling attempts, and yields each when it is complete."""

    def __init__(self, node_named: Callable[[str], object], node_removed: Callable[[str], object]) -> None:
        """Start without entries.

        The callbacks get the name of each node that the log mentions or reports as removed.
        """
        self.unfinished = 0
        self.weights = LoggedWeights()
        self.version = ""
        self._open: dict[str, LoggedAttempt] = {}  # by pod, the oldest first
        self._over: dict[str, LoggedAttempt] = {}  # of those: the log may still name their preemption and queue
        self._evicting: dict[str, LoggedAttempt] = {}  # by pod: over, its pod tried again, and victims not named yet
        self._numbers: dict[str, int] = {}
        self._node_named = node_named
        self._node_removed = node_removed
        self._clock_us = 0
        self._sequence = 0

    def feed(self, entry: Entry) -> Iterator[LoggedAttempt]:
        """Take the next log entry, and yield the attempts that are complete now."""
        self._clock_us = max(self._clock_us, entry.at_us)
        yield from self._settled(self._clock_us - GRACE_US)
        if entry.message in _OF_THE_SCHEDULER:
            yield from self._of_the_scheduler(entry)
            return
        pod = entry.text("pod") or entry.text("preemptor")
        if "/" not in pod:
            return
        if entry.message in _AFTERWARDS and not _is_within_attempt(entry):
            yield from self._afterwards(pod, entry)
            return
        starts = entry.message == STARTS
        if pod in self._over or (starts and pod in self._open):
            yield from self._followed(pod)
        attempt = self._open.get(pod) or self._opened(pod, entry, starts)
        if len(self._open) > MOST_OPEN:
            yield from self._close(next(iter(self._open)))
        if not starts:
            _OF_AN_ATTEMPT[entry.message](attempt, entry)
            if entry.text("node"):
                self._node_named(entry.text("node"))
        if attempt.ended_us is not None:
            self._over[pod] = attempt
            attempt.sequence = self._sequence + 1
            self._sequence += 2 if attempt.node else 1
            if attempt.node or attempt.error:
                yield from self._close(pod)

    def settled(self) -> Iterator[LoggedAttempt]:
        """Yield the attempts that have ended and were not yielded yet.

        Call it when the log was quiet, so that no more lines about them will come.
        """
        yield from self._settled(self._clock_us)

    def end(self) -> Iterator[LoggedAttempt]:
        """Yield the attempts that have ended and were not yielded yet. Call it at the end of the log.

        Attempts whose end is not in the log are only counted.
        """
        yield from self._given_up(list(self._evicting))
        for pod in list(self._open):
            yield from self._close(pod)

    def _afterwards(self, pod: str, entry: Entry) -> Iterator[LoggedAttempt]:
        """Apply an entry about a pod's preemption or queue to the pod's attempt.

        Yield the attempt if that completes it.
        """
        evicting = self._evicting.get(pod)
        if entry.message in _OF_PREEMPTION and evicting is not None and entry.text("node") in ("", evicting.nominated):
            _AFTERWARDS[entry.message](evicting, entry)
            if not evicting.misses_victims:
                yield from self._given_up([pod])
        elif pod in self._open:
            _AFTERWARDS[entry.message](self._open[pod], entry)

    def _followed(self, pod: str) -> Iterator[LoggedAttempt]:
        """Yield the pod's current attempt, which is complete because the pod's next attempt starts.

        If the log has not named all victims of the attempt yet, keep it until it does, and yield nothing.
        """
        attempt = self._over.get(pod)
        if attempt is None or not attempt.misses_victims:
            yield from self._close(pod)
            return
        if pod in self._evicting or len(self._evicting) >= MOST_OPEN:
            yield from self._given_up([pod if pod in self._evicting else next(iter(self._evicting))])
        del self._open[pod], self._over[pod]
        self._evicting[pod] = attempt

    def _given_up(self, pods: Iterable[str]) -> Iterator[LoggedAttempt]:
        """Yield and remove the attempts of these pods that were kept until the log names all their victims."""
        for pod in pods:
            yield self._evicting.pop(pod)

    def _settled(self, until_us: int) -> Iterator[LoggedAttempt]:
        yield from self._given_up(
            [pod for pod, attempt in self._evicting.items() if (attempt.ended_us or 0) <= until_us]
        )
        for pod, attempt in list(self._over.items()):
            assert attempt.ended_us is not None  # that is what makes it over
            if attempt.ended_us > until_us:
                return
            yield from self._close(pod)

    def _opened(self, pod: str, entry: Entry, started: bool) -> LoggedAttempt:
        number = self._numbers.pop(pod, 0) + 1
        self._numbers[pod] = number
        if len(self._numbers) > MOST_COUNTED:
            del self._numbers[next(iter(self._numbers))]
        attempt = self._open[pod] = LoggedAttempt(pod, number, first_us=entry.at_us, started=started)
        return attempt

    def _close(self, pod: str) -> Iterator[LoggedAttempt]:
        attempt = self._open.pop(pod)
        self._over.pop(pod, None)
        if attempt.ended_us is None:
            self.unfinished += 1
        else:
            yield attempt

    def _of_the_scheduler(self, entry: Entry) -> Iterator[LoggedAttempt]:
        match entry.message:
            case "Starting Kubernetes Scheduler":
                yield from self.end()  # a scheduler before it, in the same file
                self.version = entry.text("version")
            case "the scheduler starts to work with those plugins":
                self.weights.learn(entry.values.get("Plugins"))
            case message if message in _NODE_ADDED and entry.text("node"):
                self._node_named(entry.text("node"))
            case message if message in _NODE_REMOVED:
                self._node_removed(entry.text("node"))


def _taint(attempt: LoggedAttempt, entry: Entry) -> None:
    taint = entry.values.get("untoleratedTaint")
    parameters = (
        {k: str(taint[k]) for k in ("key", "value", "effect") if taint.get(k)} if isinstance(taint, dict) else {}
    )
    _reject(
        attempt, entry, "TaintToleration", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Reason("untolerated-taint", parameters)
    )


def _spread_label(attempt: LoggedAttempt, entry: Entry) -> None:
    reason = Reason("spread-label", {"key": entry.text("topologyKey") or entry.text("label")})
    _reject(attempt, entry, "PodTopologySpread", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)


def _spread(attempt: LoggedAttempt, entry: Entry) -> None:
    here, own = entry.number("matchNum"), entry.number("selfMatchNum")
    fewest, skew = entry.number("minMatchNum"), entry.number("maxSkew")
    if here is None or own is None or fewest is None or skew is None:
        return
    parameters = {
        "key": entry.text("topologyKey"),
        "pods": str(here + own),
        "fewest": str(fewest),
        "maxSkew": str(skew),
    }
    _reject(attempt, entry, "PodTopologySpread", Code.UNSCHEDULABLE, Reason("spread", parameters))


def _reject(attempt: LoggedAttempt, entry: Entry, plugin: str, code: Code, reason: Reason) -> None:
    """Record in the attempt that a filter rejected the entry's node. Only the first rejection of a node counts.

    Entries from preemption are ignored, because there the filter ran on a changed node.
    """
    if entry.text("node") and not attempt.in_post_filter and not entry.text("logger").startswith("PostFilter"):
        attempt.rejected.setdefault(entry.text("node"), (plugin, Verdict(code, (reason,))))


def _in_post_filter(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.in_post_filter = True


def _profile(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.profile = entry.text("profile")


def _hint(attempt: LoggedAttempt, entry: Entry) -> None:
    _profile(attempt, entry)
    attempt.hint = entry.text("hint")


def _plugin_score(attempt: LoggedAttempt, entry: Entry) -> None:
    _score(attempt.scores, entry, "plugin")


def _extender_score(attempt: LoggedAttempt, entry: Entry) -> None:
    _score(attempt.extended, entry, "extender")


def _score(scores: dict[str, dict[str, int]], entry: Entry, by: str) -> None:
    node, points = entry.text("node"), entry.number("score")
    if node and entry.text(by) and points is not None:
        scores.setdefault(entry.text(by), {})[node] = points


def _total(attempt: LoggedAttempt, entry: Entry) -> None:
    node, points = entry.text("node"), entry.number("score")
    if node and points is not None:
        attempt.totals[node] = points


def _binding(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.node, attempt.binding_us = entry.text("node"), entry.at_us


def _bound(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.node, attempt.bound, attempt.ended_us = entry.text("node"), True, entry.at_us
    attempt.evaluated, attempt.feasible = entry.number("evaluatedNodes"), entry.number("feasibleNodes")
    if not attempt.node:
        attempt.ended_us = None  # says that it ended, and not how


def _no_fit(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.message, attempt.ended_us = entry.text("err"), entry.at_us
    attempt.failed = bool(attempt.node)
    counts = _FIT_ERROR.match(attempt.message)
    attempt.total = int(counts[1]) if counts and len(counts[1]) < 9 else None


def _no_nodes(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.message, attempt.ended_us = reasons.format_reason(Reason("no-nodes")), entry.at_us
    attempt.total = 0


def _error(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.message, attempt.ended_us, attempt.error = entry.text("err"), entry.at_us, True
    attempt.failed = bool(attempt.node)


def _nominate(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.in_post_filter = True
    attempt.nominated = entry.text("node")


def _victims(attempt: LoggedAttempt, entry: Entry) -> None:
    attempt.victims_announced = entry.number("numVictims")


def _is_within_attempt(entry: Entry) -> bool:
    """Return whether the entry is about a victim that is evicted before the attempt ends, as always in v1.31.

    Such entries name the pod of the attempt; entries about asynchronous evictions do not.
    """
    return entry.message in _VICTIMS and bool(entry.text("pod"))


def _victim(attempt: LoggedAttempt, entry: Entry) -> None:
    victim = entry.text("victim") or entry.text("waitingPod") or entry.text("podInPreBind")
    if victim and victim not in attempt.victims and len(attempt.victims) < MOST_VICTIMS:
        attempt.victims.append(victim)
    if _is_within_attempt(entry):
        attempt.nominated = attempt.nominated or entry.text("node")
        attempt.victims_announced = len(attempt.victims)


def _queue(attempt: LoggedAttempt, entry: Entry) -> None:
    if attempt.ended_us is not None and entry.text("event") == "ScheduleAttemptFailure":
        attempt.queue = entry.text("queue").lower()


STARTS: Final = "Attempting to schedule pod"
_Takes = Callable[[LoggedAttempt, Entry], None]

_VICTIMS: Final[dict[str, _Takes]] = dict.fromkeys(
    (
        "Preemptor Pod preempted victim Pod",
        "Victim Pod is already deleted",  # since v1.32
        "Victim Pod is already being deleted, skipping the API call for it",  # since v1.35
        "Preemptor pod rejected a waiting pod",  # up to v1.35
        "Preemptor preempted a waiting pod",  # since v1.36
        "Preemptor rejected a pod in preBind",  # since v1.36
    ),
    _victim,
)
# Each message of schedule_one.go, preemption.go and the filters' files that says something of a decision.
_OF_AN_ATTEMPT: Final[dict[str, _Takes]] = {
    STARTS: lambda attempt, entry: None,
    "OpportunisticBatch no node hint available for pod": _profile,  # since v1.35
    "OpportunisticBatch provided node hint": _hint,
    "node had untolerated taints": _taint,  # since v1.34
    "Node doesn't have required topology label for spread constraint": _spread_label,
    "Node doesn't have required label": _spread_label,  # up to v1.32
    "Node failed spreadConstraint: matchNum + selfMatchNum - minMatchNum > maxSkew": _spread,
    "Check the potential node for preemption": _in_post_filter,  # this and the next since v1.32
    "the target node for the preemption is determined": _nominate,
    "Plugin scored node for pod": _plugin_score,
    "Extender scored node for pod": _extender_score,
    "Calculated node's final score for pod": _total,
    "Attempting to bind pod to node": _binding,
    "Successfully bound pod to node": _bound,
    "Unable to schedule pod; no fit; waiting": _no_fit,
    "Unable to schedule pod; no nodes are registered to the cluster; waiting": _no_nodes,
    "Error scheduling pod; retrying": _error,
    **_VICTIMS,
}
_OF_PREEMPTION: Final[dict[str, _Takes]] = {"Start the preemption asynchronously": _victims, **_VICTIMS}
# They may come after the attempt's end, and never open one.
_AFTERWARDS: Final[dict[str, _Takes]] = {**_OF_PREEMPTION, "Pod moved to an internal scheduling queue": _queue}
_NODE_ADDED: Final = ("Added node to NodeTree", "Added node in listed group to NodeTree")  # the latter in v1.31
_NODE_REMOVED: Final = ("Removed node from NodeTree", "Removed node in listed group from NodeTree")
_OF_THE_SCHEDULER: Final = frozenset(
    {
        "Starting Kubernetes Scheduler",
        "the scheduler starts to work with those plugins",
        *_NODE_ADDED,
        *_NODE_REMOVED,
    }
)
MESSAGES: Final = frozenset(_OF_AN_ATTEMPT) | frozenset(_AFTERWARDS) | _OF_THE_SCHEDULER
