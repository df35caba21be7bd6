"""The agent `pigeon`, with the verb `pigeon-holing`: places pods by one of three objectives for the whole cluster.

Owns: the inputs that an extender has (the nodes of the request are the cluster, annotations give what pods request on
them), and the file with the learned demand. Does not own: the algorithm (`scheduler.engine.plugins.pigeon`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, AgentError, AgentSettings
from herodotus_record.typed_decoding import decode_json
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements, packing
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.formulas.packing import Demand, Floats
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.plugin import Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import compute_running_requests
from scheduler.engine.plugins.node_measurements import MeasurementReader
from scheduler.engine.plugins.pigeon import Pigeon, ScoredNodes

_log: Final = logging.getLogger(__name__)

_MAX_AMOUNT: Final = 2.0**62  # Larger annotation values are clipped to this, so that they fit an int64.


class Objective(str, Enum):
    """The objective of placement: adaptive bin packing, balanced load, or consolidation on few nodes."""

    A_BINPACK = "A_BINPACK"
    LOAD_BALANCE = "LOAD_BALANCE"
    CONSOLIDATE = "CONSOLIDATE"

    __str__ = str.__str__


class PigeonSettings(AgentSettings, frozen=True):
    """Settings of the pigeon agent.

    The first `numResources` of cpu, memory, pods, gpu and ephemeral-storage count. `policyResourceIndex` is the
    index of the resource that LOAD_BALANCE and CONSOLIDATE optimize. `gpuResource` is the resource name of GPUs.
    `stateFile` keeps the learned demand across restarts. Allocation annotations older than `maxAgeS` seconds are
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
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] = msgspec.field(
        default=measurements.DEFAULT_LIMIT_S, name="maxAgeS"
    )


class _Pigeon(Pigeon):
    """Pigeon with usage from annotations, and with the containers' requests alone as a pod's demand."""

    reads = frozenset({PluginInput.NODE})
    annotations = frozenset({*measurements.REQUESTED.values(), measurements.MEASURED["allocation"]})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        if args.policy_resource_index >= args.num_resources:
            raise AgentError(
                f"policyResourceIndex {args.policy_resource_index} must be less than numResources {args.num_resources}"
            )
        self._reader = MeasurementReader("allocation", args.max_age_seconds)
        self._file = Path(args.state_file) if args.state_file else None
        self._learned = _load_demand(self._file, args.num_resources)
        _log.info("==> pigeon resources=%s objective=%s", ",".join(self.resources), args.policy_objective)

    def learn(self, demand: Floats, capacity: Floats) -> None:
        super().learn(demand, capacity)
        if self._file is not None:
            _save(self._file, self._learned)

    def read_usage(self, state: CycleState, nodes: NodeColumns, feasible: Mask) -> Floats:
        """Return the amounts requested by pods, from annotations: a row per resource, a column per feasible node."""
        reading = self._reader.read(state, nodes)
        requested = [np.nan_to_num(reading.get(measurements.REQUESTED[resource])) for resource in self.resources]
        whole_amounts = [np.clip(amounts[feasible], 0, _MAX_AMOUNT).astype(np.int64) for amounts in requested]
        return np.array([packing.scaled(r, c) for r, c in zip(self.resources, whole_amounts, strict=True)], np.float64)

    def requested_by(self, pod: PodInfo, resource: str) -> int:
        return compute_running_requests(pod.pod, resource)

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Report the objective's value with the pod on each node, and the annotations behind it."""
        keys = [measurements.REQUESTED[resource] for resource in self.resources]
        column = NodeInputColumn("objective", state.read(ScoredNodes).values, digits=6)
        inputs = self._reader.read(state, nodes).inputs(keys, column)
        return (replace(inputs, source=f"{self.args.policy_objective} of {inputs.source}"),)


def _load_demand(file: Path | None, resources: int) -> Demand:
    """Return the distribution of demand that an earlier run saved in `file`, or an empty one.

    It is empty if there is no file or if the file is for another number of resources. Raises AgentError if the file
    cannot be read.
    """
    try:
        learned = decode_json(file.read_bytes(), Demand) if file else Demand()
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


AGENT: Final = Agent({"pigeon-holing": _Pigeon}, PigeonSettings, legacy_file="pigeon.cfg")
