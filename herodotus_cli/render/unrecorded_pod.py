"""The screen of `kubectl herodotus pod NAME` for a pod without a decision: GatedPod or UnrecordedPod -> blocks."""

from __future__ import annotations

from typing import Any

from herodotus_cli.render import batch_queues
from herodotus_cli.render.formatting import format_ago
from herodotus_cli.render.screen_elements import Block, SplitLine, TextLine, ViewOptions, labelled_rows

Json = dict[str, Any]


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: the pod's name and age, why it has no decision, and what to do."""
    meta = answer["metadata"]
    name = "  ".join(part for part in (f"{meta['name']} ({meta['namespace']})", answer["owner"]) if part)
    created = f"created {format_ago(answer['createdAt'], view)}"
    if answer["kind"] == "GatedPod":
        created += ", never tried"
    changes = [("SUGGESTION" if i == 0 else "", change) for i, change in enumerate(answer.get("possibleChanges", ()))]
    lines: list[Block] = [SplitLine(name, created), TextLine(answer["headline"], "strong")]
    lines += [labelled_rows(changes)] if changes else []
    return [*lines, *batch_queues.build_blocks(answer["queue"])] if "queue" in answer else lines
