"""PodTopologySpreadArgs: the constraints of pods that bring none."""

from __future__ import annotations

from scheduler.framework.plugin import Args
from scheduler.objects.types import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.constraints import HARD, SOFT

SYSTEM, LIST = "System", "List"


class DefaultConstraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    """A constraint in a file: unknown keys are errors."""


class PodTopologySpreadArgs(Args, frozen=True):
    """`defaultingType` System: kube-scheduler's own two soft constraints; List: `defaultConstraints`."""

    default_constraints: tuple[DefaultConstraint, ...] | None = None
    defaulting_type: str = SYSTEM

    def problems(self) -> list[tuple[str, object, str]]:
        """In kube-scheduler's order and words."""
        constraints = self.default_constraints or ()
        found: list[tuple[str, object, str]] = []
        if self.defaulting_type not in (SYSTEM, LIST):
            found.append(("defaultingType", self.defaulting_type, f'supported values: "{SYSTEM}", "{LIST}"'))
        elif self.defaulting_type == SYSTEM and constraints:
            found.append(("defaultingType", SYSTEM, "when .defaultConstraints are not empty"))
        for i, constraint in enumerate(constraints):
            path = f"defaultConstraints[{i}]"
            found += [(f"{path}.{field}", value, detail) for field, value, detail in _problems(constraint)]
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in [(c.topology_key, c.when_unsatisfiable) for c in constraints[:i]]:
                found.append((path, f"{{{', '.join(pair)}}}", "given twice"))
        return found


def _problems(constraint: DefaultConstraint) -> list[tuple[str, object, str]]:
    found: list[tuple[str, object, str]] = []
    action = constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        found.append(("maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not constraint.topology_key:
        found.append(("topologyKey", "", "can not be empty"))
    if not action:
        found.append(("whenUnsatisfiable", "", "can not be empty"))
    elif action not in (HARD, SOFT):
        found.append(("whenUnsatisfiable", action, f'supported values: "{HARD}", "{SOFT}"'))
    if constraint.label_selector is not None:
        words = "constraint must not define a selector, as they deduced for each pod"
        found.append(("labelSelector", constraint.label_selector, words))
    return found
