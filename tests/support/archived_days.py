"""Decisions of three days, which the archive and its readers are tested with."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from herodotus_endpoint.archive.writer import ArchiveOptions
from herodotus_endpoint.store import Pruner, RetentionLimits
from herodotus_record.model import Decision, Frame, Outcome, Owner
from tests.builders import CORDONED, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import Service

NODES = [f"worker-{i}" for i in range(1, 13)]
TABLE = a_table(NODES)
DAY_S = 86_400.0
ALL = ArchiveOptions(delay_s=0.0)


def days() -> list[list[Frame]]:
    """Return the frames of three days: one pod that is tried on each of them, and others that are bound."""
    sequence, found = 0, list[list[Frame]]()
    for day in range(3):
        at = MONDAY_US + int(day * DAY_S * 1e6)
        frames: list[Frame] = []
        for namespace in ("bank", "shop"):
            for number in range(3):
                sequence += 2
                labels = {"app": f"app-{number}"}
                d = a_decision(
                    pod=f"web-{day}-{number}", namespace=namespace, nodes=NODES, sequence=sequence, started_us=at,
                    points={"worker-3": {"NodeResourcesFit": 50 + number}}, labels=labels,
                    owner=Owner("ReplicaSet", "web"),
                )  # fmt: skip
                frames += [at_id(d, at + sequence), bound(d, TABLE, sequence=sequence + 1)]
        sequence += 2
        rejected = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES[:-1]} | {
            "worker-12": {"NodeUnschedulable": CORDONED}
        }
        d = a_decision(
            pod="big",
            namespace="shop",
            nodes=NODES,
            rejected=rejected,
            attempt=day + 1,
            sequence=sequence,
            started_us=at,
        )
        d = replace(d, times=replace(d.times, created_us=MONDAY_US - 5_000_000))
        found.append([*(replace_id(f) for f in frames), at_id(d, at + sequence)])
    return found


def at_id(d: Decision, at_us: int) -> Decision:
    """Return the decision with a UUIDv7 of its time."""
    text = f"{at_us // 1000:012x}"
    return replace(d, id=f"{text[:8]}-{text[8:]}-7000-8000-{d.sequence:012x}")


def replace_id(frame: Frame) -> Frame:
    """Return an outcome with the id of its decision, other frames unchanged."""
    if not isinstance(frame, Outcome):
        return frame
    at = MONDAY_US + (frame.at_us - MONDAY_US) // int(DAY_S * 1e6) * int(DAY_S * 1e6) + frame.decision_sequence
    text = f"{at // 1000:012x}"
    return replace(frame, decision_id=f"{text[:8]}-{text[8:]}-7000-8000-{frame.decision_sequence:012x}")


def summarise(service: Service) -> None:
    """Make every record of the database a summary, as the archive has it."""
    limits = RetentionLimits(max_age_s=1.0, summary_max_age_s=1e9, unbounded=True)
    while Pruner(service.store, limits).prune().summarised:
        pass


def find_marks(document: Any) -> list[Any]:
    """Return the marks of archived decisions in a document, and remove them."""
    spec = document.get("spec", {})
    return [part.pop("archive") for part in (document, spec) if "archive" in part]


def without_times(document: Any) -> Any:
    """Return a document without what depends on when the record was summarised, and on its row in the database."""
    copy = json.loads(re.sub(r"\d{4}-\d\d-\d\d; kept", "kept", json.dumps(document)))
    for part in (copy, copy.get("spec", {})):
        part.pop("notes", None)
        if part.get("pruned"):
            part["pruned"].pop("at", None)
            part["pruned"].pop("text", None)
    copy.get("metadata", {}).pop("resourceVersion", None)
    return copy
