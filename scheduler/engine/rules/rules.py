"""The rules by which one process decides: those of a version of kube-scheduler, with given feature gates.

Invariant: a setting that this scheduler does not support is refused by the name of its gate, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from herodotus_record.kubernetes_version import DEFAULT_VERSION, NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from scheduler.engine.objects.pod import PodCounting
from scheduler.engine.rules.feature_gates import (
    ALL_ALPHA,
    ALL_BETA,
    FEATURE_GATES,
    GATES_BY_NAME,
    GENERIC_WORKLOAD,
    FeatureGateError,
    Stage,
)
from scheduler.engine.rules.upstream_changes import UpstreamChange, find_missing_changes
from scheduler.engine.rules.version_rules import RESIZE_AS_WHOLE, SIDECAR_PORTS, SIDECARS_SCORED, VERSION_RULES


class UnknownKubernetesVersionError(ValueError):
    """A version of Kubernetes whose rules Herodotus does not know."""


@dataclass(frozen=True)
class Rules:
    """The value of each feature gate and version rule in one process, and the version that they belong to.

    `emulated` is the version of kube-scheduler's --emulated-version, which sets the states of feature gates and nothing
    else, or None. `source` says how the version was found. Compares by versions and values.
    """

    version: KubernetesVersion
    values: Mapping[str, bool]
    emulated: KubernetesVersion | None = None
    source: str = field(default="", compare=False)

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, bool],
        version: KubernetesVersion = DEFAULT_VERSION,
        emulated: KubernetesVersion | None = None,
        source: str = "",
    ) -> Rules:
        """Return the rules of `version` with these values of feature gates, and its defaults for all other gates.

        A program of `version` that emulates an older version has the older one's gates, with its own version rules.
        AllAlpha and AllBeta set the gates of their stage that `settings` does not name. Raise
        UnknownKubernetesVersionError for a version that Herodotus does not know or that `version` does not emulate, and
        FeatureGateError for every setting that kube-scheduler of that version refuses, or that this scheduler does not
        support.
        """
        if not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
            raise UnknownKubernetesVersionError(
                f"no rules of Kubernetes {version}: known are v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR}"
            )
        if emulated is not None and not OLDEST_MINOR <= emulated.minor <= version.minor:
            raise UnknownKubernetesVersionError(
                f"emulated version {emulated.minor_version} is not between v1.{OLDEST_MINOR} and"
                f" {version.minor_version}"
            )
        minor = (emulated or version).minor
        states = {gate.name: gate.state_in(minor) for gate in FEATURE_GATES}
        defaults = {name: state is not None and state.default for name, state in states.items()}
        _raise_any(_find_refused(settings, minor))
        gates = dict(defaults)
        for name, stage in ((ALL_ALPHA, Stage.ALPHA), (ALL_BETA, Stage.BETA)):
            if name in settings:
                gates |= {gate: settings[name] for gate, state in states.items() if state and state.stage is stage}
        gates |= {name: value for name, value in settings.items() if name in GATES_BY_NAME}
        _raise_any(_find_missing_dependencies(gates))
        _raise_any(_find_unsupported(gates, defaults, version))
        rules = {rule.name: rule.holds_in(version) for rule in VERSION_RULES}
        return cls(version, MappingProxyType(gates | rules), emulated, source)

    def __str__(self) -> str:
        """Return the versions as records and screens show them, such as `v1.36.2 (emulating v1.34)`."""
        emulates = self.emulated is not None and self.emulated.minor != self.version.minor
        return (
            f"{self.version} (emulating {self.emulated.minor_version})"
            if self.emulated and emulates
            else str(self.version)
        )

    @cached_property
    def missing(self) -> tuple[UpstreamChange, ...]:
        """The upstream changes up to this version that are not implemented here and concern single pods."""
        return find_missing_changes(self.version)

    @property
    def knows_pod_groups(self) -> bool:
        """Whether this scheduler supports pod groups with the rules of this version."""
        return GATES_BY_NAME[GENERIC_WORKLOAD].supports(True, self.version.minor)

    @property
    def pod_counting(self) -> PodCounting:
        """The rules by which pods count on their nodes: their ports, sidecars and resizes."""
        return PodCounting(self.enabled(SIDECAR_PORTS), self.enabled(SIDECARS_SCORED), self.enabled(RESIZE_AS_WHOLE))

    def replace(self, name: str, value: bool) -> Rules:
        """Return a copy of these rules with another value of one rule or gate; dependencies are not checked."""
        return Rules(self.version, MappingProxyType({**self.values, name: value}))

    def enabled(self, name: str) -> bool:
        """Return whether a feature gate is on, or a version rule holds. Raise KeyError for an undeclared name."""
        return self.values[name]


def _find_refused(settings: Mapping[str, bool], minor: int) -> Iterator[str]:
    for name, value in settings.items():
        gate = GATES_BY_NAME.get(name)
        state = gate.state_in(minor) if gate else None
        if state is None and name not in (ALL_ALPHA, ALL_BETA):
            yield f"unrecognized feature gate: {name}"
        elif state is not None and state.locked and value is not state.default:
            yield f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(state.default)}"


def _find_missing_dependencies(values: Mapping[str, bool]) -> Iterator[str]:
    for gate in FEATURE_GATES:
        off = [name for name in gate.needs if values[gate.name] and not values[name]]
        if off:
            yield f"{gate.name} is enabled, but depends on features that are disabled: [{' '.join(sorted(off))}]"


def _find_unsupported(
    values: Mapping[str, bool], defaults: Mapping[str, bool], version: KubernetesVersion
) -> Iterator[str]:
    for gate in FEATURE_GATES:
        value = values[gate.name]
        needs_no_support = not value and not defaults[gate.name]
        if not needs_no_support and not gate.supports(value, version.minor):
            only = f"only {_go(not value)} is built here"
            version_text = f" for v1.{version.minor}" if gate.is_built_for_some(value) else ""
            yield f"cannot set feature gate {gate.name} to {_go(value)}, {only}{version_text}"


def _raise_any(errors: Iterator[str]) -> None:
    problems = list(errors)
    if problems:
        raise FeatureGateError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _go(value: bool) -> str:
    return "true" if value else "false"


DEFAULT_RULES: Final = Rules.from_settings({})
