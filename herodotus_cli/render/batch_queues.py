"""The section about the queue of Kueue or Volcano in which a pod waits: the answer of `batch_queues` -> blocks."""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.screen_elements import Block, TextLine, build_table, labelled_rows

Json = dict[str, Any]


def build_blocks(queue: Json) -> list[Block]:
    """Return the section: the object and its state, its place in the queue, the quota in use, and what is missing."""
    blocks: list[Block] = []
    if queue["state"]:
        needs = f", needs {queue['minMember']} pods" if queue.get("minMember") else ""
        said = f"{queue['by']} {queue['object']}: {queue['state']}{needs}"
        blocks.append(TextLine(said, "strong"))
    rows = [("QUEUE", _describe_queue(queue)), ("POSITION", _describe_position(queue)), ("MESSAGE", queue["message"])]
    known = [(label, text) for label, text in rows if text]
    if known:
        blocks.append(labelled_rows(known))
    if queue["quota"]:
        cells = [
            (row["resource"], row["used"] or "–", row["limit"] or "–", row["flavor"] or "–") for row in queue["quota"]
        ]
        blocks.append(build_table(("QUOTA", "USED", "LIMIT", "FLAVOR"), cells, right=(1, 2)))
    return [*blocks, *(TextLine(f"note: {note}", "dim") for note in queue["notes"])]


def _describe_queue(queue: Json) -> str:
    names = {"LocalQueue": queue["localQueue"], "ClusterQueue" if queue["by"] == "Kueue" else "Queue": queue["queue"]}
    return ", ".join(f"{kind} {name}" for kind, name in names.items() if name)


def _describe_position(queue: Json) -> str:
    if queue["position"] is not None:
        return f"{queue['position']} of {queue['waiting']} that wait in the LocalQueue"
    return f"{queue['waiting']} groups wait in the queue" if queue["waiting"] is not None else ""
