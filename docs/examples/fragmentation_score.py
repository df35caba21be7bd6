"""FGD as a plugin: prefers the node, and on it the GPU, where a pod leaves least of the free GPUs useless for others.

The score is the fragmentation gradient descent of Weng et al., "Beware of Fragmentation", USENIX ATC 2023. In a
configuration, `tasks` says what the pods of the workload request, and how frequent they are:

    profiles:
    - plugins:
        multiPoint: {enabled: [{name: "fragmentation_score:FragmentationScore", weight: 100}]}
      pluginConfig:
      - name: FragmentationScore
        args:
          tasks:
          - {share: 0.7, cpuMilli: 6000, gpuMilli: 460}
          - {share: 0.3, cpuMilli: 12000, gpuMilli: 1000, models: [T4, A10]}

PYTHONPATH=docs/examples kubectl herodotus simulate openb.trace --config fgd.yaml
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Handle
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.offline.simulate.fragmentation import TaskDemand, Tasks
from scheduler.offline.simulate.gpu_shares import GpuChoices, GpuShares, GpuSharesArgs
from scheduler.offline.traces.importing import MILLI_PER_GPU, MODEL_LABEL


class FragmentationScoreArgs(GpuSharesArgs, frozen=True):
    """Arguments: `tasks` are the demands of the workload, `modelLabel` is the node label with the model of its GPUs."""

    tasks: tuple[TaskDemand, ...] = ()
    model_label: str = MODEL_LABEL


class FragmentationScore(GpuShares):
    """A plugin for Filter, Score and Reserve."""

    name = "FragmentationScore"
    args_type = FragmentationScoreArgs
    args: FragmentationScoreArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._tasks = Tasks.from_demands(args.tasks)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 50 for a node that loses nothing by the pod, less for one that does, more for one that gains."""
        best: Scores = self._score_choices(pod, nodes, self.list_choices(pod, nodes)).max(axis=1, initial=0)
        return best

    def choose(self, pod: PodInfo, row: NodeColumns, choices: GpuChoices) -> int:
        """Return the choice of GPUs with the highest score."""
        return int(self._score_choices(pod, row, choices)[0].argmax())

    def _score_choices(self, pod: PodInfo, nodes: NodeColumns, choices: GpuChoices) -> Scores:
        """Return the score of each node and choice, -1 where the pod does not fit."""
        cpu, labels = nodes.allocatable("cpu") - nodes.requested("cpu"), nodes.label(self.args.model_label)
        models = [labels.values[i] or "" for i in labels.ids(nodes.slots)]
        rows, columns = np.nonzero(choices.fits)
        picked = [models[row] for row in rows]
        after = choices.free[rows] - choices.taken[rows, columns]
        before = self._tasks.compute_fragmentation(choices.free, cpu, models)
        lost = self._tasks.compute_fragmentation(after, (cpu - pod.requests.get("cpu", 0))[rows], picked) - before[rows]
        scores = np.full(choices.fits.shape, -1, np.int64)
        scores[rows, columns] = 100 / (1 + np.exp(lost / MILLI_PER_GPU))
        return scores
