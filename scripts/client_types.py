"""Writes herodotus_client/answers.py: the types of answers, from their JSON Schemas.

Owns: the conversion of JSON Schema to TypedDict. Does not own: the schemas (`scripts.answer_schemas`).

Invariant: the file is never edited. tests/client/test_types.py compares it with the output of this module.
"""

from __future__ import annotations

import keyword
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Final

from herodotus_cli.commands.schema import load_schemas

Json = dict[str, Any]
FILE: Final = Path(__file__).parents[1] / "herodotus_client" / "answers.py"
_HEAD: Final = '''"""Types of answers, from their JSON Schemas (`kubectl herodotus schema`).

This file is generated (`scripts/client_types.py`). A newer service may add fields, and an older one may lack some.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict
'''
_SIMPLE: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class _Types:
    """Collects one TypedDict for each object of the schemas."""

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {}

    def add(self, name: str, schema: Json) -> str:
        """Add the type of an object with properties and return its name."""
        fields = {
            key: self.annotation(f"{name}{key[:1].upper()}{key[1:]}", value)
            for key, value in schema["properties"].items()
        }
        if any(keyword.iskeyword(key) or not key.isidentifier() for key in fields):
            body = "".join(f'    "{key}": "{type_}",\n' for key, type_ in fields.items())
            comment = "".join(f"# {line}\n" for line in textwrap.wrap(schema.get("description", ""), 116))
            self.blocks[name] = f'{comment}{name} = TypedDict("{name}", {{\n{body}}}, total=False)\n'
        else:
            body = "".join(f"    {key}: {type_}\n" for key, type_ in fields.items()) or "    pass\n"
            meaning = schema.get("description") or f"An entry of {name.removesuffix('Item')}."
            self.blocks[name] = f"class {name}(TypedDict, total=False):\n{_docstring(meaning)}\n{body}"
        return name

    def annotation(self, name: str, schema: Json) -> str:
        """Return the annotation for a schema; `name` is that of the type if it needs one of its own."""
        if "$ref" in schema:
            return str(schema["$ref"]).rpartition("/")[2]
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "anyOf" in schema or "oneOf" in schema:
            options = schema.get("anyOf") or schema["oneOf"]
            return " | ".join(dict.fromkeys(self.annotation(name, option) for option in options))
        kinds = schema.get("type", "any")
        every = kinds if isinstance(kinds, list) else [kinds]
        return " | ".join(dict.fromkeys(self._of_kind(name, kind, schema) for kind in every))

    def _of_kind(self, name: str, kind: str, schema: Json) -> str:
        if kind == "array":
            return f"list[{self.annotation(f'{name}Item', schema.get('items', {}))}]"
        if kind == "object" and schema.get("properties"):
            return self.add(name, schema)
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.annotation(f'{name}Value', values) if isinstance(values, dict) else 'Any'}]"
        return _SIMPLE.get(kind, "Any")


def _docstring(text: str) -> str:
    """Return a docstring whose first line is the first sentence."""
    first, _, rest = text.partition(". ")
    if not rest:
        return f'    """{text}"""\n'
    first, lines = " ".join(first.split()), textwrap.wrap(rest, 116, break_long_words=False)
    return "".join(f"    {line}\n" if line else "\n" for line in [f'"""{first}.', "", *lines, '"""'])


def format_module() -> str:
    """Return the text of the module, formatted by ruff."""
    types = _Types()
    for name, schema in load_schemas()["$defs"].items():
        if schema.get("properties"):
            types.add(name, schema)
        else:
            types.blocks[name] = f"{name} = {types.annotation(name, schema)}\n"
    text = _HEAD + "".join(f"\n\n{block}" for block in types.blocks.values())
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    FILE.write_text(format_module(), "utf-8")
