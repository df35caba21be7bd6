"""The screen of `kubectl herodotus clusters`: ClusterList -> blocks.

Owns: the content of the screen. Does not own: which clusters are listed (the decisions service), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time
from herodotus_cli.render.screen_elements import Block, ViewOptions, build_table

Json = dict[str, Any]


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: a row for each cluster. A wide one names the schedulers and counts their runs.

    AGE is that of the cluster's latest record.
    """
    header = ("ID", "NAME", "AGE", "MISSING", "SCHEDULERS", *(("RUNS", "EXPLAINED") if view.wide else ()))
    return [build_table(header, [_build_row(cluster, view) for cluster in answer["items"]])]


def _build_row(cluster: Json, view: ViewOptions) -> list[str]:
    names = cluster["schedulers"]
    row = [
        cluster["metadata"]["name"],
        cluster["displayName"] or ("(own)" if cluster["own"] else "-"),
        format_age_or_time(cluster["lastSeenAt"], view),
        str(cluster["missing"]),
        (", ".join(names) or "-") if view.wide else str(len(names)),
    ]
    return [*row, str(cluster["incarnations"]), str(cluster["explainedByGaps"])] if view.wide else row
