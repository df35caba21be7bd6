"""Deleting all decisions of a namespace or of one pod on request.

Owns: finding these decisions and their outcomes, keeping other decisions of their chains readable. Does not own: limits
(`retention`), the command line.

Records of other pods that name the pod (preemption victims, messages) are kept. Histories are kept too: they contain no
names except those of workloads, which are deleted with their namespace.

Invariant: a step is one transaction, after which all remaining decisions can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.delta_chains import compress_chain, decompress_blob
from herodotus_endpoint.store.rollups import Rollup
from herodotus_endpoint.store.schema import DECISIONS, OUTCOMES, ROLLUPS
from herodotus_endpoint.store.writer import Writer

DECISIONS_PER_STEP: Final = 100  # in one transaction; at worst each leaves a chain of 31 to compress again
ROLLUPS_PER_STEP: Final = 50


@dataclass(frozen=True)
class PurgeSelection:
    """Which decisions to delete: those of a namespace or of a pod UID, and only those of `cluster` if it is given."""

    namespace: str = ""
    pod_uid: str = ""
    cluster: str = ""


def purge_decisions(writer: Writer, selection: PurgeSelection) -> int:
    """Delete the selected decisions with their outcomes, in several transactions, and return the number of decisions.

    If a namespace is selected, its workloads are also deleted from node histories. Raises StoreUnavailableError if the
    database fails; decisions that were deleted before stay deleted.
    """
    deleted = 0
    while step := _purge_step(writer, selection):
        deleted += step
    if selection.namespace:
        _remove_workloads(writer, selection)
    return deleted


def _purge_step(writer: Writer, selection: PurgeSelection) -> int:
    row = DECISIONS.c
    wanted = {row.namespace: selection.namespace, row.pod_uid: selection.pod_uid, row.cluster: selection.cluster}
    matching = sa.and_(*(column == value for column, value in wanted.items() if value))
    statement = sa.select(row.id, row.incarnation_id, row.sequence, row.base, row.tier).where(matching).order_by(row.id)
    with writer.transaction() as connection:
        deleted_rows = connection.execute(statement.limit(DECISIONS_PER_STEP)).all()
        for d in deleted_rows:
            if d.base == d.sequence:
                _recompress_others(connection, d, {g.id for g in deleted_rows})
            of_it = (OUTCOMES.c.incarnation_id == d.incarnation_id, OUTCOMES.c.decision_sequence == d.sequence)
            connection.execute(OUTCOMES.delete().where(*of_it))
        connection.execute(DECISIONS.delete().where(row.id.in_([d.id for d in deleted_rows])))
    return len(deleted_rows)


def _recompress_others(connection: sa.Connection, key: Any, deleted_ids: set[int]) -> None:
    """Compress the remaining decisions of a chain again, because the key frame in row `key` will be deleted.

    `deleted_ids` are the row ids of all decisions that will be deleted.
    """
    row = DECISIONS.c
    chain = (row.incarnation_id == key.incarnation_id, row.tier == key.tier, row.base == key.sequence)
    members = connection.execute(sa.select(row.id, row.sequence, row.frame).where(*chain)).all()
    frame = next(m.frame for m in members if m.sequence == key.sequence)
    staying = sorted((m for m in members if m.id not in deleted_ids), key=lambda m: m.sequence)
    if staying:
        blobs = compress_chain([decompress_blob(member.frame, lambda: frame) for member in staying])
        for member, blob in zip(staying, blobs, strict=True):
            values = {"base": staying[0].sequence, "frame": blob, "frame_bytes": len(blob)}
            connection.execute(DECISIONS.update().where(row.id == member.id).values(values))


def _remove_workloads(writer: Writer, selection: PurgeSelection) -> None:
    """Delete the counters of the purged namespace's workloads from the stored node histories."""
    row = ROLLUPS.c
    keys = (row.bucket, row.cluster, row.profile, row.part)
    after: tuple[object, ...] = ()
    while True:
        statement = sa.select(*keys, row.counters).order_by(*keys).limit(ROLLUPS_PER_STEP)
        if selection.cluster:
            statement = statement.where(row.cluster == selection.cluster)
        if after:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
        with writer.transaction() as connection:
            blobs = connection.execute(statement).all()
            for blob in blobs:
                rollup = Rollup.unpack(blob.counters)
                if rollup.remove_workloads(selection.namespace):
                    condition = sa.tuple_(*keys) == sa.tuple_(*map(sa.literal, blob[:4]))
                    connection.execute(ROLLUPS.update().where(condition).values(counters=rollup.pack()))
        if not blobs:
            return
        after = tuple(blobs[-1][:4])
