"""The agent `pigeon`, with the verb `pigeon-holing`: places pods by one of three objectives for the whole cluster.

Owns: which resources count, their units, and the learned demand. Does not own: the objectives
(`scheduler.engine.formulas.packing`). The nodes of the request are the cluster; annotations give what pods request on
them.

Invariant: concurrent requests learn one after another.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, AgentError, AgentFactory, AgentSettings, ExplainedResult, Points
from herodotus_agents.measured import present_keys, read_measurement_times, read_numbers
from herodotus_agents.objects import NodeView, PodView
from scheduler.engine.formulas import measurements, packing
from scheduler.engine.formulas.inputs import MeasurementTimes, NodeInputColumn, NodeInputs
from scheduler.engine.formulas.packing import Demand, Floats

_log: Final = logging.getLogger(__name__)

_MAX_AMOUNT: Final = 2.0**62  # Larger annotation values are clipped to this, so that they fit an int64.


class Objective(str, Enum):
    """The objective of placement: adaptive bin packing, balanced load, or consolidation on few nodes."""

    A_BINPACK = "A_BINPACK"
    LOAD_BALANCE = "LOAD_BALANCE"
    CONSOLIDATE = "CONSOLIDATE"


class PigeonSettings(AgentSettings, frozen=True):
    """Settings of the pigeon agent.

    The first `num_resources` of cpu, memory, pods, gpu and ephemeral-storage count. `policy_resource_index` is the
    index of the resource that LOAD_BALANCE and CONSOLIDATE optimize. `gpu_resource` is the resource name of GPUs.
    `state_file` keeps the learned demand across restarts. Allocation annotations older than `max_age_s` seconds are
    ignored.
    """

    variables: ClassVar[Mapping[str, str]] = {
        "NUM_RESOURCES": "num_resources",
        "POLICY_OBJECTIVE": "policy_objective",
        "POLICY_RESOURCE_INDEX": "policy_resource_index",
        "PIGEON_STATE_FILE": "state_file",
    }

    num_resources: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    policy_objective: Objective = Objective.A_BINPACK
    policy_resource_index: Annotated[int, msgspec.Meta(ge=0, le=4)] = 0
    gpu_resource: str = "nvidia.com/gpu"
    state_file: str = ""
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = measurements.DEFAULT_LIMIT_S


class PigeonAgent:
    """Scores nodes for the verb `pigeon-holing`, by the objective that the settings name.

    It also learns the distribution of resource demand from every pod that it scores; the objective A_BINPACK uses it.
    """

    def __init__(self, settings: PigeonSettings, clock: Callable[[], float]) -> None:
        if settings.policy_resource_index >= settings.num_resources:
            raise AgentError(
                f"policyResourceIndex {settings.policy_resource_index} must be less than"
                f" numResources {settings.num_resources}"
            )
        self._settings = settings
        self._clock = clock
        self._resources = measurements.ALLOCATED[: settings.num_resources]
        self._lock = threading.Lock()
        self._file = Path(settings.state_file) if settings.state_file else None
        self._learned = _load_demand(self._file, settings.num_resources)
        _log.info("==> pigeon resources=%s objective=%s", ",".join(self._resources), settings.policy_objective.value)

    def priority(self, pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Points]:
        """Return 0 to 10 points per node: 10 for the best node, 0 where the pod does not fit.

        The pod's demand is also added to the learned distribution of demand.
        """
        demand = np.array([self._demand(pod, resource) for resource in self._resources], np.float64)
        capacity = self._matrix(nodes, self._capacity)
        learned = self._learn(demand, capacity)
        measured = read_measurement_times("allocation", nodes, self._clock(), self._settings.max_age_s)
        usage = self._usage(nodes, measured)
        values = self._values(capacity, usage, demand, learned) if nodes else np.zeros(0)
        points: list[int] = packing.points(values).tolist()
        _log.info("==> PigeonHoling pod=%s nodes=%d demand=%s", pod.name, len(nodes), demand.tolist())
        _log.debug("samples=%d mean=%s second=%s", learned.count, learned.mean, learned.second)
        if _log.isEnabledFor(logging.DEBUG):
            for node, value, score in zip(nodes, values, points, strict=True):
                _log.debug("pod=%s node=%s value=%.6f points=%d", pod.name, node.name, value, score)
        return ExplainedResult(points, (self._inputs(values, nodes, measured),))

    def _inputs(self, values: Floats, nodes: Sequence[NodeView], measured: MeasurementTimes) -> NodeInputs:
        """Return the objective's value for each node, computed as if the pod were on it, for the decision's record.

        `measured` says which nodes' allocation annotations are too old; these nodes count as unused.
        """
        keys = present_keys(nodes, [measurements.REQUESTED[resource] for resource in self._resources])
        inputs = measured.inputs(keys, NodeInputColumn("objective", values, digits=6))
        return replace(inputs, source=f"{self._settings.policy_objective.value} of {inputs.source}")

    def _values(self, capacity: Floats, usage: Floats, demand: Floats, learned: Demand) -> Floats:
        resource_index = self._settings.policy_resource_index
        if self._settings.policy_objective is Objective.LOAD_BALANCE:
            return packing.load_balance(capacity, usage, demand, resource_index)
        if self._settings.policy_objective is Objective.CONSOLIDATE:
            return packing.consolidate(capacity, usage, demand, resource_index)
        return packing.adaptive_bin_pack(capacity, usage, demand, learned)

    def _learn(self, demand: Floats, capacity: Floats) -> Demand:
        """Add the pod's demand to the learned distribution of demand, and return the distribution.

        `demand` has one amount per resource, `capacity` one row per resource and one column per node. If there are no
        nodes, nothing is learned.
        """
        with self._lock:
            if not capacity.size:
                return self._learned
            self._learned = packing.learn(self._learned, demand.tolist(), capacity)
            if self._file is not None:
                _save(self._file, self._learned)
            return self._learned

    def _matrix(self, nodes: Sequence[NodeView], amount: Callable[[NodeView, str], float]) -> Floats:
        return np.array([[amount(node, resource) for node in nodes] for resource in self._resources], np.float64)

    def _usage(self, nodes: Sequence[NodeView], measured: MeasurementTimes) -> Floats:
        rows = []
        for resource in self._resources:
            requested = np.nan_to_num(read_numbers(nodes, measurements.REQUESTED[resource]))
            counted = np.clip(np.where(measured.stale, 0, requested), 0, _MAX_AMOUNT).astype(np.int64)
            rows.append(packing.scaled(resource, counted))
        return np.array(rows, np.float64)

    def _demand(self, pod: PodView, resource: str) -> float:
        if resource == "pods":
            return 1.0
        amount = packing.scaled(resource, pod.running_demand(self._name(resource)))
        return float(amount if amount > 0 else packing.LEAST.get(resource, 0))

    def _capacity(self, node: NodeView, resource: str) -> float:
        return float(packing.scaled(resource, node.allocatable(self._name(resource))))

    def _name(self, resource: str) -> str:
        return self._settings.gpu_resource if resource == "gpu" else resource


def _load_demand(file: Path | None, resources: int) -> Demand:
    """Return the distribution of demand that an earlier run saved in `file`, or an empty one.

    It is empty if there is no file or if the file is for another number of resources. Raises AgentError if the file
    cannot be read.
    """
    try:
        learned = msgspec.json.decode(file.read_bytes(), type=Demand) if file else Demand()
    except FileNotFoundError:
        return Demand()
    except (OSError, msgspec.MsgspecError) as e:
        raise AgentError(f"stateFile {file}: {e}") from e
    if learned.count and len(learned.mean) != resources:
        _log.warning("stateFile %s is for %d resources, starting with no samples", file, len(learned.mean))
        return Demand()
    return learned


def _save(file: Path, learned: Demand) -> None:
    """Write the learned demand to the state file atomically. A failure is only logged."""
    try:
        new_file = file.with_suffix(".new")
        new_file.write_bytes(msgspec.json.encode(learned))
        os.replace(new_file, file)
    except OSError as e:
        _log.warning("stateFile %s: %s", file, e)


def _make(settings: PigeonSettings, clock: Callable[[], float]) -> Agent:
    return Agent(priorities={"pigeon-holing": PigeonAgent(settings, clock).priority})


FACTORY: Final = AgentFactory(PigeonSettings, _make, legacy_file="pigeon.cfg")
