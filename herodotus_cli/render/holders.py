"""The table of the pods that hold what a pending pod lacks on a node. Does not own: finding them (`holders`)."""

from __future__ import annotations

from herodotus_cli.render.formatting import format_count
from herodotus_cli.render.screen_elements import Block, TextLine, build_table
from herodotus_record.holders import Holders
from herodotus_record.units import format_quantity

_SHOWN = 5


def build_blocks(found: Holders) -> list[Block]:
    """Return the table of the holders, largest first, and a line that says which of them would be enough."""
    held = found.held
    if not found.pods:
        return []
    what = ", ".join(held.names) if held.kind != "pod" else "its place"
    has_amount = held.kind == "resource" and held.names != ("pods",)
    title = f"HOLDS {what.upper() if has_amount else what} ON {held.node}"
    rows = [
        (
            holder.pod,
            *([format_quantity(held.names[0], holder.amount)] if has_amount else []),
            str(holder.priority),
            holder.owner or "–",
        )
        for holder in found.pods[:_SHOWN]
    ]
    header = (title, *(["REQUEST"] if has_amount else []), "PRIORITY", "OWNER")
    omitted = len(found.pods) - len(rows)
    table = build_table(header, rows, right=range(1, len(header) - 1))
    more = f"… and {format_count(omitted, 'other pod')}. " if omitted else ""
    return [table, TextLine(more + _describe_enough(found), "dim")]


def _describe_enough(found: Holders) -> str:
    held = found.held
    if held.kind != "resource":
        return f"The pod fits there without {'this pod' if len(found.pods) == 1 else 'these pods'}, as far as is known."
    missing = format_quantity(held.names[0], held.missing, up=True)
    wanted = f"{missing} {held.names[0]}" if held.names[0] != "pods" else format_count(held.missing, "pod")
    if not found.enough:
        return f"All of them together hold less than the missing {wanted}."
    first = found.pods[: found.enough]
    alone = [h.pod for h in found.pods if h.amount >= held.missing]
    if alone:
        smallest = min((h for h in found.pods if h.amount >= held.missing), key=lambda h: (h.priority, h.amount))
        return f"{wanted} would have to become free: {smallest.pod} alone would be enough."
    names = ", ".join(h.pod for h in first) if len(first) <= _SHOWN else f"the {len(first)} largest"
    return f"{wanted} would have to become free: {names} together would be enough."
