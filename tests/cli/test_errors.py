"""Failures end in one clear line on stderr, with hints below it, and exit code 1."""

from __future__ import annotations

import os
import shlex
import sys
from io import StringIO
from pathlib import Path

import pytest

from herodotus_cli.errors import print_to_stderr
from tests.cli.service import API, Service, command

PODS = f"{API}/namespaces/shop/podexplanations"
MISSING = 'no decision for pod "chekout" in namespace "shop"'
IF_IT_EXISTS = (
    "  if the pod exists: another scheduler decides it, spec.nodeName was set, another client bound it, it waits for"
    " its schedulingGates, or its record was pruned. To see which:\n"
    "  kubectl get pod chekout -n shop -o 'custom-columns="
    "SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,GATES:.spec.schedulingGates[*].name'\n"
)


def failed(capsys: pytest.CaptureFixture[str], *arguments: str, **environ: str) -> str:
    ran = command(*arguments, environ=environ)
    assert (ran.code, ran.out) == (1, "")
    return capsys.readouterr().err


def ask(service: Service, *more: str) -> tuple[str, ...]:
    return ("pod", "chekout", "-n", "shop", "--endpoint", service.url, *more)


def test_unknown_pod_names_similar_ones(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(f"{PODS}/chekout", 404, "NotFound", MISSING, similar=["checkout-7d9f-x2k", "checkout-7d9f-9pp"])
    assert failed(capsys, *ask(service)) == (
        'Error from server (NotFound): no decision for pod "chekout" in namespace "shop"\n'
        "  similar: checkout-7d9f-x2k, checkout-7d9f-9pp\n" + IF_IT_EXISTS
    )


def test_unknown_pod_names_other_namespaces(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(f"{PODS}/chekout", 404, "NotFound", MISSING, similar=[], otherNamespaces=["team-a", "team-b"])
    assert failed(capsys, *ask(service)).partition("\n")[2] == (
        "  in other namespaces: team-a, team-b\n" + IF_IT_EXISTS
    )


def test_unknown_pod_lists_possible_reasons(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(f"{PODS}/chekout", 404, "NotFound", MISSING, similar=[])
    assert failed(capsys, *ask(service)).partition("\n")[2] == IF_IT_EXISTS


NO_RECORDS = (
    "  this service has no records of the cluster's schedulers yet; after an installation they take a minute or two\n"
    "  for an older installation: see the scheduler's log\n"
    "  records of other clusters: kubectl herodotus clusters\n"
)


@pytest.mark.parametrize(
    ("path", "words", "arguments"),
    [
        ("podexplanations/chekout", MISSING, ["pod", "chekout", "-n", "shop"]),
        ("nodehistories/worker-9?since=86400", 'no decision considered node "worker-9"', ["node", "worker-9"]),
        (
            "workloadplacements/deployment.x?since=86400",
            'no decision for deployment "x"',
            ["workload", "deploy/x", "-n", "shop"],
        ),
    ],
    ids=["pod", "node", "workload"],
)
def test_service_without_records_gives_only_that_hint(
    service: Service, capsys: pytest.CaptureFixture[str], path: str, words: str, arguments: list[str]
) -> None:
    """Cover the first minutes after an installation."""
    where = API if path.startswith("node") else f"{API}/namespaces/shop"
    service.refuse(f"{where}/{path}", 404, "NotFound", words, similar=[], noRecords=True)
    said = failed(capsys, *arguments, "--endpoint", service.url)
    assert said == f"Error from server (NotFound): {words}\n{NO_RECORDS}"


def test_hint_command_is_shell_quoted(service: Service, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "my config"
    config.write_text('contexts: [{name: "it\'s mine"}]')
    service.refuse(f"{PODS}/chekout", 404, "NotFound", MISSING)
    given = ["--context", "it's mine", "--kubeconfig", str(config)]
    last = failed(capsys, *ask(service, *given)).splitlines()[-1]
    assert shlex.split(last)[:10] == ["kubectl", "get", "pod", "chekout", "-n", "shop", *given]


def test_unknown_attempt(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(f"{PODS}/chekout?attempt=9", 404, "NotFound", f"{MISSING} with attempt 9")
    assert failed(capsys, *ask(service, "--attempt", "9")).splitlines()[1:] == [
        "  the last attempt: leave out --attempt",
        "  all of them: --attempts",
    ]


def test_unknown_node_of_a_pod(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    words = 'node "x" was not in the cluster when this decision was taken'
    service.refuse(f"{PODS}/chekout?node=x", 404, "NotFound", words, similar=["worker-1"])
    err = failed(capsys, *ask(service, "--node", "x"))
    assert err == f"Error from server (NotFound): {words}\n  similar: worker-1\n"


def test_unknown_node_names_similar_ones(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    words = 'no decision considered node "worker-99"'
    path = f"{API}/nodehistories/worker-99?since=86400"
    service.refuse(path, 404, "NotFound", words, similar=["worker-9"])
    err = failed(capsys, "node", "worker-99", "--endpoint", service.url)
    assert err == f"Error from server (NotFound): {words}\n  similar: worker-9\n"


def test_keeps_other_server_messages(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(f"{PODS}/chekout", 503, "ServiceUnavailable", "the database is unavailable")
    words = "Error from server (ServiceUnavailable): the database is unavailable\n"
    assert failed(capsys, *ask(service)) == words


@pytest.mark.parametrize(
    ("body", "hint"),
    [(b"<html>Welcome to a proxy</html>", "it begins: <html>Welcome to a proxy</html>"), (b"", "it was empty")],
    ids=["page", "empty"],
)
@pytest.mark.parametrize(
    ("code", "status"),
    [(200, ""), (401, " HTTP 401 Unauthorized,"), (502, " HTTP 502 Bad Gateway,"), (599, " HTTP 599,")],
)
def test_rejects_bodies_that_are_no_document(
    service: Service, capsys: pytest.CaptureFixture[str], body: bytes, hint: str, code: int, status: str
) -> None:
    service.answer(f"{PODS}/chekout", body, code)
    assert failed(capsys, *ask(service)) == (
        f"error: {service.url} answered{status} with something that is not a JSON document\n  {hint}\n"
    )


def test_rejects_document_with_http_error(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{PODS}/chekout", {"error": "who are you?"}, 403)
    assert failed(capsys, *ask(service)) == (
        f'error: {service.url} answered HTTP 403 Forbidden\n  it begins: {{"error": "who are you?"}}\n'
    )


def test_escapes_html_pages_of_proxies(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{PODS}/chekout", b"\x1b]0;title\x07page", 500)
    assert failed(capsys, *ask(service)).splitlines()[1] == r"  it begins: \u001b]0;title\u0007page"


def test_unknown_document_form_gives_no_traceback(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{PODS}/chekout", {"kind": "PodExplanation"})
    assert failed(capsys, *ask(service)) == (
        "error: the decisions service returned a document that this version cannot read (KeyError: 'attempt')\n"
        "  compare the versions: kubectl herodotus version\n"
        "  show the document: -o json\n"
    )


def test_redirects_are_not_followed(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{PODS}/chekout", b"", 302)
    assert failed(capsys, *ask(service)).startswith(f"error: {service.url} redirects to http://elsewhere.test/\n")


def test_recognizes_plain_http_service(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    said = failed(capsys, "pod", "x", "--endpoint", service.url.replace("http", "https"))
    assert said.endswith(f"\n  the service speaks plain HTTP:  --endpoint {service.url}\n")


def test_refused_connection(capsys: pytest.CaptureFixture[str]) -> None:
    url = "http://127.0.0.1:1"
    assert failed(capsys, "pod", "x", "-n", "y", "--endpoint", url) == (
        f"error: the decisions service did not answer ({url}: Connection refused)\n"
        f"  is it running there?  curl {url}/livez\n"
    )


def test_time_limit_ends_a_silent_request(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        err = failed(capsys, "pod", "x", "-n", "y", "--endpoint", url, "--request-timeout", "100ms")
    assert err.startswith(f"error: the decisions service did not answer ({url}: no response within 0.1s)\n")


def test_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("over\nthe edge")

    monkeypatch.setattr("herodotus_cli.transport.connect", explode)
    arguments = ("node", "x", "--endpoint", "http://127.0.0.1:1")
    assert failed(capsys, *arguments) == "error: RuntimeError: over the edge\n  for the traceback: HERODOTUS_DEBUG=1\n"
    with pytest.raises(RuntimeError):
        command(*arguments, environ={"HERODOTUS_DEBUG": "1"})


class StderrTerminal(StringIO):
    """A terminal of 40 columns as standard error."""

    def fileno(self) -> int:
        return 2


def test_a_terminal_shows_lines_broken_between_words_and_commands_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StderrTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    long = f"  kubectl {'x' * 50} y"
    print_to_stderr("  similar: ingress-6f8c66fbd5-9pcvg, ingress-6f8c66fbd5-xclvs", long)
    assert terminal.getvalue().splitlines() == [
        "  similar: ingress-6f8c66fbd5-9pcvg,",
        "    ingress-6f8c66fbd5-xclvs",
        long,
    ]
    terminal.truncate(terminal.seek(0))
    print_to_stderr("Error: a report is html, md, svg; ask without report: kubectl herodotus pod payments-0 -o json")
    assert terminal.getvalue().splitlines() == [
        "Error: a report is html, md, svg; ask",
        "  without report:",
        "  kubectl herodotus pod payments-0 -o json",
    ]


def test_the_command_for_a_workload_has_its_whole_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = "deployment.apps/" + "web-" * 20 + "x"
    assert command("pod", name).code == 2
    assert capsys.readouterr().err.endswith(f"\n  kubectl herodotus workload {name}\n")
    assert command("pod", "deploy/a b").code == 2
    assert "workload" not in capsys.readouterr().err


def test_the_command_for_a_workload_has_the_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pod", "deploy/web", "-n", "shop").code == 2
    assert capsys.readouterr().err.endswith("\n  kubectl herodotus workload deploy/web -n shop\n")
