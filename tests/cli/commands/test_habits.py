"""What users of kubectl type without thinking: short names, a command without a name, labels, completion, explain."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from herodotus_answers.plugin_reference import PLUGINS
from herodotus_cli.commands import ALIASES
from herodotus_cli.commands.completion import SCRIPTS
from herodotus_record import reasons
from scheduler.engine.plugins import DEFAULT
from tests.cli.service import API, Service, command
from tests.support.documents import watched_decision

DECISIONS = f"{API}/namespaces/shop/decisions?limit=500"


def listed(service: Service, query: str = "") -> None:
    items = [
        watched_decision(number, state) for number, state in ((3, "Bound"), (2, "Unschedulable"), (1, "Unschedulable"))
    ]
    for item, uid in zip(items, ("a", "b", "a"), strict=True):
        item["spec"]["pod"]["uid"] = uid
    service.answer(f"{DECISIONS}{query}", {"kind": "DecisionList", "metadata": {}, "items": items})


def test_pod_without_name_lists_the_newest_decision_of_each(service: Service) -> None:
    listed(service)
    ran = command("pod", "-n", "shop", "--endpoint", service.url)
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["POD", "pod-3", "pod-2"]


@pytest.mark.parametrize("alias", ["po", "pods", "pod"])
def test_pod_selects_by_labels(service: Service, alias: str) -> None:
    listed(service, "&labelSelector=app%3Dx")
    ran = command(alias, "-l", "app=x", "-n", "shop", "--endpoint", service.url, "-o", "name", "--no-headers")
    assert (ran.code, ran.out) == (0, "pod/pod-3\npod/pod-2\n")


def test_pod_list_is_sorted(service: Service) -> None:
    listed(service)
    ran = command("pod", "-n", "shop", "--endpoint", service.url, "--sort-by", "name", "-o", "name")
    assert (ran.code, ran.out) == (0, "pod/pod-2\npod/pod-3\n")


def test_pod_in_an_empty_namespace_says_so(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(DECISIONS, {"kind": "DecisionList", "metadata": {}, "items": []})
    assert command("pod", "-n", "shop", "--endpoint", service.url).code == 0
    assert capsys.readouterr().err == "No decisions found in shop namespace; every namespace: -A.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "-A"), "a pod cannot be retrieved by name across all namespaces"),
        (("a", "-l", "app=x"), "name cannot be provided when a selector is specified"),
        (("a", "--sort-by", "name"), "--sort-by is for the list of pods"),
        (("--node", "worker-1"), "--node needs the name of a pod"),
        (("--attempts",), "--attempts needs the name of a pod"),
    ],
    ids=str,
)
def test_contradicting_words_are_wrong_usage(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("pod", *words, "--endpoint", "http://127.0.0.1:1").code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("alias", ALIASES)
def test_alias_has_the_help_of_its_command(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for word in (alias, ALIASES[alias]):
        assert command(word, "--help").code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize("words", ["NodePorts", "nodeports", "ports", reasons.CATALOGUE["ports"]])
def test_explain_finds_names_codes_and_sentences(words: str) -> None:
    ran = command("explain", *words.split())
    assert (ran.code, ran.out.splitlines()[0]) == (0, "NodePorts")
    assert "https://kubernetes.io/docs/" in ran.out


def test_explain_suggests_similar_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("explain", "NodePort").code == 2
    assert "did you mean NodePorts" in capsys.readouterr().err


def test_each_reason_belongs_to_one_plugin() -> None:
    codes = [code for plugin in PLUGINS for code in plugin.codes]
    assert sorted(codes) == sorted(reasons.CATALOGUE.keys() - {"text"})


def test_each_plugin_that_decides_by_default_is_explained() -> None:
    own = {"PrioritySort", "DefaultBinder"}  # they neither filter nor score
    assert {plugin.plugin for plugin in PLUGINS} >= {name for name, _ in DEFAULT} - own


@pytest.mark.parametrize("shell", SCRIPTS)
def test_completion_script_is_valid(shell: str, tmp_path: Path) -> None:
    ran = command("completion", shell)
    assert (ran.code, ran.out) == (0, SCRIPTS[shell])
    program = shutil.which("pwsh" if shell == "powershell" else shell)
    if program is None:
        pytest.skip(f"NO {shell.upper()} ON THIS MACHINE")
    script = tmp_path / "script"
    script.write_text(ran.out)
    options = {"powershell": ["-NoProfile", "-File"], "fish": ["--no-execute"]}.get(shell, ["-n"])
    assert subprocess.run([program, *options, script], check=False, capture_output=True).stderr == b""


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("kubectl-herodotus pod pe", "pe", "pod pe pending"),
        ("kubectl-herodotus pod ", "", "pod  pending"),
        ("kubectl herodotus pod pe", "pe", "pod pe pending"),
        ("kubectl-herodotus pending --sort-by=a", "a", "pending a pending"),
        ("kubectl get pe", "pe", ""),
    ],
)
def test_bash_completes_without_kubectls_completion(line: str, word: str, expected: str, tmp_path: Path) -> None:
    """A word is completed from its last equals sign on, where bash breaks it."""
    for name, text in {"kubectl": "", "kubectl_complete-herodotus": 'printf "%b\\n" "$@" "pending\\thelp" :4'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    typed = f"COMP_LINE={line!r}; COMP_POINT={len(line)}; _kubectl_herodotus {line.split()[0]} {word!r}"
    script = SCRIPTS["bash"].replace("/usr/share/bash-completion", str(tmp_path))
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{script}\n{typed}; echo "${{COMPREPLY[@]}}"'],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{expected}\n"
