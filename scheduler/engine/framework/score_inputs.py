"""Collects the inputs by which plugins and extenders decided, and writes them into the trace.

Invariant: inputs do not affect the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.interface import InputReporter
from scheduler.engine.framework.per_node import adapt_input_reporter
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import InputRun, Trace
from scheduler.engine.objects.pod import PodInfo


def find_input_reporters(profile: Profile) -> tuple[InputReporter, ...]:
    """Return the profile's Filter and Score plugins that report the measurements they use, each plugin once."""
    deciding = {plugin.name: plugin for plugin in (*profile.filter, *profile.score)}
    return tuple(reporter for plugin in deciding.values() if (reporter := adapt_input_reporter(plugin)) is not None)


def gather_inputs(
    plugins: Sequence[InputReporter], state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace
) -> None:
    """Add the measurements that this cycle's plugins used to `trace.inputs`.

    If a plugin fails to report, its measurements are missing, and the failure is added to `trace.notes`.
    """
    if not plugins:
        return
    ran = {run.plugin for run in trace.filters if not run.skipped}
    ran |= {run.plugin for run in trace.scores if run.raw is not None}
    for plugin in plugins:
        if plugin.name not in ran:
            continue
        try:
            reported = [_validated(inputs, trace.slots) for inputs in plugin.inputs(state, pod, nodes)]
        except (Exception, SystemExit) as e:
            trace.notes.append(Reason("plugin-inputs", {"plugin": plugin.name, "error": str(e)}))
        else:
            trace.inputs += [InputRun(plugin.name, inputs) for inputs in reported]


def expand_to_slots(inputs: NodeInputs, where: NDArray[np.intp], slots: int) -> NodeInputs:
    """Return measurements of some nodes as columns for all nodes, with NaN for the other nodes.

    `where` holds the slots (row indices) of the measured nodes, and `slots` is the length of the columns. Raises
    ValueError if an array has another length than `where`.
    """
    _validated(inputs, len(where))

    def expand(values: NDArray[np.float64]) -> NDArray[np.float64]:
        column = np.full(slots, np.nan)
        column[where] = values
        return column

    stale = None
    if inputs.stale is not None:
        stale = np.zeros(slots, np.bool_)
        stale[where] = inputs.stale
    numbers = tuple(replace(number, values=expand(number.values)) for number in inputs.numbers)
    measured_s = None if inputs.measured_s is None else expand(inputs.measured_s)
    return NodeInputs(inputs.source, numbers, measured_s, stale)


def _validated(inputs: NodeInputs, nodes: int) -> NodeInputs:
    """Return the measurements unchanged. Raises ValueError if an array does not have one entry for each node."""
    arrays = [*(number.values for number in inputs.numbers), inputs.measured_s, inputs.stale]
    for array in arrays:
        if array is not None and len(array) != nodes:
            raise ValueError(f"{inputs.source}: {len(array)} numbers for {nodes} nodes")
    return inputs
