"""The limits of retention, and the scopes of decisions to which each age applies.

Owns: limits, selecting the age of a cluster and namespace, and SQL conditions for it. Does not own: deletion
(`retention`), parsing durations in flags.

The most specific age applies: first that of a namespace in a cluster, then of a namespace, then of a cluster, then the
default.

Invariant: every decision is in exactly one scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.schema import DECISIONS

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class RetentionLimits:
    """The limits of retention: how old records may become, in seconds since ingest, and how many bytes they may use.

    `max_age_s` limits full records and `summary_max_age_s` their summaries. If the latter is not larger, decisions are
    deleted without a summary. `max_age_of` and `summary_max_age_of` override ages by NAMESPACE, CLUSTER/NAMESPACE or
    CLUSTER/. `history_max_age_s` limits node histories. `max_bytes` limits the database and `summary_max_bytes` the
    summaries in it. `unbounded` sets the clock of retention to the wall clock at the start and lifts the quota of
    deletions by age.
    """

    max_age_s: float = 7 * DAY_S
    max_bytes: int = 4 << 30
    history_max_age_s: float = 90 * DAY_S
    max_age_of: Mapping[str, float] = field(default_factory=dict)
    summary_max_age_s: float = 30 * DAY_S
    summary_max_age_of: Mapping[str, float] = field(default_factory=dict)
    summary_max_bytes: int = 1 << 30
    unbounded: bool = False


@dataclass(frozen=True)
class RetentionScope:
    """The decisions of clusters and namespaces that have the same age limits, in seconds.

    `where` selects them. Full records are summarised or deleted at the age `full_s`, summaries are deleted at the age
    `last_s`, which is not below `full_s`.
    """

    where: sa.ColumnElement[bool]
    full_s: float
    last_s: float

    @property
    def summarised(self) -> bool:
        """Whether full records become summaries instead of being deleted."""
        return self.last_s > self.full_s


def build_scopes(limits: RetentionLimits) -> list[RetentionScope]:
    """Return the retention scopes in a stable order: one for each distinct pair of full and summary age limits.

    A scope selects the decisions of the namespaces and clusters to which its pair applies. Every decision is in exactly
    one scope.
    """
    named = {*limits.max_age_of, *limits.summary_max_age_of}
    clusters = sorted({cluster for cluster, slash, _ in (name.rpartition("/") for name in named) if slash})
    namespaces = sorted({namespace for namespace in (name.rpartition("/")[2] for name in named) if namespace})
    found: dict[tuple[float, float], list[sa.ColumnElement[bool]]] = {}
    for cluster in (*clusters, None):
        for namespace in (*namespaces, None):
            full_s = _age(limits.max_age_of, limits.max_age_s, cluster, namespace)
            summary_s = _age(limits.summary_max_age_of, limits.summary_max_age_s, cluster, namespace)
            condition = sa.and_(
                _is(DECISIONS.c.cluster, cluster, clusters), _is(DECISIONS.c.namespace, namespace, namespaces)
            )
            found.setdefault((full_s, max(full_s, summary_s)), []).append(condition)
    if len(found) == 1:
        return [RetentionScope(sa.true(), *ages) for ages in found]
    return [RetentionScope(sa.or_(*conditions), *ages) for ages, conditions in found.items()]


def _age(ages: Mapping[str, float], default_s: float, cluster: str | None, namespace: str | None) -> float:
    """Return the most specific of `ages` for a cluster and namespace, or `default_s` if no limit names them.

    None stands for all clusters or all namespaces that no limit names.
    """
    keys = (f"{cluster}/{namespace}", namespace, f"{cluster}/")
    return next((ages[key] for key in keys if key is not None and key in ages), default_s)


def _is(column: sa.Column[str], value: str | None, named: list[str]) -> sa.ColumnElement[bool]:
    if value is not None:
        return column == value
    return column.not_in(named) if named else sa.true()
