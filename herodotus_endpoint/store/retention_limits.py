"""How long which decisions are kept, and how much of them: the limits, and what they mean for a cluster and namespace.

Owns: limits, which age holds for whom, the conditions that say it in SQL. Does not own: deleting (`retention`), the
flags' notation of a time.

The most specific age holds: of a namespace in a cluster, of a namespace, of a cluster, of everything.

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
    """How long and how much. Ages count from ingest, in seconds; bytes are of pages in use.

    `max_age_s`: of full records. `summary_max_age_s`: of what is kept of them then, also from ingest; where it is not
    above the other, nothing is, and decisions go whole. `max_age_of`, `summary_max_age_of`: longer and shorter ones, by
    NAMESPACE, CLUSTER/NAMESPACE or CLUSTER/. `max_bytes`: of the database; `summary_max_bytes`: of summaries in it.
    `unbounded`: trust the wall clock at the start, and let any share of the decisions go at once (`quota`).
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
    """The decisions that are kept alike. `full_s`: whole; `last_s`: anything of them, not below `full_s`."""

    where: sa.ColumnElement[bool]
    full_s: float
    last_s: float

    @property
    def summarised(self) -> bool:
        """Whether something is kept of them when the full record goes."""
        return self.last_s > self.full_s


def build_scopes(limits: RetentionLimits) -> list[RetentionScope]:
    """Every decision by how long it is kept, in a stable order."""
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
    """`cluster`, `namespace`: None for one that is not named in any limit."""
    keys = (f"{cluster}/{namespace}", namespace, f"{cluster}/")
    return next((ages[key] for key in keys if key is not None and key in ages), default_s)


def _is(column: sa.Column[str], value: str | None, named: list[str]) -> sa.ColumnElement[bool]:
    if value is not None:
        return column == value
    return column.not_in(named) if named else sa.true()
