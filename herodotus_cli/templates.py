"""Answer documents by template: `-o jsonpath=`, `go-template=` and `custom-columns=`.

kubectl itself evaluates the templates, so that they mean exactly what they mean to kubectl: `kubectl patch --local`
with an empty patch prints a document from stdin and sends no request.

Owns: that command line, and the columns. Does not own: which formats exist (`output_formats`).

Invariant: text from a record cannot move the cursor.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError
from herodotus_cli.render.documents import list_rows
from herodotus_cli.transport.kubectl_command import KubectlCommand
from herodotus_record.escaping import escape, escape_lines

Json = dict[str, Any]
_NONE: Final = "<none>"
_END_OF_CELL, _END_OF_ROW = "\x1f", "\x1e"  # no valid text of an object holds these separators
_GAP: Final = "   "  # kubectl's


def evaluate(document: Mapping[str, Any], format_: str, environ: Mapping[str, str], *, headers: bool) -> str:
    """Return what a format such as `jsonpath=TEMPLATE` prints of a document.

    `headers` says whether custom columns have a header. Raises CliError, with kubectl's message, for an invalid
    template, for a template on a list, and where kubectl is missing.
    """
    name, _, template = format_.partition("=")
    if name == "custom-columns":
        return _draw_columns(list_rows(document), template, environ, headers=headers)
    if "items" in document:
        raise CliError(
            f"error: -o {name} cannot be used on a {document['kind']}",
            ["use -o custom-columns, or -o json with a JSON processor"],
        )
    return escape_lines(_run(document, format_, environ))


def _draw_columns(rows: Sequence[Mapping[str, Any]], spec: str, environ: Mapping[str, str], *, headers: bool) -> str:
    titles, paths = zip(*map(_parse_column, spec.split(",")), strict=True)
    cells = "".join(f'{{{path}}}{{"\\u001f"}}' for path in paths)
    document = {"apiVersion": "v1", "kind": "Rows", "rows": _without_nulls(rows)}
    output = _run(document, f'jsonpath={{range .rows[*]}}{cells}{{"\\u001e"}}{{end}}', environ)
    row_texts = output.split(_END_OF_ROW)[: len(rows)]
    table = [list(titles)] if headers else []
    table += [[escape(cell) or _NONE for cell in row.split(_END_OF_CELL)[: len(paths)]] for row in row_texts]
    if not table:
        return ""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (_GAP.join(map(str.ljust, row, widths)).rstrip() for row in table)
    return "".join(f"{line}\n" for line in lines)


def _without_nulls(value: Any) -> Any:
    """Return a copy of a JSON value without fields that are null, which kubectl would print as `null`."""
    if isinstance(value, dict):
        return {key: _without_nulls(found) for key, found in value.items() if found is not None}
    return [_without_nulls(found) for found in value] if isinstance(value, list) else value


def _parse_column(column: str) -> tuple[str, str]:
    """Return the header and the JSONPath of a column such as `POD:.pod`; the path's braces and dot are optional."""
    title, _, path = column.partition(":")
    path = path.strip()
    path = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    if not title.strip() or not path or set("{}") & set(path):
        raise CliError(f"error: {column!r} is not a column: write HEADER:JSONPATH, such as POD:.pod")
    return title.strip(), path if path[0] in ".[" else f".{path}"


def _run(document: Mapping[str, Any], format_: str, environ: Mapping[str, str]) -> str:
    """Return what kubectl prints of a document. Raises CliError with kubectl's message if it cannot."""
    kubectl = KubectlCommand(ConnectionSettings(), environ).program
    name = format_.partition("=")[0]
    if not kubectl:
        raise CliError(f"error: -o {name} needs kubectl, which is not on PATH", ["without kubectl: -o json"])
    command = [kubectl, f"--kubeconfig={os.devnull}", "patch", "--local", "--type=merge", "--patch={}", "--filename=-"]
    done = subprocess.run(
        [*command, f"--output={format_}"], input=json.dumps(document).encode(), capture_output=True, check=False
    )
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["kubectl failed without a message"]
        raise CliError(message[-1] if message[-1].startswith("error") else f"error: {message[-1]}")
    return done.stdout.decode("utf-8", "replace")
