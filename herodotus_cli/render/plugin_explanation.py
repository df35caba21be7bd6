"""The screens of `kubectl herodotus explain`: PluginExplanation and PluginExplanationList -> blocks."""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.screen_elements import Block, TextLine, build_table, join_sections, labelled_rows

Json = dict[str, Any]


def build_screen(answer: Json) -> list[Block]:
    """Return the blocks of the screen about one plugin."""
    groups = {
        "READS": answer["fields"],
        "REASON": [reason["message"] for reason in answer["reasons"]],
        "SUGGESTION": answer["possibleChanges"],
        "MORE": [answer["documentation"]],
    }
    rows = [(label if i == 0 else "", text) for label, texts in groups.items() for i, text in enumerate(texts)]
    return join_sections(
        [[TextLine(answer["metadata"]["name"], "strong"), TextLine(answer["checks"])], [labelled_rows(rows)]]
    )


def build_list(answer: Json) -> list[Block]:
    """Return the blocks of the screen that lists all plugins."""
    rows = [(plugin["metadata"]["name"], plugin["checks"]) for plugin in answer["items"]]
    return [build_table(("PLUGIN", "WHAT IT DOES"), rows)]
