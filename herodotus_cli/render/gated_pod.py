"""The screen of `kubectl herodotus pod NAME` for a pod that waits for its scheduling gates: GatedPod -> blocks."""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_ago
from herodotus_cli.render.screen_elements import Block, SplitLine, TextLine, ViewOptions

Json = dict[str, Any]


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen about a gated pod: its name, its age, and the gates that it waits for."""
    meta = answer["metadata"]
    name = "  ".join(part for part in (meta["name"], f"namespace {meta['namespace']}", answer["owner"]) if part)
    created = f"created {format_ago(answer['createdAt'], view)}, never tried"
    return [SplitLine(name, created), TextLine(answer["headline"], "strong")]
