"""Building table rows from records. Pure.

Owns: which field of a record goes into which column. Does not own: tables (`schema`), which rows are new (`writer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from herodotus_answers.explain import derive_state
from herodotus_answers.preemptions import list_victims
from herodotus_endpoint.store import integrity
from herodotus_endpoint.store.database import Row
from herodotus_endpoint.store.delta_chains import MAX_MEMBERS, compress_chain
from herodotus_endpoint.store.labels import format_labels
from herodotus_endpoint.store.rollups import Rollup
from herodotus_record.disclosure import is_message_public
from herodotus_record.model import Decision

MESSAGE_CHARS: Final = (
    1024  # of the message column: an event's note has the same limit; the frame has the complete message
)


def build_decision_row(incarnation_id: int, d: Decision, node: str | None, now_us: int) -> Row:
    """Return the row of `decisions` for a decision, without the columns that store its frame.

    `node` is the name of the chosen node, or None. `now_us` is the ingest time in microseconds.
    """
    owner = d.pod.owner
    row = {
        "incarnation_id": incarnation_id,
        "sequence": d.sequence,
        "decision_id": d.id,
        "cluster": d.key.cluster,
        "source": d.key.source.value,
        "profile": d.scheduler.profile,
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "pod_uid": d.key.pod_uid,
        "attempt": d.key.attempt,
        "owner": str(owner) if owner else None,
        "started_us": d.times.started_us,
        "ingested_us": now_us,
        "generation": d.generation,
        "path": d.path.value,
        "state": derive_state(d, ()),
        "node": node,
        "nodes_total": d.nodes_total,
        "nodes_evaluated": d.nodes_evaluated,
        "nodes_feasible": d.nodes_feasible,
        "message": d.message[:MESSAGE_CHARS],
        "message_names_nobody": is_message_public(d),
        "agreement": d.reconstruction.agreement.value if d.reconstruction else None,
        "cause": d.reconstruction.cause.value if d.reconstruction and d.reconstruction.cause else None,
        "labels": format_labels(d.pod.labels),
        "pod_group": d.pod.pod_group or None,
        "group_cycle": d.group_cycle.number if d.group_cycle else None,
        "group_position": d.group_cycle.position if d.group_cycle else None,
        "victims": _format_victims(list_victims(d)),
        "repeats": 0,
    }
    row["checksum"] = integrity.DECISION.checksum(row)
    return row


def _format_victims(victims: Sequence[str]) -> str | None:
    return f",{','.join(victims)}," if victims else None


def build_rollup_row(rollup: Rollup, now_us: int) -> Row:
    """Return the columns of a row of `rollups`, except those of its key. `now_us` is the ingest time."""
    return {
        "ingested_us": now_us,
        "counters": rollup.pack(),
        "nodes": len(rollup.nodes),
        "chosen": rollup.chosen,
    }


def compress_summaries(summaries: Sequence[tuple[Decision, Row, bytes]]) -> None:
    """Compress summaries, given as (decision, row, content), and add the blobs to their rows.

    Summaries of one pod template are compressed together, at most MAX_MEMBERS in a chain.
    """
    by_template: dict[tuple[object, ...], list[tuple[Row, bytes]]] = {}
    for d, row, content in sorted(summaries, key=lambda summary: summary[0].sequence):
        template = (d.key.incarnation, d.key.source, d.scheduler.profile, d.pod.namespace, d.pod.digest)
        by_template.setdefault(template, []).append((row, content))
    for members in by_template.values():
        for first in range(0, len(members), MAX_MEMBERS):
            chain = members[first : first + MAX_MEMBERS]
            blobs = compress_chain([content for _, content in chain])
            base = chain[0][0]["sequence"]
            for (row, _), blob in zip(chain, blobs, strict=True):
                row |= {"base": base, "frame": blob, "frame_bytes": len(blob)}
