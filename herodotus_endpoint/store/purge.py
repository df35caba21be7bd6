"""Deleting what must not be kept any longer: every decision of a namespace or of one pod, at once.

Owns: finding them, what belonged to them, keeping what shared a chain with them readable. Does not own: limits
(`retention`), the command line.

Not touched are records of other pods that name the pod (victims of a preemption, messages), and numbers in histories:
they hold no names but those of workloads, which go with their namespace.

Invariant: a step is one transaction, after which everything that is left can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from herodotus_endpoint.store.delta_chains import compress_chain, decompress_blob
from herodotus_endpoint.store.rollups import Rollup
from herodotus_endpoint.store.schema import DECISIONS, OUTCOMES, ROLLUPS
from herodotus_endpoint.store.writer import Writer

STEP: Final = 100  # decisions deleted in one transaction; at worst each leaves a chain of 31 to be stored anew
ROLLUP_STEP: Final = 50


@dataclass(frozen=True)
class PurgeSelection:
    """What goes: everything of a namespace, or of a pod's UID; of one cluster, where one is named."""

    namespace: str = ""
    pod_uid: str = ""
    cluster: str = ""


def purge_decisions(writer: Writer, what: PurgeSelection) -> int:
    """Delete it; how many decisions went. StoreUnavailableError as for writing: what was deleted by then is gone."""
    gone = 0
    while step := _step(writer, what):
        gone += step
    if what.namespace:
        _forget_workloads(writer, what)
    return gone


def _step(writer: Writer, what: PurgeSelection) -> int:
    row = DECISIONS.c
    wanted = {row.namespace: what.namespace, row.pod_uid: what.pod_uid, row.cluster: what.cluster}
    matching = sa.and_(*(column == value for column, value in wanted.items() if value))
    found = sa.select(row.id, row.incarnation_id, row.sequence, row.base, row.tier).where(matching).order_by(row.id)
    with writer.transaction() as connection:
        going = connection.execute(found.limit(STEP)).all()
        for d in going:
            if d.base == d.sequence:
                _keep_others(connection, d, {g.id for g in going})
            of_it = (OUTCOMES.c.incarnation_id == d.incarnation_id, OUTCOMES.c.decision_sequence == d.sequence)
            connection.execute(OUTCOMES.delete().where(*of_it))
        connection.execute(DECISIONS.delete().where(row.id.in_([d.id for d in going])))
    return len(going)


def _keep_others(connection: sa.Connection, key: Any, going: set[int]) -> None:
    """What was stored against a key frame that goes is stored anew, as a chain of its own."""
    row = DECISIONS.c
    chain = (row.incarnation_id == key.incarnation_id, row.tier == key.tier, row.base == key.sequence)
    members = connection.execute(sa.select(row.id, row.sequence, row.frame).where(*chain)).all()
    frame = next(m.frame for m in members if m.sequence == key.sequence)
    staying = sorted((m for m in members if m.id not in going), key=lambda m: m.sequence)
    if staying:
        blobs = compress_chain([decompress_blob(member.frame, lambda: frame) for member in staying])
        for member, blob in zip(staying, blobs, strict=True):
            values = {"base": staying[0].sequence, "frame": blob, "frame_bytes": len(blob)}
            connection.execute(DECISIONS.update().where(row.id == member.id).values(values))


def _forget_workloads(writer: Writer, what: PurgeSelection) -> None:
    """Names of workloads in histories begin with their namespace."""
    row = ROLLUPS.c
    keys = (row.bucket, row.cluster, row.profile, row.part)
    after: tuple[object, ...] = ()
    while True:
        statement = sa.select(*keys, row.counters).order_by(*keys).limit(ROLLUP_STEP)
        if what.cluster:
            statement = statement.where(row.cluster == what.cluster)
        if after:
            statement = statement.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
        with writer.transaction() as connection:
            blobs = connection.execute(statement).all()
            for blob in blobs:
                rollup = Rollup.unpack(blob.counters)
                if rollup.forget(what.namespace):
                    at = sa.tuple_(*keys) == sa.tuple_(*map(sa.literal, blob[:4]))
                    connection.execute(ROLLUPS.update().where(at).values(counters=rollup.pack()))
        if not blobs:
            return
        after = tuple(blobs[-1][:4])
