"""Follows the execution of a plan on the cluster, for `plan --watch`: prints each step when it is over.

Owns: choosing the plan, the lines, the end. Does not own: what counts as over or left (`plan_execution`), watching
(`object_watch`), the question for the plan (`cluster_review`).

Invariant: only GET requests reach the API server. A deviation is reported only if it holds for lists that are read
after it was seen, because pods and nodes are watched apart and one may be behind the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from herodotus_answers.plans import NOTHING_TO_DO, PREEMPTING, RESIZE, list_drain_steps
from herodotus_cli.cluster_view import NODES, PODS, ClusterView
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment
from herodotus_cli.errors import CliError, ServerError
from herodotus_cli.object_watch import LISTED, ObjectChange, ObjectWatch, list_objects
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.plan_execution import (
    DEVIATED,
    DONE,
    FINISHED,
    FOLLOWED,
    NOTE,
    PROGRESS,
    ExecutionEvent,
    PlanExecution,
)
from herodotus_cli.render.plan import describe_step
from herodotus_cli.transport import open_proxy
from herodotus_cli.transport.kubectl_proxy import KubectlProxy

Json = dict[str, Any]
_RESOURCES = (PODS, NODES)
_TICK_S = 1.0  # how often waiting times are checked without a change
_SIGNS = {DONE: "✓", FINISHED: "✓", PROGRESS: "·", NOTE: "!", DEVIATED: "✗"}


class ChosenPlan(NamedTuple):
    """The plan to follow, its name KIND/NUMBER, and the names of plans shown before it that cannot be followed."""

    plan: Json
    name: str = ""
    skipped: Sequence[str] = ()


def choose_plan(review: Json, chosen: str) -> ChosenPlan | None:
    """Return the plan to follow: the first that can be followed, or that of `chosen`, as KIND or KIND/NUMBER.

    Returns None if no plan is needed. Raises CliError if there is no such plan or it has a step that cannot be
    followed.
    """
    if review["verdict"] in (NOTHING_TO_DO, PREEMPTING):
        return None
    if review["drain"] is not None and review["drain"]["nodes"]:
        return ChosenPlan({"steps": list_drain_steps(review["drain"]), "targets": []})
    plans: dict[str, Json] = {
        f"{kind['kind']}/{number}": plan for kind in review["kinds"] for number, plan in enumerate(kind["plans"], 1)
    }
    if not plans:
        raise CliError("error: there is no plan to follow")
    if chosen:
        name = chosen if "/" in chosen else f"{chosen}/1"
        if name not in plans:
            raise CliError(f'error: --follow: there is no plan "{chosen}"', [f"choose one of them: {', '.join(plans)}"])
    else:
        name = next((each for each, plan in plans.items() if not _list_unfollowed(plan)), next(iter(plans)))
    if _list_unfollowed(plans[name]):
        raise CliError(
            f"error: --watch cannot follow the plan {name}: pods and nodes do not show when its step"
            f" {_list_unfollowed(plans[name])[0]} is over",
            ["run its commands and ask again, or allow other changes: --kinds move,scale-down,nodes"],
        )
    return ChosenPlan(plans[name], name, [] if chosen else [*plans][: [*plans].index(name)])


def _list_unfollowed(plan: Json) -> list[str]:
    return [step["kind"] for step in plan["steps"] if step["kind"] not in FOLLOWED]


class PlanWatcher:
    """Follows one plan until it is carried out or the cluster leaves it."""

    def __init__(self, connection: ConnectionSettings, output: OutputOptions, environment: Environment) -> None:
        self._connection, self._output, self._environment = connection, output, environment

    def follow(self, review: Json, chosen: ChosenPlan, pods: Iterable[str]) -> bool:
        """Print what happens until the end, and return whether the plan was carried out.

        `pods` are those of the question as NAMESPACE/NAME; they count for a deferred resize. Raises CliError if the
        cluster cannot be watched.
        """
        plan = chosen.plan
        proxy, view = open_proxy(self._connection, self._environment.environ), ClusterView()
        try:
            _read_all(proxy, view)
        except ServerError as e:
            if e.reason != "Forbidden":
                raise
            raise e.with_hints(["--watch needs list and watch of pods in all namespaces and of nodes"]) from None
        resizes = review["goal"] == RESIZE
        targets = [(each["namespace"], each["name"]) for each in plan["targets"]]
        if resizes:
            targets = [(namespace, name) for namespace, _, name in (each.partition("/") for each in pods)]
        execution = PlanExecution(plan, view, targets, resizes=resizes)
        self._steps = len(plan["steps"])
        watch = ObjectWatch(proxy, _RESOURCES)
        first = f"waits for the first step: {describe_step(plan['steps'][0])}"
        if chosen.skipped:
            note = f"follows the plan {chosen.name}: --watch cannot follow {', '.join(chosen.skipped)}"
            self._print([ExecutionEvent(NOTE, None, note)])
        self._print([ExecutionEvent(PROGRESS, 1, first)])
        while True:
            self._print(execution.advance())
            if execution.is_finished:
                self._print([ExecutionEvent(FINISHED, None, "the plan was carried out")])
                return True
            if execution.find_deviation(time.monotonic()) and _read_again(proxy, view):
                self._print(execution.advance())
                why = execution.find_deviation(time.monotonic())
                if why and not execution.is_finished:
                    deviation = f"the cluster left the plan: {why}"
                    self._print([ExecutionEvent(DEVIATED, execution.current_step, deviation)])
                    return False
                continue
            change = watch.next_change(_TICK_S)
            while change is not None:
                view.apply(change)
                change = watch.next_change(0.0)

    def _print(self, events: Iterable[ExecutionEvent]) -> None:
        for event in events:
            self._environment.out.write(self._format(event))
            self._environment.out.flush()

    def _format(self, event: ExecutionEvent) -> str:
        now = self._environment.now()
        if self._output.format not in SCREEN_FORMATS:
            document = {"time": now.isoformat(timespec="seconds"), "state": event.state, "step": event.step}
            return self._environment.format_document(
                {"kind": "PlanEvent", **document, "steps": self._steps, "message": event.text},
                self._output,
                of_stream=True,
            )
        step = f"{event.step}/{self._steps}" if event.step else ""
        return f"{now:%H:%M:%S}  {_SIGNS[event.state]}  {step:<5}  {event.text}\n"


def _read_all(proxy: KubectlProxy, view: ClusterView) -> None:
    for resource in _RESOURCES:
        view.apply(ObjectChange(resource, LISTED, list_objects(proxy, resource)[0]))


def _read_again(proxy: KubectlProxy, view: ClusterView) -> bool:
    """Read the lists again, and return whether that succeeded; the watches report a failure that lasts."""
    try:
        _read_all(proxy, view)
    except CliError:
        return False
    return True
