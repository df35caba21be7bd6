"""Deleting the oldest decisions row by row, chain by chain, in steps small enough that ingest hardly waits.

Owns: which rows a step takes. Does not own: when (`retention`), partitions (`postgresql`).

Invariant: a chain goes whole, and not before its youngest member may go.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.chains import LIFETIME_S
from herodotus_endpoint.store.schema import DECISIONS

STEP: Final = 200  # decisions looked at in one transaction: some 10 ms
CHAINS: Final = 8  # deleted in one transaction: at most 256 decisions
_CHAIN: Final = sa.tuple_(DECISIONS.c.incarnation_id, DECISIONS.c.base)


def delete_oldest(connection: sa.Connection, cutoff_us: int, over: bool, namespace: str = "") -> int:
    """Delete some decisions (of a namespace) ingested before a moment, or with `over` the oldest; how many."""
    row = DECISIONS.c
    oldest = sa.select(row.id, row.incarnation_id, row.base, row.ingested_us).order_by(row.id).limit(STEP)
    if namespace:
        oldest = oldest.where(row.namespace == namespace)
    rows = connection.execute(oldest).all()
    lasts_us = {d.id: 0 if d.base is None else int(LIFETIME_S * 1e6) for d in rows}
    going = [d for d in rows if over or d.ingested_us + lasts_us[d.id] < cutoff_us]
    alone = [d.id for d in going if d.base is None]
    chains = list(dict.fromkeys((d.incarnation_id, d.base) for d in going if d.base is not None))
    return sum(
        connection.execute(DECISIONS.delete().where(gone)).rowcount
        for gone in (row.id.in_(alone), _CHAIN.in_(chains[:CHAINS]))
    )
