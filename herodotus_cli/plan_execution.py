"""Compares the cluster with a plan that is carried out: which steps are over, and whether the cluster left the plan.

    execution = PlanExecution(plan, view, waiting, resizes=False)
    execution.advance() -> events;  execution.find_deviation(now_s) -> why the plan no longer holds, or ""

Owns: what ends each kind of step, and what contradicts the plan. Does not own: the plan and its proof, the state of the
cluster (`cluster_view`), output. Nothing is inferred from commands: only the state of pods and nodes counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from herodotus_cli.cluster_view import ClusterView, PodState, add_amounts

Json = dict[str, Any]
PATIENCE_S = 30.0  # kube-scheduler tries a pod again after at most 10 s, and controllers recreate pods sooner
FOLLOWED = ("Cordon", "Uncordon", "Move", "ScaleDown", "AddNodes", "Drain")
_ENDS_PODS = ("Move", "ScaleDown")
PROGRESS, DONE, NOTE, DEVIATED, FINISHED = "Progress", "Done", "Note", "Deviated", "Finished"


class ExecutionEvent(NamedTuple):
    """An event for the user: progress, the end of a step, a note, a deviation, or the end of the plan.

    `state` is PROGRESS, DONE, NOTE, DEVIATED or FINISHED. `step` counts from 1; None means the pods that are to fit.
    """

    state: str
    step: int | None
    text: str


class ExpectedPod(NamedTuple):
    """A pod that the plan has not placed yet: its name for messages, its requests, and the nodes that it may get."""

    name: str
    requests: Any
    nodes: Sequence[str]


class PlanExecution:
    """The progress of one plan on a cluster, from the moment of its construction on.

    Steps are taken in order: a step counts only after the one before is over.
    """

    def __init__(self, plan: Json, view: ClusterView, waiting: Sequence[tuple[str, str]], *, resizes: bool) -> None:
        """Take the plan's pods from the present state. `waiting` are the pods that are to fit, as namespace and name.

        With `resizes`, they have a node and wait for a resize on it.
        """
        self._view, self._resizes = view, resizes
        self._steps: list[Json] = plan["steps"]
        self._lands = {(each["namespace"], each["name"]): each["landsOn"] for each in plan["targets"]}
        self._missing = ""
        self._pod_of_step: dict[int, PodState] = {}  # the pod that a move or a scale-down deletes
        for i, step in enumerate(self._steps):
            if step["kind"] in _ENDS_PODS:
                pod = view.find_pod(step["namespace"], step["pod"])
                if pod is None or pod.node != step["node"]:
                    self._missing = f"{step['namespace']}/{step['pod']} of step {i + 1} is no longer on {step['node']}"
                else:
                    self._pod_of_step[i] = pod
        self._waiting: dict[str, PodState] = {}
        for namespace, name in waiting:
            pod = view.find_pod(namespace, name)
            if pod is None:
                self._missing = f"{namespace}/{name} no longer exists"
            else:
                self._waiting[pod.uid] = pod
        self._pods_of_drain: dict[int, list[PodState]] = {  # the pods that leave in a drain
            i: _list_movable(view, step["nodes"][0]) for i, step in enumerate(self._steps) if step["kind"] == "Drain"
        }
        self._known = set(view.pods)
        self._noted = {uid for uid, pod in view.pods.items() if pod.node}
        self._nodes_before = set(view.nodes)
        self._aliases: dict[str, str] = {}
        self._current = 0
        self._successor = ""
        self._reported: set[str] = set()
        self._held: set[str] = set()
        self._scaled: set[str] = set()
        self._workloads: dict[int, list[PodState]] = {}  # by ScaleDown step: all pods of the owner when its turn came
        self._since: dict[str, float] = {}

    @property
    def is_finished(self) -> bool:
        """Whether all steps are over and all pods fit."""
        return self._current == len(self._steps) and not self._waiting

    @property
    def current_step(self) -> int | None:
        """The number of the step that is under way, from 1 on, or None after the last."""
        return self._current + 1 if self._current < len(self._steps) else None

    def advance(self) -> Iterator[ExecutionEvent]:
        """Yield what happened since the last call: steps in their order, then pods that fit now."""
        self._learn_pods()
        yield from self._note_others()
        while self._current < len(self._steps):
            step, number = self._steps[self._current], self._current + 1
            events = getattr(self, f"_follow_{step['kind'].lower()}")(step)
            for text in events.progress:
                if text not in self._reported:
                    self._reported.add(text)
                    yield ExecutionEvent(PROGRESS, number, text)
            if events.result is None:
                break
            self._finish_step(step)
            yield ExecutionEvent(DONE, number, events.result)
        for uid, before in list(self._waiting.items()):
            pod = self._view.pods.get(uid)
            if pod is not None and self._fits(pod):
                del self._waiting[uid]
                text = "is resized" if self._resizes else f"is bound to {pod.node}"
                yield ExecutionEvent(DONE, None, f"{before.full_name} {text}")

    def find_deviation(self, now_s: float) -> str:
        """Return why the plan no longer holds, or "". `now_s` is a monotonic time."""
        if self._missing:
            return self._missing
        checks = (self._check_waiting, self._check_order, self._check_drains, self._check_cordons, self._check_scaled)
        found = next(filter(None, (check() for check in checks)), "")
        return found or self._check_step(now_s) or self._check_room()

    def _find_live(self, uid: str) -> PodState | None:
        """Return a pod that holds its place: one that exists and has not ended. None for any other."""
        pod = self._view.pods.get(uid)
        return None if pod is None or pod.is_over else pod

    def _learn_pods(self) -> None:
        """Take the pods that exist before the next step's pods go for no successors, unless theirs was scaled down.

        An autoscaler or a user may create pods of the same owner meanwhile, and earlier drains may have filled a node.
        """
        steps = range(self._current, len(self._steps))
        following = next((i for i in steps if i in self._pod_of_step or i in self._pods_of_drain), None)
        if following is None:
            return
        pods = self._pods_of_drain[following] if following in self._pods_of_drain else [self._pod_of_step[following]]
        live = [self._find_live(pod.uid) for pod in pods]
        if any(pod is None or pod.is_leaving for pod in live):
            return
        self._known.update(uid for uid, each in self._view.pods.items() if each.owner not in self._scaled)
        if following in self._pods_of_drain:
            self._pods_of_drain[following] = _list_movable(self._view, self._steps[following]["nodes"][0])

    def _fits(self, pod: PodState) -> bool:
        if self._resizes:
            return not pod.awaits_resize
        return bool(pod.node) and pod.node in self._resolve(self._lands[pod.namespace, pod.name])

    def _resolve(self, nodes: Sequence[str]) -> list[str]:
        """Return the names of nodes, with those of added nodes in place of the plan's names for them."""
        return [self._aliases.get(each, each) for each in nodes]

    def _finish_step(self, step: Json) -> None:
        if step["kind"] == "Cordon":
            self._held.update(step["nodes"])
        elif step["kind"] == "Uncordon":
            self._held.difference_update(step["nodes"])
        elif step["kind"] == "ScaleDown":
            self._scaled.add(self._pod_of_step[self._current].owner)
        elif step["kind"] == "Drain":
            self._held.update(step["nodes"])
            self._known.update(self._view.pods)
        self._current += 1
        self._successor = ""

    def _follow_cordon(self, step: Json) -> _Progress:
        cordoned = all(each in self._view.nodes and self._view.nodes[each].is_cordoned for each in step["nodes"])
        return _Progress((), f"{', '.join(step['nodes'])} cordoned" if cordoned else None)

    def _follow_uncordon(self, step: Json) -> _Progress:
        nodes = [self._view.nodes.get(each) for each in step["nodes"]]
        free = all(each is not None and not each.is_cordoned for each in nodes)
        return _Progress((), f"{', '.join(step['nodes'])} uncordoned" if free else None)

    def _follow_addnodes(self, step: Json) -> _Progress:
        taken = set(self._aliases.values())
        new = sorted(
            each.name
            for each in self._view.nodes.values()
            if each.name not in self._nodes_before | taken and each.is_ready and not each.is_cordoned
        )
        wanted: list[str] = step["nodes"]
        if len(new) < len(wanted):
            return _Progress(tuple(f"{each} was added" for each in new), None)
        self._aliases |= dict(zip(wanted, new, strict=False))
        return _Progress((), f"{', '.join(new[: len(wanted)])} added")

    def _follow_drain(self, step: Json) -> _Progress:
        node, pods = step["nodes"][0], self._pods_of_drain[self._current]
        left = _list_movable(self._view, node)
        going = [each for each in pods if each.uid not in self._view.pods or self._view.pods[each.uid].is_leaving]
        lines = [f"{len(pods)} pods leave {node}"] if going and len(pods) > 1 else []
        new = self._list_new_pods()
        if left or not self._is_closed(node) or len(new) < self._count_wanted() or not all(p.is_ready for p in new):
            return _Progress(tuple(lines), None)
        lands = Counter(each.node for each in new)
        goes = ", ".join(f"{count} on {name}" for name, count in sorted(lands.items()))
        return _Progress(tuple(lines), f"{node} is empty" + (f"; new pods are Ready: {goes}" if goes else ""))

    def _is_closed(self, node: str) -> bool:
        return node not in self._view.nodes or self._view.nodes[node].is_cordoned

    def _list_new_pods(self) -> list[PodState]:
        """Return the pods that were created in place of those that the current drain displaces."""
        owners = {each.owner for each in self._pods_of_drain[self._current] if each.owner}
        return [p for p in self._view.pods.values() if p.uid not in self._known and p.owner in owners and not p.is_over]

    def _count_wanted(self) -> int:
        """Return how many pods the controllers create in place of those that the current drain displaces."""
        return sum(bool(each.owner) and not each.is_over for each in self._pods_of_drain[self._current])

    def _follow_scaledown(self, _step: Json) -> _Progress:
        pod = self._pod_of_step[self._current]
        live = self._find_live(pod.uid)
        if live is None:
            return _Progress((), f"{pod.full_name} is gone")
        return _Progress((f"{pod.full_name} is being deleted",) if live.is_leaving else (), None)

    def _follow_move(self, step: Json) -> _Progress:
        pod = self._pod_of_step[self._current]
        live = self._find_live(pod.uid)
        if live is not None and not live.is_leaving:
            return _Progress((), None)
        gone = "has ended" if pod.uid in self._view.pods else "is deleted"
        lines = [f"{pod.full_name} {'is being deleted' if live else gone}"]
        successor = self._find_successor(pod, step)
        if successor is None:
            return _Progress(tuple(lines), None)
        if successor.node not in self._resolve(step["landsOn"]):
            return _Progress(tuple(lines), None)
        if live is None and successor.is_ready:
            return _Progress(tuple(lines), f"{successor.full_name} is Ready on {successor.node}")
        return _Progress((*lines, f"{successor.full_name} is bound to {successor.node}"), None)

    def _find_successor(self, pod: PodState, step: Json) -> PodState | None:
        """Return the pod that the controller created in place of a deleted one, or None if there is none yet."""
        if not self._successor:
            ordinal = step["owner"].startswith("StatefulSet/")
            for each in self._view.pods.values():
                fits = each.owner == pod.owner and (each.name == pod.name or not ordinal)
                if each.uid not in self._known and fits and not each.is_over:
                    self._successor = each.uid
                    self._known.add(each.uid)
                    break
        return self._view.pods.get(self._successor)

    def _note_others(self) -> Iterator[ExecutionEvent]:
        """Yield a note for each unknown pod that got a node on which the plan still places pods."""
        nodes = {node for each in self._list_expected() for node in each.nodes}
        owners = {each.owner for each in self._pod_of_step.values() if each.owner}
        for pod in self._view.pods.values():
            if not pod.node or pod.uid in self._noted:
                continue
            self._noted.add(pod.uid)
            foreign = pod.uid not in self._waiting and pod.owner not in owners
            if foreign and pod.node in nodes:
                text = f"{pod.full_name}, which the plan did not count on, was bound to {pod.node}"
                yield ExecutionEvent(NOTE, None, text)

    def _list_expected(self) -> list[ExpectedPod]:
        """Return the pods that the plan still places, without those that are bound where it said."""
        expected = []
        for i in range(self._current, len(self._steps)):
            step = self._steps[i]
            if step["kind"] != "Move" or i not in self._pod_of_step:
                continue
            successor = self._view.pods.get(self._successor) if i == self._current and self._successor else None
            if successor is None or not successor.node:
                pod = self._pod_of_step[i]
                name = f"the new pod of {pod.full_name}"
                expected.append(ExpectedPod(name, pod.requests, self._resolve(step["landsOn"])))
        for pod in self._waiting.values():
            if not self._resizes:
                nodes = self._resolve(self._lands[pod.namespace, pod.name])
                expected.append(ExpectedPod(pod.full_name, pod.requests, nodes))
        return expected

    def _check_waiting(self) -> str:
        for uid, before in self._waiting.items():
            pod = self._view.pods.get(uid)
            if pod is None or pod.is_leaving or pod.is_over:
                return f"{before.full_name} {'was deleted' if pod is None or pod.is_leaving else 'has ended'}"
            if pod.node and not self._resizes and not self._fits(pod):
                promised = " or ".join(self._resolve(self._lands[pod.namespace, pod.name]))
                over = f"; it needs no further step of the plan, but {self._count_held()}" if self._held else ""
                return f"{before.full_name} was bound to {pod.node}, not to {promised}{over}"
        return ""

    def _count_held(self) -> str:
        verb = "is" if len(self._held) == 1 else "are"
        return f"{', '.join(sorted(self._held))} {verb} still cordoned"

    def _check_order(self) -> str:
        for i, pod in self._pod_of_step.items():
            if i > self._current:
                live = self._view.pods.get(pod.uid)
                if live is None or live.is_leaving or live.is_over:
                    what = "ended" if live is not None and live.is_over else "was deleted"
                    return f"{pod.full_name} of step {i + 1} {what} before step {self._current + 1} was over"
        return ""

    def _check_drains(self) -> str:
        """Return which node was drained before its turn, or which drained node got a pod again, or ""."""
        for i, pods in self._pods_of_drain.items():
            node = self._steps[i]["nodes"][0]
            if i > self._current and pods and not any(each.uid in self._view.pods for each in pods):
                return f"{node} of step {i + 1} was drained before step {self._current + 1} was over"
            if i < self._current and node in self._held:
                back = _list_movable(self._view, node)
                if back:
                    return f"{back[0].full_name} was bound to {node}, which was drained"
        return ""

    def _check_cordons(self) -> str:
        step = self._steps[self._current] if self._current < len(self._steps) else None
        opening = step["nodes"] if step is not None and step["kind"] == "Uncordon" else ()
        for name in sorted(self._held.difference(opening)):
            if name in self._view.nodes and not self._view.nodes[name].is_cordoned:
                what = "the plan" if self._current == len(self._steps) else f"step {self._current + 1}"
                return f"{name} was uncordoned before {what} was over"
        return ""

    def _check_scaled(self) -> str:
        moving = {self._pod_of_step[i].owner for i in self._pod_of_step if i >= self._current}
        for pod in self._view.pods.values():
            if pod.owner and pod.owner in self._scaled - moving and pod.uid not in self._known and not pod.is_over:
                return f"{pod.full_name} replaced the pod that was scaled down"
        return ""

    def _check_room(self) -> str:
        """Return which expected pod has no room left on any of its nodes, or which of its nodes are closed."""
        added = {each for step in self._steps[self._current :] if step["kind"] == "AddNodes" for each in step["nodes"]}
        opened = {each for step in self._steps[self._current :] if step["kind"] == "Uncordon" for each in step["nodes"]}
        leaving = {self._pod_of_step[i].uid for i in self._pod_of_step if i >= self._current}
        expected = [each for each in self._list_expected() if not added & {*each.nodes}]
        for each in expected:
            closed = [
                name
                for name in each.nodes
                if name not in self._view.nodes
                or (self._view.nodes[name].is_cordoned and name not in self._held | opened)
            ]
            if len(closed) == len(each.nodes):
                return f"{each.name} cannot land: {', '.join(closed)} is cordoned or gone, which is no step of the plan"
            shortage = self._view.find_shortage(each.requests, each.nodes, leaving)
            if shortage:
                return f"{each.name} has no room any more: {shortage}"
        for node in sorted({each.nodes[0] for each in expected if len(each.nodes) == 1}):
            together = [each for each in expected if [*each.nodes] == [node]]
            shortage = self._view.find_shortage(add_amounts(each.requests for each in together), [node], leaving)
            if shortage:
                return f"{' and '.join(each.name for each in together)} have no room together any more: {shortage}"
        return ""

    def _check_step(self, now_s: float) -> str:
        """Return why the current step failed: its new pod is elsewhere, waits too long, ended, or is not created."""
        if self._current == len(self._steps):
            return self._check_patience(now_s, [self._view.pods[uid] for uid in self._waiting if not self._resizes])
        step = self._steps[self._current]
        if step["kind"] == "Drain":
            return self._check_drain(step, now_s)
        if step["kind"] == "ScaleDown":
            return self._check_scale_down(now_s)
        if step["kind"] != "Move":
            return ""
        pod = self._pod_of_step[self._current]
        successor = self._view.pods.get(self._successor) if self._successor else None
        if successor is None:
            if self._successor:
                return f"the new pod of {pod.full_name} was deleted before it was Ready"
            if self._find_live(pod.uid) or self._wait_for(f"create {pod.uid}", now_s):
                return ""
            return f"no new pod of {step['owner']} in place of {pod.full_name} after {PATIENCE_S:g} s"
        if successor.is_over:
            return f"{successor.full_name} failed on {successor.node}"
        promised = self._resolve(step["landsOn"])
        if successor.node and successor.node not in promised:
            return (
                f"{successor.full_name} in place of {pod.name} was bound to {successor.node}, not to"
                f" {' or '.join(promised)}: {self._explain_consequence()}"
            )
        return "" if self._find_live(pod.uid) else self._check_patience(now_s, [successor])

    def _check_scale_down(self, now_s: float) -> str:
        """Return which pod of the workload was given up instead of the plan's, or ""."""
        pod = self._find_live(self._pod_of_step[self._current].uid)
        if pod is None or pod.is_leaving:
            return ""
        now = [each for each in self._view.pods.values() if each.owner == pod.owner and not each.is_over]
        before = self._workloads.setdefault(self._current, now)
        gone = [each for each in before if each.uid not in self._view.pods]
        if not gone or len(now) >= len(before) or self._wait_for(f"replace {gone[0].uid}", now_s):
            return ""
        return f"{gone[0].full_name} was given up instead of {pod.full_name}"

    def _check_drain(self, step: Json, now_s: float) -> str:
        """Return why the current drain failed: a new pod waits too long, or is not created."""
        node, new = step["nodes"][0], self._list_new_pods()
        missing = self._count_wanted() - len(new)
        if missing > 0 and not _list_movable(self._view, node) and not self._wait_for(f"create {node}", now_s):
            verb = "has" if missing == 1 else "have"
            return f"{missing} of the pods that left {node} {verb} no new pod after {PATIENCE_S:g} s"
        return self._check_patience(now_s, new)

    def _explain_consequence(self) -> str:
        """Return what a pod on another node than promised means for the pods that the plan still places."""
        leaving = {self._pod_of_step[i].uid for i in self._pod_of_step if i > self._current}
        for each in self._list_expected():
            shortage = self._view.find_shortage(each.requests, each.nodes, leaving)
            if shortage:
                return f"{each.name} has no room any more: {shortage}"
        return "the rest of the plan was not proven for that"

    def _check_patience(self, now_s: float, pods: Sequence[PodState]) -> str:
        """Return the message of a pod for which no node fits for PATIENCE_S seconds, or ""."""
        for pod in pods:
            if pod.rejected and not pod.node and not self._wait_for(f"bind {pod.uid}", now_s):
                return f"{pod.full_name} stays Pending: {pod.rejected}"
        return ""

    def _wait_for(self, what: str, now_s: float) -> bool:
        """Return whether PATIENCE_S seconds have not passed since the first call for `what`."""
        return now_s - self._since.setdefault(what, now_s) < PATIENCE_S


def _list_movable(view: ClusterView, node: str) -> list[PodState]:
    """Return the pods of a node that a drain evicts."""
    return [each for each in view.list_pods_on(node) if not each.outlives_drains]


class _Progress(NamedTuple):
    """What is known of the current step: lines about what happened, and the line of its end or None."""

    progress: tuple[str, ...]
    result: str | None
