"""PodTopologySpreadArgs: default constraints for pods without their own."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.engine.framework.plugin import Args
from scheduler.engine.objects.names import validate_label_key
from scheduler.engine.objects.problems import Problem, duplicate, forbidden, invalid, not_supported, required
from scheduler.engine.objects.types import TopologySpreadConstraint
from scheduler.engine.plugins.pod_topology_spread.constraints import HARD, SOFT

SYSTEM, LIST = "System", "List"


class DefaultConstraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    """An element of the argument defaultConstraints in a configuration file."""


class PodTopologySpreadArgs(Args, frozen=True):
    """Arguments of PodTopologySpread: the default constraints for pods without their own.

    The defaulting type System selects kube-scheduler's soft constraints, and List selects `default_constraints`.
    """

    default_constraints: tuple[DefaultConstraint, ...] | None = None
    defaulting_type: str = SYSTEM

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the defaulting type, then those of each constraint, including duplicates."""
        constraints = self.default_constraints or ()
        if self.defaulting_type not in (SYSTEM, LIST):
            yield not_supported("defaultingType", self.defaulting_type, (SYSTEM, LIST))
        elif self.defaulting_type == SYSTEM and constraints:
            yield invalid("defaultingType", SYSTEM, "when .defaultConstraints are not empty")
        for i, constraint in enumerate(constraints):
            path = f"defaultConstraints[{i}]"
            yield from _problems(constraint, path)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in [(c.topology_key, c.when_unsatisfiable) for c in constraints[:i]]:
                yield duplicate(path, f"{{{', '.join(pair)}}}")


def _problems(constraint: DefaultConstraint, path: str) -> Iterator[Problem]:
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, wrong) for wrong in validate_label_key(key))
    if not action:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in (HARD, SOFT):
        yield not_supported(f"{path}.whenUnsatisfiable", action, (HARD, SOFT))
    if constraint.label_selector is not None:
        words = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", words)
