"""The namespace of a kubeconfig, found as kubectl finds it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_cli import kubeconfig, kubeconfig_fast_parser
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


def written_by_kubectl(*contexts: dict[str, object], current: str = "kind-a") -> str:
    """Return a kubeconfig as kubectl writes it, with sorted keys."""
    config = {
        "apiVersion": "v1",
        "clusters": [{"cluster": {"server": "https://127.0.0.1:6443"}, "name": "kind-a"}],
        "contexts": list(contexts),
        "current-context": current,
        "kind": "Config",
        "preferences": {},
        "users": [{"name": "kind-a", "user": {"token": "abc", "exec": {"args": ["a: b", "c"], "env": None}}}],
    }
    return yaml.safe_dump(config)


A = {"context": {"cluster": "kind-a", "namespace": "shop", "user": "kind-a"}, "name": "kind-a"}
EKS = {"context": {"cluster": "c", "user": "u"}, "name": "arn:aws:eks:eu-west-1:1234:cluster/b"}
MINIKUBE = {
    "context": {
        "cluster": "minikube",
        "extensions": [{"extension": {"provider": "minikube.sigs.k8s.io", "version": "v1"}, "name": "context_info"}],
        "namespace": "default",
        "user": "minikube",
    },
    "name": "minikube",
}


@pytest.mark.parametrize("contexts", [(A,), (A, EKS), (MINIKUBE, A)], ids=["kind", "eks", "minikube"])
def test_fast_parser_reads_what_tools_write(contexts: tuple[dict[str, object], ...]) -> None:
    found = kubeconfig_fast_parser.parse(written_by_kubectl(*contexts))
    assert found is not None
    assert {c["name"]: c["context"].get("namespace") for c in found["contexts"]} == {
        c["name"]: c["context"].get("namespace")  # type: ignore[attr-defined]
        for c in contexts
    }


def namespaces(config: Any) -> object:
    """Return what the plugin reads from a kubeconfig."""
    contexts = config.get("contexts") or []
    return str(config.get("current-context") or ""), [
        (str(c.get("name")), str((c.get("context") or {}).get("namespace") or "")) for c in contexts
    ]


LINES = (*written_by_kubectl(MINIKUBE, A).splitlines(), "contexts:", "- name: on", "    namespace: 'x", "  'y", "x: [")
LINES += ('x: "', '"', "    namespace: &a b", "# c", "    namespace: 1.5", "    namespace: web # c", "x: |")
LINES += ("  contexts:", "  context:", "    name: a", "    extensions:", "      - b: c", "- context:")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(LINES), st.integers(0, 3)), max_size=4))
def test_fast_parser_agrees_with_yaml_parser(changes: list[tuple[int, str, int]]) -> None:
    lines = written_by_kubectl(MINIKUBE, A).splitlines()
    for at, line, kind in changes:
        at = min(at, len(lines))
        lines[at : at + (kind > 0)] = [] if kind == 3 else [line]
    text = "\n".join(lines)
    found = kubeconfig_fast_parser.parse(text)
    if found is not None:
        with suppress(yaml.YAMLError):  # kubectl itself says what is wrong elsewhere in the file
            assert namespaces(found) == namespaces(yaml.safe_load(text))
