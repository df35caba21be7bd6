"""The screen of `kubectl herodotus pod` without a name: DecisionList -> blocks.

Owns: the content of the screen. Does not own: which decisions are listed (`herodotus_cli.pod_list`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age_or_time, format_feasible
from herodotus_cli.render.screen_elements import Block, TextLine, ViewOptions, build_table, join_sections
from herodotus_record.pending import find_dominant_reason

Json = dict[str, Any]
_ROOMY = 100  # columns of a terminal that hold the attempt and the number of feasible nodes too


def build_screen(answer: Json, view: ViewOptions, namespace: str) -> list[Block]:
    """Return the blocks of the screen: a row for each pod. If `namespace` is empty, the rows name it."""
    roomy = view.width is None or view.width >= _ROOMY
    rows = []
    for decision in answer["items"]:
        spec, status = decision["spec"], decision["status"]
        pod = spec["pod"]
        name = pod["name"] if namespace else f"{pod['namespace']}/{pod['name']}"
        row = [name, format_age_or_time(spec["times"]["startedAt"], view), status["state"], status["node"] or "–"]
        if roomy:
            row += [str(spec["key"]["attempt"]), format_feasible(spec["snapshot"], "nodes")]
        rows.append([*row, find_dominant_reason(status["message"]) if status["message"] else ""])
    header = ["POD", "TRIED", "RESULT", "NODE", *(["ATTEMPT", "FIT"] if roomy else []), "REASON"]
    more = "… older decisions are not listed" if (answer.get("metadata") or {}).get("continue") else ""
    hint = "more: kubectl herodotus pod NAME (why)"
    return join_sections(
        [
            [build_table(header, rows, right=(4, 5) if roomy else ())],
            [] if view.piped or not view.headers else [TextLine(text, "dim") for text in (more, hint) if text],
        ]
    )
