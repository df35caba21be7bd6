"""pigeon: places pods where they suit the cluster as a whole; verb `pigeon-holing`, one of three objectives.

Owns: which resources count and their units, the demand it has learnt. Does not own: the objectives
(`scheduler.formulas.packing`). The cluster is the nodes of the request; what pods request of them is in annotations.

Invariant: requests at the same time learn one after another.
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

from herodotus_agents.agent import Agent, AgentError, Explained, Kind, Points, Settings
from herodotus_agents.measured import dated, numbers, present
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import measurements, packing
from scheduler.formulas.inputs import Dated, Inputs, Number
from scheduler.formulas.packing import Demand, Floats

_log: Final = logging.getLogger(__name__)


class Objective(str, Enum):
    """What is striven for."""

    A_BINPACK = "A_BINPACK"
    LOAD_BALANCE = "LOAD_BALANCE"
    CONSOLIDATE = "CONSOLIDATE"


class PigeonSettings(Settings, frozen=True):
    """`num_resources`: the first so many of cpu, memory, pods, gpu, ephemeral-storage count.

    `policy_resource_index`: the one that LOAD_BALANCE and CONSOLIDATE look at. `gpu_resource`: what a GPU is called.
    `state_file`: keeps the learnt demand over restarts. `max_age_s`: older allocations are ignored.
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


class Pigeon:
    """The verb, and the demand that it learns."""

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
        self._learnt = _restored(self._file, settings.num_resources)
        _log.info("==> pigeon resources=%s objective=%s", ",".join(self._resources), settings.policy_objective.value)

    def priority(self, pod: Pod, nodes: Sequence[Node]) -> Explained[Points]:
        """10 for the best node, 0 where the pod does not fit."""
        demand = np.array([self._demand(pod, resource) for resource in self._resources], np.float64)
        learnt = self._learn(demand)
        capacity = self._matrix(nodes, self._capacity)
        when = dated("allocation", nodes, self._clock(), self._settings.max_age_s)
        usage = self._usage(nodes, when)
        values = self._values(capacity, usage, demand, learnt) if nodes else np.zeros(0)
        points: list[int] = packing.points(values).tolist()
        _log.info("==> PigeonHoling pod=%s nodes=%d demand=%s", pod.name, len(nodes), demand.tolist())
        _log.debug("samples=%d mean=%s second=%s", learnt.count, learnt.mean, learnt.second)
        if _log.isEnabledFor(logging.DEBUG):
            for node, value, given in zip(nodes, values, points, strict=True):
                _log.debug("pod=%s node=%s value=%.6f points=%d", pod.name, node.name, value, given)
        return Explained(points, (self._inputs(values, nodes, when),))

    def _inputs(self, values: Floats, nodes: Sequence[Node], when: Dated) -> Inputs:
        """The objective as if the pod were on each node in turn. What is too old counts as no usage."""
        keys = present(nodes, [measurements.REQUESTED[resource] for resource in self._resources])
        told = when.inputs(keys, Number("objective", values, digits=6))
        return replace(told, source=f"{self._settings.policy_objective.value} of {told.source}")

    def _values(self, capacity: Floats, usage: Floats, demand: Floats, learnt: Demand) -> Floats:
        prime = self._settings.policy_resource_index
        if self._settings.policy_objective is Objective.LOAD_BALANCE:
            return packing.load_balance(capacity, usage, demand, prime)
        if self._settings.policy_objective is Objective.CONSOLIDATE:
            return packing.consolidate(capacity, usage, demand, prime)
        return packing.adaptive_bin_pack(capacity, usage, demand, learnt)

    def _learn(self, demand: Floats) -> Demand:
        with self._lock:
            self._learnt = self._learnt.learn(demand.tolist())
            if self._file is not None:
                _save(self._file, self._learnt)
            return self._learnt

    def _matrix(self, nodes: Sequence[Node], of: Callable[[Node, str], float]) -> Floats:
        return np.array([[of(node, resource) for node in nodes] for resource in self._resources], np.float64)

    def _usage(self, nodes: Sequence[Node], when: Dated) -> Floats:
        rows = []
        for resource in self._resources:
            requested = np.nan_to_num(numbers(nodes, measurements.REQUESTED[resource]))
            rows.append(packing.scaled(resource, np.where(when.stale, 0, requested).astype(np.int64)))
        return np.array(rows, np.float64)

    def _demand(self, pod: Pod, resource: str) -> float:
        if resource == "pods":
            return 1.0
        amount = packing.scaled(resource, pod.running_demand(self._name(resource)))
        return float(amount or packing.LEAST.get(resource, 0))

    def _capacity(self, node: Node, resource: str) -> float:
        return float(packing.scaled(resource, node.allocatable(self._name(resource))))

    def _name(self, resource: str) -> str:
        return self._settings.gpu_resource if resource == "gpu" else resource


def _restored(file: Path | None, resources: int) -> Demand:
    """What was learnt before the restart, if it was about as many resources."""
    try:
        learnt = msgspec.json.decode(file.read_bytes(), type=Demand) if file else Demand()
    except FileNotFoundError:
        return Demand()
    except (OSError, msgspec.MsgspecError) as e:
        raise AgentError(f"stateFile {file}: {e}") from e
    if learnt.count and len(learnt.mean) != resources:
        _log.warning("stateFile %s is about %d resources, begun anew", file, len(learnt.mean))
        return Demand()
    return learnt


def _save(file: Path, learnt: Demand) -> None:
    """Whole or not at all. A full disk costs the memory, not the answer."""
    try:
        beside = file.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(learnt))
        os.replace(beside, file)
    except OSError as e:
        _log.warning("stateFile %s: %s", file, e)


def _make(settings: PigeonSettings, clock: Callable[[], float]) -> Agent:
    return Agent(priorities={"pigeon-holing": Pigeon(settings, clock).priority})


KIND: Final = Kind(PigeonSettings, _make, own_file="pigeon.cfg")
