"""The screen of `kubectl herodotus clusters`: ClusterList -> blocks.

Owns: the content of the screen. Does not own: which clusters are listed (the decisions service), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time
from herodotus_cli.render.screen_elements import Block, ViewOptions, build_table

Json = dict[str, Any]
_NAMED = 2  # schedulers in a row of the screen that is not wide


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: a row for each cluster. A wide one has all schedulers and their runs."""
    header = ["ID", "NAME", "LAST RECORD", "MISSING", "SCHEDULERS"]
    rows = [_build_row(cluster, view) for cluster in answer["items"]]
    return [build_table((*header, "RUNS", "EXPLAINED") if view.wide else header, rows)]


def _build_row(cluster: Json, view: ViewOptions) -> list[str]:
    names = cluster["schedulers"]
    shown = names if view.wide else names[:_NAMED]
    schedulers = ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
    more = [str(cluster["incarnations"]), str(cluster["explainedByGaps"])] if view.wide else []
    name = cluster["displayName"] or ("(own)" if cluster["own"] else "-")
    seen = format_age_or_time(cluster["lastSeenAt"], view)
    return [cluster["metadata"]["name"], name, seen, str(cluster["missing"]), schedulers or "-", *more]
