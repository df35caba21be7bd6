"""The screen of `whatif deschedule`: what the descheduler would evict -> blocks.

Owns: the verdict in one line, then the evictions in order with where the successors land, what is refused, and why
plugins do nothing. Does not own: the answer, drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_answers.cluster_headlines import shorten_fit_error
from herodotus_answers.descheduling import POINTLESS
from herodotus_cli.render.formatting import cut_rows, note_left_out
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, build_table
from herodotus_record.units import pluralize

Json = dict[str, Any]


def build_screen(found: Json, headline: str, most: int | None) -> list[list[Block]]:
    """Return the sections of the screen, with at most `most` rows in a table (None: all)."""
    evictions: Sequence[Json] = found["evictions"]
    good = all(each["outcome"] not in POINTLESS for each in evictions)
    evicted = [each for each in evictions if each["outcome"] != "Refused"]
    refused = [each for each in evictions if each["outcome"] == "Refused"]
    if found["pods"]:
        names = {(pod["namespace"], pod["name"]) for pod in found["pods"]}
        evicted, refused = (
            [each for each in rows if (each["namespace"], each["name"]) in names] for rows in (evicted, refused)
        )
    return [
        [TextLine(headline, "good" if good else "bad")],
        _table(
            ("EVICTED", "FROM", "TO", "BY", "WHY"),
            [(_name(each), each["node"], _target(each), each["plugin"], _reason(each, found)) for each in evicted],
            most,
        ),
        _table(
            ("REFUSED", "ON", "BY", "WHY"),
            [(_name(each), each["node"], each["plugin"], each["refusal"]) for each in refused],
            most,
        ),
        _table(
            ("NOT EVICTED", "PLUGIN", "WHY"),
            [
                (f"{pod['namespace']}/{pod['name']}", each["plugin"], each["reason"])
                for pod in found["pods"]
                for each in pod["reasons"]
            ],
            None,
        ),
        [] if found["pods"] else _plugins(found["plugins"], most),
        _ends(found),
    ]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str | Cell]], most: int | None) -> list[Block]:
    shown = cut_rows(rows, most)
    return [build_table(titles, shown), *note_left_out(len(rows) - len(shown), "pod")] if rows else []


def _name(each: Json) -> str:
    return f"{each['namespace']}/{each['name']}"


def _target(each: Json) -> Cell:
    match each["outcome"]:
        case "Moves":
            return Cell(each["landsOn"], "good")
        case "Returns":
            return Cell("the same node", "bad")
        case "StaysPending":
            return Cell(f"Pending: {shorten_fit_error(each['message'])}", "bad")
        case "Ends":
            return Cell("not replaced")
    return Cell("unknown", "dim")


def _reason(each: Json, found: Json) -> str:
    sure = "" if each["runs"] >= found["runs"] else f" (in {each['runs']} of {found['runs']} runs)"
    return f"{each['reason']}{sure}"


def _plugins(plugins: Sequence[Json], most: int | None) -> list[Block]:
    """Return a table of the plugins with what each does, and the nodes by utilization."""
    several = len({plugin["profile"] for plugin in plugins}) > 1
    rows = []
    for plugin in plugins:
        name = f"{plugin['profile']}: {plugin['plugin']}" if several else plugin["plugin"]
        note = plugin["summary"] if plugin["evaluated"] else "not evaluated"
        rows.append((name, str(plugin["evicted"]), str(plugin["refused"]), note or _count_classes(plugin)))
    return [build_table(("PLUGIN", "EVICTS", "REFUSED", "NOTE"), rows, right=(1, 2))] if rows else []


def _count_classes(plugin: Json) -> str:
    """Return how many nodes are in each class of utilization, such as `2 nodes underutilized, 1 overutilized`."""
    classes = [node["class"] for node in plugin["utilization"]]
    counts = [
        (each, classes.count(each)) for each in ("Underutilized", "Overutilized", "Appropriate") if each in classes
    ]
    parts = [f"{count} {each.lower()}" for each, count in counts]
    return f"nodes: {', '.join(parts)}" if parts else ""


def _ends(found: Json) -> list[Block]:
    lines = []
    if found["others"]:
        pods = pluralize(found["others"], "other pod")
        lines.append(f"{pods} may be evicted instead: the descheduler takes equal pods in a random order.")
    if found["endedBy"]:
        lines.append(f"The time ended the answer after {pluralize(found['runs'], 'run')}.")
    return [TextLine(line, "dim") for line in lines]
