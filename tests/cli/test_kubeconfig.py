"""The namespace of a kubeconfig, found as kubectl finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from herodotus_cli import kubeconfig
from herodotus_cli.errors import CliError

ONE = "current-context: a\ncontexts:\n- {name: a, context: {namespace: one}}\n- {name: b, context: {cluster: c}}\n"
TWO = (
    "current-context: b\ncontexts:\n- {name: a, context: {namespace: two}}\n- {name: c, context: {namespace: three}}\n"
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, text in {"one": ONE, "two": TWO, "empty": "", "null-list": "contexts: null\n"}.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in ("one", "two", "empty", "null-list", "missing")}


@pytest.mark.parametrize(
    ("listed", "context", "expected"),
    [
        ("one", "", "one"),
        ("one", "b", "default"),
        ("one two", "", "one"),
        ("two one", "", "default"),
        ("two one", "a", "two"),
        ("one two", "c", "three"),
        ("missing one", "", "one"),
        ("empty two", "c", "three"),
        ("null-list", "", "default"),
        ("missing", "", "default"),
    ],
)
def test_first_file_with_a_value_wins(files: dict[str, str], listed: str, context: str, expected: str) -> None:
    environ = {"KUBECONFIG": os.pathsep.join(files[name] for name in listed.split())}
    assert kubeconfig.namespace(environ, context=context) == expected


def test_falls_back_to_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(ONE)
    assert kubeconfig.namespace({"HOME": str(tmp_path)}) == "one"
    assert kubeconfig.namespace({}) == "default"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not valid YAML (line 2)"),
        ("a: 'b\n", "not valid YAML (line 2)"),
        ("- 1", "not a kubeconfig (a mapping is expected)"),
        ("contexts: 3", "contexts is not a list of contexts"),
        ("contexts: [1]", "contexts is not a list of contexts"),
        ("contexts: [{name: a, context: 7}]\ncurrent-context: a", "context a is not a mapping"),
    ],
)
def test_error_names_the_file(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CliError) as e:
        kubeconfig.namespace({}, str(path))
    assert e.value.message == f"error: kubeconfig {path}: {problem}"


def test_requires_explicit_file(files: dict[str, str]) -> None:
    with pytest.raises(CliError) as e:
        kubeconfig.namespace({}, files["missing"])
    assert e.value.message == f"error: kubeconfig {files['missing']}: no such file"


def test_rejects_a_directory(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="Is a directory"):
        kubeconfig.namespace({"KUBECONFIG": str(tmp_path)})


def test_rejects_unknown_context(files: dict[str, str]) -> None:
    with pytest.raises(CliError) as e:
        kubeconfig.namespace({"KUBECONFIG": files["one"]}, context="x")
    assert e.value.message == 'error: context "x" does not exist'
