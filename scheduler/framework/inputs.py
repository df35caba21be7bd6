"""By which numbers plugins and extenders decided: asks them, and writes it into the trace.

Owns: who is asked, what a failure costs, numbers of some nodes as columns of all. Does not own: the values
(`formulas.inputs`), the record.

Invariant: what is told changes no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns
from scheduler.formulas.inputs import Inputs
from scheduler.framework.interface import TellsInputs
from scheduler.framework.per_node import as_teller
from scheduler.framework.profile import Profile
from scheduler.framework.state import CycleState
from scheduler.framework.trace import InputRun, Trace
from scheduler.objects.pod import PodInfo


def tellers(profile: Profile) -> tuple[TellsInputs, ...]:
    """The profile's Filter and Score plugins that say what they went by, each once."""
    deciding = {plugin.name: plugin for plugin in (*profile.filter, *profile.score)}
    return tuple(teller for plugin in deciding.values() if (teller := as_teller(plugin)) is not None)


def gather(plugins: Sequence[TellsInputs], state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
    """What those of the plugins went by that were asked in this cycle. One that fails costs its own inputs alone."""
    if not plugins:
        return
    asked = {run.plugin for run in trace.filters if not run.skipped}
    asked |= {run.plugin for run in trace.scores if run.raw is not None}
    for plugin in plugins:
        if plugin.name not in asked:
            continue
        try:
            told = [_checked(inputs, trace.slots) for inputs in plugin.inputs(state, pod, nodes)]
        except (Exception, SystemExit) as e:
            trace.marks.append(f"{plugin.name}: what it went by is not recorded: {e}")
        else:
            trace.inputs += [InputRun(plugin.name, inputs) for inputs in told]


def spread(inputs: Inputs, where: NDArray[np.intp], slots: int) -> Inputs:
    """Numbers of the nodes in some slots as columns of all slots. ValueError where their count is another."""
    _checked(inputs, len(where))

    def everywhere(values: NDArray[np.float64]) -> NDArray[np.float64]:
        column = np.full(slots, np.nan)
        column[where] = values
        return column

    stale = None
    if inputs.stale is not None:
        stale = np.zeros(slots, np.bool_)
        stale[where] = inputs.stale
    numbers = tuple(replace(number, values=everywhere(number.values)) for number in inputs.numbers)
    measured_s = None if inputs.measured_s is None else everywhere(inputs.measured_s)
    return Inputs(inputs.source, numbers, measured_s, stale)


def _checked(inputs: Inputs, nodes: int) -> Inputs:
    """The inputs themselves; ValueError where an array has not one entry a node."""
    arrays = [*(number.values for number in inputs.numbers), inputs.measured_s, inputs.stale]
    for array in arrays:
        if array is not None and len(array) != nodes:
            raise ValueError(f"{inputs.source}: {len(array)} numbers for {nodes} nodes")
    return inputs
