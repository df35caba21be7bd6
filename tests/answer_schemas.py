"""Validation of the plugin's answers against the schemas that the plugin publishes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from herodotus_cli.commands.schema import load_schemas, select_schema

Json = dict[str, Any]


@cache
def _list_kinds() -> frozenset[str]:
    return frozenset(load_schemas()["$defs"])


@cache
def _validator(kind: str) -> jsonschema_rs.Draft202012Validator:
    schema = _close(select_schema(load_schemas(), kind, (kind,)))
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def _close(schema: Any) -> Any:
    """Return the schema without room for fields that it does not declare."""
    if isinstance(schema, list):
        return [_close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _close(each) for key, each in schema.items()}
    return closed | ({"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {})


def validate(document: Mapping[str, Any]) -> None:
    """Validate an answer. Unlike the published schema, reject fields that no schema declares, at every depth."""
    kind = document["kind"]
    error = next(_validator(kind).iter_errors(document), None)
    assert error is None, f"{kind}: {error.instance_path}: {error.message[:500]}"


class ValidatingClient(FlaskClient):
    """A test client that validates each answer of a kind with a published schema."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        to_sender = response.request.path.startswith("/ingest/")  # a question, not an answer
        if response.is_json and response.data and "watch" not in response.request.args and not to_sender:
            document = response.json
            if isinstance(document, dict) and document.get("kind") in _list_kinds():
                validate(document)
        return response
