"""The screen of `whatif upgrade`: what the rules of another version would decide otherwise -> blocks.

Owns: the verdict in one line, then the differences, the most serious first, and the rules that differ. Does not own:
the answer, drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from herodotus_cli.render.screen_elements import Block, Cell, Style, TextLine, build_table
from herodotus_record.units import pluralize

Json = dict[str, Any]

_ROWS: Final = 20  # of each table: a screen's worth
_CHANGES: Final[dict[str, tuple[str, Style]]] = {
    "FitsNoMore": ("fits no more", "bad"),
    "NodeRejects": ("its node rejects it", "bad"),
    "FitsNow": ("fits now", "good"),
    "OtherNode": ("another node", ""),
    "MayMove": ("other nodes among the best", ""),
    "OtherMessage": ("other message", "dim"),
}


def build_screen(found: Json, headline: str, *, every_row: bool) -> list[list[Block]]:
    """Return the sections of the screen; with `every_row`, no table is cut off."""
    changes: Sequence[Json] = found["changes"]
    lost = any(each["change"] in ("FitsNoMore", "NodeRejects") for each in changes)
    sections: list[list[Block]] = [[TextLine(headline, "bad" if lost else "good")]]
    shown = changes if every_row else changes[:_ROWS]
    if shown:
        rows = [(_name(each), str(each["pods"]), _change(each), _nodes(each), _rules(each)) for each in shown]
        table = build_table(("WORKLOAD", "PODS", "CHANGE", "BEST NODES", "RULE"), rows, right=(1,))
        more = len(changes) - len(shown)
        sections.append([table, *([TextLine(f"and {pluralize(more, 'difference')} more: --all", "dim")] * (more > 0))])
    causes = {name for each in changes for name in each["rules"]}
    rules = [rule for rule in found["rules"] if every_row or rule["name"] in causes]
    others = len(found["rules"]) - len(rules)
    named = [
        (rule["name"], rule["plugin"] or "feature gate", "on" if rule["enabled"] else "off", rule["effect"])
        for rule in rules
    ]
    section: list[Block] = [build_table(("RULE", "PLUGIN", found["toVersion"], "EFFECT"), named)] if named else []
    if others:
        section.append(TextLine(f"{pluralize(others, 'rule')} that cause no difference here: --all", "dim"))
    sections.append(section)
    return sections


def _name(each: Json) -> str:
    return f"{each['namespace']}/{each['owner'] or each['name']}"


def _change(each: Json) -> Cell:
    text, style = _CHANGES[each["change"]]
    return Cell(text, style)


def _nodes(each: Json) -> str:
    """Return the two best nodes before and after the upgrade, such as `a, b → c, d`, or once if they are the same."""
    before = ", ".join(each["bestBefore"][:2]) or "none"
    after = ", ".join(each["bestAfter"][:2]) or "none"
    return f"{before} → {after}" if before != after else before


def _rules(each: Json) -> str:
    if each["change"] == "OtherMessage":
        return "wording"
    return ", ".join(each["rules"]) or "several together"
