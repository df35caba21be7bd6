"""The types of answers are generated. HERODOTUS_REGENERATE=1 writes them anew."""

from __future__ import annotations

import os
from typing import get_type_hints

from herodotus_cli.commands.schema import load_schemas
from herodotus_client import answers
from scripts.client_types import FILE, format_module


def test_file_is_generated() -> None:
    if os.environ.get("HERODOTUS_REGENERATE"):
        FILE.write_text(format_module(), "utf-8")
    assert FILE.read_text("utf-8") == format_module(), "HERODOTUS_REGENERATE=1 writes it anew"


def test_every_kind_of_answer_has_a_type_with_its_fields() -> None:
    for name, schema in load_schemas()["$defs"].items():
        assert get_type_hints(getattr(answers, name)).keys() == schema.get("properties", {}).keys()
