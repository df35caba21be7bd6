"""The monitor watches pods, learns rewards from their outcomes and publishes the rewards on the nodes.

Owns: which pods count, and when rewards are saved and published. Does not own: the rules for outcomes (`outcomes`), the
values of rewards (`rewards`).

Rewards are published as an annotation of the node, `{pod type: reward}`, for the pod types that did not always succeed
there. Schedulers read node annotations anyway, so agents and plugins need no connection to the monitor and keep working
while it is down.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Final

from herodotus_agents import outcomes
from herodotus_agents.annotators.controller import annotate_node
from herodotus_agents.nodes import LONGEST_PAUSE_S
from herodotus_agents.objects import PodView
from herodotus_agents.rewards import Rewards, RewardsError
from herodotus_kube.http import ApiError, ApiServer
from herodotus_kube.watch import ListResult, ListWatch, Reflector, WatchEvent
from scheduler.engine.formulas import measurements

_log: Final = logging.getLogger(__name__)

MAX_TYPES: Final = 500  # Per node: about 15 kB of the 256 kB that Kubernetes allows for all annotations.


class Monitor:
    """Learns from pods' outcomes how well each pod type does on each node, and annotates the nodes with these rewards.

    Use it from one thread only.
    """

    def __init__(self, api: ApiServer, rewards: Rewards, clock: Callable[[], float] = time.time) -> None:
        """Create a monitor; `clock` returns seconds since 1970."""
        self._api = api
        self._rewards = rewards
        self._clock = clock

    def start(self, namespace: str) -> None:
        """Start a thread that learns from the pods of a namespace ("" for all namespaces) by list and watch."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        Reflector(self._api, ListWatch(path, "Pod", PodView), self.update, longest_pause_s=LONGEST_PAUSE_S).start()

    def update(self, message: ListResult[PodView] | WatchEvent[PodView]) -> None:
        """Update the rewards of pod types on nodes from the complete list of pods, or from the change of one pod.

        Nodes whose rewards changed are annotated. Pods that no longer exist are forgotten; the rewards that they earned
        stay.
        """
        if isinstance(message, ListResult):
            self._rewards.retain_pods({pod.metadata.uid for pod in message.objects})
            self._publish({pod.spec.node_name for pod in message.objects if self._learn(pod)})
        elif message.type == "DELETED":
            self._rewards.forget_pod(message.object.metadata.uid)
        elif self._learn(message.object):
            self._publish({message.object.spec.node_name})

    def _learn(self, pod: PodView) -> bool:
        outcome = outcomes.classify(pod)
        if outcome is None or not pod.spec.node_name:
            return False
        pod_type = measurements.rewards_key(pod.labels, pod.metadata.name)
        new = self._rewards.record_outcome(pod.metadata.uid, outcome.name, pod_type, pod.spec.node_name, outcome.reward)
        if new:
            _log.info(
                "pod=%s type=%s node=%s: %s earns %.1f",
                pod.name,
                pod_type,
                pod.spec.node_name,
                *_name_and_reward(outcome),
            )
        return new

    def _publish(self, nodes: set[str]) -> None:
        if not nodes:
            return
        try:
            self._rewards.save()
        except RewardsError as e:
            _log.error("rewards are not kept: %s", e)
        now = measurements.stamp(self._clock())
        for node in sorted(nodes):
            worst = sorted(self._rewards.rewards_below_initial(node).items(), key=lambda item: item[1])[:MAX_TYPES]
            value = json.dumps(dict(sorted(worst)), separators=(",", ":")) if worst else None
            try:
                annotate_node(self._api, node, {measurements.REWARDS: value, measurements.MEASURED["rewards"]: now})
            except ApiError as e:
                _log.warning("node %s: %s", node, e.describe())


def _name_and_reward(outcome: outcomes.PodOutcome) -> tuple[str, float]:
    return outcome.name, outcome.reward
