"""`-o` with a template of kubectl or with columns, and without a header."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_answers.pending import build_pending_pods
from tests.cli.service import API, Ran, Service, command
from tests.support.documents import pending_pod

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
PENDING = f"{API}/namespaces/shop/pendingpods"
DECISIONS = f"{API}/namespaces/shop/decisions?limit=500"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl", path=PATH) is None, reason="NO KUBECTL")


@pytest.fixture
def pending(service: Service) -> Service:
    pods = [pending_pod("a", "StatefulSet/a"), pending_pod("b\x1b[2J", None)]
    service.answer(PENDING, build_pending_pods(pods, now_us=10**15, namespace="shop"))
    return service


def printed(service: Service, format_: str, *more: str) -> Ran:
    given = ("pending", "-n", "shop", "--endpoint", service.url, "-o", format_, *more)
    return command(*given, environ={"PATH": PATH})


@needs_kubectl
@pytest.mark.parametrize(
    ("format_", "text"),
    [
        pytest.param("jsonpath={.pods[*].owner}", "StatefulSet/a null", id="jsonpath"),
        pytest.param('jsonpath={.pods[?(@.pod=="a")].reason}', "Insufficient cpu", id="jsonpath filter"),
        pytest.param('jsonpath={range .pods[*]}{.attempt}{"\\n"}{end}', "1\n1\n", id="jsonpath range"),
        pytest.param("jsonpath={.nothing}", "", id="jsonpath of a missing field"),
        pytest.param("go-template={{len .pods}} {{.metadata.namespace}}", "2 shop", id="go-template"),
        pytest.param(
            "custom-columns=POD:.pod,OWNER:{.owner}",
            "POD          OWNER\na            StatefulSet/a\nb\\u001b[2J   <none>\n",
            id="custom columns, with a null and a control character",
        ),
    ],
)
def test_kubectl_evaluates_templates(pending: Service, format_: str, text: str) -> None:
    assert printed(pending, format_) == Ran(0, text)


@needs_kubectl
def test_template_may_be_in_a_file(pending: Service, tmp_path: Path) -> None:
    file = tmp_path / "columns"
    file.write_text("POD:.pod,ATTEMPT:.attempt\n")
    ran = printed(pending, f"custom-columns-file={file}", "--no-headers")
    assert [line.split() for line in ran.out.splitlines()] == [["a", "1"], ["b\\u001b[2J", "1"]]


@needs_kubectl
def test_columns_of_an_empty_list_are_the_header(service: Service) -> None:
    service.answer(PENDING, build_pending_pods([], now_us=10**15))
    assert printed(service, "custom-columns=POD:.pod").out == "POD\n"
    assert printed(service, "custom-columns=POD:.pod", "--no-headers").out == ""


@needs_kubectl
@pytest.mark.parametrize(
    ("format_", "said"),
    [
        pytest.param("jsonpath={.pods", "unclosed action", id="wrong template"),
        pytest.param("custom-columns=.pod", "is not a column: write HEADER:JSONPATH", id="column without header"),
    ],
)
def test_wrong_template_is_an_error(
    pending: Service, format_: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(pending, format_).code == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        ("jsonpth={.pods}", "is not an output format: use one of wide, json, yaml, name, brief, jsonpath"),
        ("jsonpath", "jsonpath needs a template"),
        ("jsonpath-file=/nowhere", "No such file"),
        ("json=x", "is not an output format"),
    ],
    ids=str,
)
def test_unknown_format_is_wrong_usage(
    pending: Service, format_: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(pending, format_).code == 2
    assert said in capsys.readouterr().err


def test_template_without_kubectl_names_the_way_out(pending: Service, capsys: pytest.CaptureFixture[str]) -> None:
    ran = command("pending", "-n", "shop", "--endpoint", pending.url, "-o", "jsonpath={.count}", environ={"PATH": ""})
    assert (ran.code, capsys.readouterr().err) == (
        1,
        "error: -o jsonpath needs kubectl, which is not on PATH\n  without kubectl: -o json\n",
    )


def test_template_on_a_list_of_objects_is_refused(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(DECISIONS, {"kind": "DecisionList", "metadata": {}, "items": []})
    ran = command("pod", "-n", "shop", "--endpoint", service.url, "-o", "jsonpath={.items}", environ={"PATH": PATH})
    assert ran.code == 1
    assert "-o jsonpath cannot be used on a DecisionList" in capsys.readouterr().err


@pytest.mark.parametrize("width", [0, 60, 100])
def test_no_headers_prints_only_rows(pending: Service, width: int) -> None:
    ran = command("pending", "-n", "shop", "--endpoint", pending.url, "--no-headers", width=width)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["shop/a", "shop/b\\u001b[2J"]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("name", ["a", "b", "c"]),
        ("{.createdAt}", ["c", "b", "a"]),
        (".attempt", ["b", "c", "a"]),
        ("owner", ["b", "a", "c"]),
    ],
    ids=str,
)
def test_pending_is_sorted_by_a_field(service: Service, field: str, names: list[str]) -> None:
    pods = [
        replace(pending_pod(name, owner), attempt=attempt, created_us=at)
        for name, owner, attempt, at in (("c", None, 2, 10), ("a", "Job/x", 3, 30), ("b", "Job/a", 1, 20))
    ]
    service.answer(PENDING, build_pending_pods(pods, now_us=10**15, namespace="shop"))
    ran = command("pending", "-n", "shop", "--endpoint", service.url, "--sort-by", field, "-o", "name")
    assert ran.out.split() == [f"pod/{name}" for name in names]


def test_pending_without_any_record_says_so(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(PENDING, build_pending_pods([], now_us=10**15) | {"noRecords": True})
    assert command("pending", "-n", "shop", "--endpoint", service.url).code == 0
    assert capsys.readouterr().err.startswith("This decisions service has no records of the cluster's schedulers yet")


def test_brief_is_a_line_of_json(pending: Service) -> None:
    ran = printed(pending, "brief")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    brief = json.loads(ran.out)
    assert (brief["kind"], brief["of"], brief["code"]) == ("Brief", "PendingPods", "insufficient")
    assert len(ran.out) < 2000


def test_brief_of_no_pending_pods_is_a_document_too(service: Service) -> None:
    service.answer(PENDING, build_pending_pods([], now_us=10**15, namespace="shop"))
    assert json.loads(printed(service, "brief").out)["code"] == "nothing-pending"


def test_brief_of_a_list_is_refused(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(DECISIONS, {"kind": "DecisionList", "metadata": {}, "items": []})
    assert command("pod", "-n", "shop", "--endpoint", service.url, "-o", "brief").code == 1
    assert "-o brief: a document of kind DecisionList has no short form" in capsys.readouterr().err


def test_explain_lists_the_codes_of_reasons() -> None:
    ran = command("explain", "reasons")
    assert ran.out.splitlines()[0].split() == ["CODE", "PLUGIN", "MESSAGE"]
    assert json.loads(command("explain", "reasons", "-o", "json").out)["kind"] == "ReasonList"
    assert command("explain", "reasons", "-o", "name").out.startswith("reason/")
