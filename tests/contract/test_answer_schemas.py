"""The published JSON Schema of every answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from herodotus_answers.live.objects import build_live_pending, find_no_longer_pending, find_untried
from herodotus_answers.pending import apply_live, build_pending_pods
from herodotus_answers.plugin_reference import PLUGINS, build_plugin_explanation
from herodotus_answers.schema import ID
from herodotus_cli.commands.schema import KINDS, load_schemas
from tests.answer_schemas import validate
from tests.cli.scenes import NOW, scenes
from tests.cli.service import command
from tests.processes import ROOT
from tests.support.answers import as_json
from tests.support.documents import pending_pod

Json = dict[str, Any]


def test_schemas_are_valid_and_versioned() -> None:
    jsonschema_rs.meta.validate(load_schemas())
    assert load_schemas()["$id"] == ID == "https://herodotus.dev/schemas/v1alpha1"


@pytest.mark.parametrize("name", scenes())
def test_screens_documents_match(name: str) -> None:
    validate(scenes()[name]().answer)


def test_pending_pods_with_what_the_api_server_knows_match() -> None:
    document = build_pending_pods([pending_pod("a", None), pending_pod("b", "Job/b")], now_us=2 * 10**15)
    metadata = {"namespace": "shop", "name": "held", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
    held = {"metadata": metadata, "spec": {"schedulingGates": [{"name": "example.com/gate"}]}}
    gone = find_no_longer_pending(document, ["uid-a", "u"])
    for fate in ("deleted", None):
        gone[0]["fate"] = fate
        document["live"] = build_live_pending(NOW, gone, find_untried(document, [held]))
        validate(document)
        assert [pod["pod"] for pod in apply_live(document)["pods"]] == ["a", "held"]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.plugin)
def test_explained_plugins_match(plugin: Any) -> None:
    validate(as_json(build_plugin_explanation(plugin)))


@pytest.mark.parametrize("name", [*KINDS, "PendingPods"])
def test_command_prints_a_schema_that_stands_alone(name: str) -> None:
    ran = command("schema", name)
    assert ran.code == 0
    printed = json.loads(ran.out)
    assert printed["$id"] == f"{ID}/{name}"
    validator = jsonschema_rs.Draft202012Validator(printed)
    with pytest.raises(jsonschema_rs.ValidationError):
        validator.validate({"kind": "Other"})
    for kind in KINDS.get(name, (name,)):
        assert kind in printed["$defs"]


def test_wrong_document_is_rejected() -> None:
    document = scenes()["placed"]().answer
    with pytest.raises(AssertionError, match='7 is not of type "string"'):
        validate(document | {"headline": 7})
    with pytest.raises(AssertionError, match="'undeclared' was unexpected"):
        validate(document | {"undeclared": 1})


def test_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("schema", "nothing").code == 2
    assert "is neither a command nor a kind" in capsys.readouterr().err


def test_schemas_need_nothing_that_the_plugin_lacks() -> None:
    """The plugin is installed without the servers' libraries."""
    names = ("msgspec", "numpy", "zstandard", "flask", "kubernetes")
    block = f"import sys; sys.modules |= dict.fromkeys({names})"
    code = f"{block}\nfrom herodotus_answers import schema; schema.build_json_schema()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
