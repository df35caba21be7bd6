"""Validation of the plugin's answers against the schemas that the plugin publishes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from herodotus_cli.commands.schema import load_schemas, select_schema

Json = dict[str, Any]


@cache
def _list_kinds() -> frozenset[str]:
    return frozenset(load_schemas()["$defs"])


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(select_schema(load_schemas(), kind, (kind,)))


def validate(document: Json) -> None:
    """Validate an answer. Unlike the published schema, reject fields at its top that no schema declares."""
    kind = document["kind"]
    validator = _validator(kind)
    undeclared = document.keys() - validator.schema["$defs"][kind]["properties"].keys()
    assert not undeclared, f"{kind} has fields without a schema: {sorted(undeclared)}"
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    assert error is None, f"{kind}: {error.json_path}: {error.message}"


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
