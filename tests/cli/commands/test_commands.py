"""Command lines from arguments to text, against a service on loopback (`--endpoint`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_answers.pending import PendingPod, build_pending_pods
from herodotus_cli.commands import COMMANDS
from herodotus_record.version import __version__
from tests.cli.scenes import a_pending, attempts, compared_nodes, compared_pods, explained, placed
from tests.cli.service import API, Service, command
from tests.support.screens import expect

POD = "checkout-7d9f-x2k"
NODE_PAIR = compared_nodes("worker-7", "worker-3")
EXPLANATION = f"{API}/namespaces/shop/podexplanations/{POD}"


@pytest.fixture
def placed_pod(service: Service) -> Service:
    service.answer(EXPLANATION, placed())
    return service


@pytest.mark.parametrize(
    "arguments",
    [
        ("pod", POD, "-n", "shop", "--endpoint", "URL"),
        ("pod", "-n", "shop", "--endpoint", "URL", POD),
        ("-n", "shop", "--endpoint", "URL", "pod", POD),
        ("--namespace=shop", "pod", f"pod/{POD}", "--endpoint=URL"),
        ("-n", "other", "pod", f"po/{POD}", "-nshop", "--endpoint", "URL"),
        ("--endpoint", "http://127.0.0.1:1", "pod", f"pods/{POD}", "-n", "shop", "--endpoint", "URL/"),
    ],
    ids=" ".join,
)
def test_later_of_two_options_wins_before_or_after_the_command(placed_pod: Service, arguments: tuple[str, ...]) -> None:
    ran = command(*(a.replace("URL", placed_pod.url) for a in arguments))
    assert (ran.code, placed_pod.requests) == (0, [EXPLANATION])
    assert "On worker-7: best of 5 feasible nodes out of 12" in ran.out


def test_reads_endpoint_from_environment(placed_pod: Service) -> None:
    assert command("pod", POD, "-n", "shop", environ={"HERODOTUS_ENDPOINT": placed_pod.url}).code == 0


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        (("--attempt", "3"), "?attempt=3"),
        (("--all",), "?all=true"),
        (("--node", "node/worker-3"), "?node=worker-3"),
        (("--all", "--attempt", "1"), "?attempt=1&all=true"),
    ],
    ids=str,
)
def test_pod_sends_one_request(service: Service, arguments: tuple[str, ...], query: str) -> None:
    service.answer(EXPLANATION + query, placed(every_node="all" in query, node="worker-3" if "node" in query else ""))
    ran = command("pod", POD, "-n", "shop", "--endpoint", service.url, *arguments)
    assert (ran.code, service.requests) == (0, [EXPLANATION + query])


HISTORY = f"{API}/namespaces/shop/podhistories/payments-0"
PAIR = f"{API}/namespaces/shop/podcomparisons/a?with=b"
TRIES = f"{API}/namespaces/shop/podcomparisons/a?with=a"
NODES = f"{API}/namespaces/shop/nodecomparisons/a?a=worker-7&b=worker-3"


@pytest.mark.parametrize(
    ("arguments", "path", "document", "said"),
    [
        (("pod", "payments-0", "--attempts"), HISTORY, attempts(), "WHAT CHANGED"),
        (("compare", "pod", "a", "b"), PAIR, compared_pods(), "FOR checkout-7d9f-9pp"),
        (("compare", "pod/a", "pod/b"), PAIR, compared_pods(), "FOR checkout-7d9f-9pp"),
        (("compare", "a", "--attempts", "1", "2"), f"{TRIES}&attempt=1&withAttempt=2", compared_pods(), ""),
        (("compare", "pod", "a", "--nodes", "worker-7", "node/worker-3"), NODES, NODE_PAIR, "21 points ahead"),
        (("compare", "a", "--nodes", "worker-7", "worker-3", "--attempt", "2"), f"{NODES}&attempt=2", NODE_PAIR, ""),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_compare_and_attempts_send_one_request(
    service: Service, arguments: tuple[str, ...], path: str, document: Any, said: str
) -> None:
    service.answer(path, document)
    ran = command(*arguments, "-n", "shop", "--endpoint", service.url)
    assert (ran.code, service.requests, said in ran.out) == (0, [path], True)
    as_document = command(*arguments, "-n", "shop", "--endpoint", service.url, "-o", "json")
    assert json.loads(as_document.out) == document


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("pending", "-A"), f"{API}/pendingpods"),
        (("pending", "-n", "shop"), f"{API}/namespaces/shop/pendingpods"),
        (
            ("workload", "deploy/web", "-n", "shop"),
            f"{API}/namespaces/shop/workloadplacements/deployment.web?since=86400",
        ),
        (
            ("podgroup", "podgroups.scheduling.k8s.io/train", "-n", "ml"),
            f"{API}/namespaces/ml/podgroupplacements/train",
        ),
        (
            ("workload", "statefulsets.apps/db", "-n", "shop", "--since", "7d"),
            f"{API}/namespaces/shop/workloadplacements/statefulset.db?since=604800",
        ),
        (
            ("workload", "shop/StatefulSet/db"),  # as lists print it
            f"{API}/namespaces/shop/workloadplacements/statefulset.db?since=86400",
        ),
        (("pod", "shop/web-0"), f"{API}/namespaces/shop/podexplanations/web-0"),
        (("balance", "--since", "1h"), f"{API}/balances?since=3600"),
        (("disagreements", "-A"), f"{API}/agreements?since=86400"),
        (
            ("disagreements", "-n", "shop", "--since", "1h", "--scheduler", "batch"),
            f"{API}/namespaces/shop/agreements?since=3600&profile=batch",
        ),
        (
            ("balance", "--weights", "A=5, B=0", "--profile", "p", "--decisions", "9"),
            f"{API}/balances?since=86400&weights=A%3D5%2CB%3D0&profile=p&limit=9",
        ),
        (("pending", "-A", "-l", "app in (a, b)"), f"{API}/pendingpods?labelSelector=app%20in%20%28a%2C%20b%29"),
        (
            ("workload", "deploy/web", "-n", "shop", "-l", "a=b"),
            f"{API}/namespaces/shop/workloadplacements/deployment.web?since=86400&labelSelector=a%3Db",
        ),
        (("balance", "--selector", "a=b"), f"{API}/balances?since=86400&labelSelector=a%3Db"),
        (("disagreements", "-A", "-l", "!a"), f"{API}/agreements?since=86400&labelSelector=%21a"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_surveys_send_one_request(service: Service, arguments: tuple[str, ...], path: str) -> None:
    service.answer(path, {"kind": "Anything"})
    ran = command(*arguments, "--endpoint", service.url, "-o", "json")
    assert (ran.code, service.requests, json.loads(ran.out)) == (0, [path], {"kind": "Anything"})


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("node worker-1", f"{API}/nodehistories/worker-1?since=86400"),
        ("balance", f"{API}/balances?since=86400"),
        ("version", f"{API}/serviceversions"),
    ],
)
def test_ignores_namespace_for_cluster_scoped_answers(service: Service, words: str, path: str) -> None:
    """`kubectl get node NAME -n NAMESPACE` works too."""
    service.answer(path, {"kind": "Anything"})
    end = ["--endpoint", service.url, "-o", "json"]
    for arguments in (
        [*words.split(), "-n", "shop"],
        ["-n", "shop", *words.split()],
        [*words.split(), "--namespace=x"],
    ):
        assert command(*arguments, *end).code == 0
    assert service.requests == [path] * 3


def test_without_observations_prints_how_to_observe(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{API}/agreements?since=86400", {"kind": "Agreements", "schedulers": []})
    ran = command("disagreements", "-A", "--endpoint", service.url)
    said, hint = capsys.readouterr().err.splitlines()
    assert (ran.code, ran.out, said) == (0, "", "No decisions of other schedulers were observed.")
    assert "kubectl apply -f deploy/observer.yaml" in hint


def test_prints_on_stderr_that_nothing_is_pending(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(f"{API}/namespaces/shop/pendingpods", build_pending_pods([], now_us=0, namespace="shop"))
    ran = command("pending", "-n", "shop", "--endpoint", service.url)
    assert (ran.code, ran.out) == (0, "")
    assert capsys.readouterr().err == "No pending pods in shop namespace; every namespace: -A.\n"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("pdo", ("pod",)),
        ("balanse", ("balance",)),
        ("drain", ("whatif drain",)),
        ("cordn", ("whatif cordon", "whatif uncordon")),
        ("rollout", ("workload",)),
        ("cordon", ("whatif cordon",)),
        ("evict", ("whatif drain", "preemptions")),
        ("move", ("whatif drain",)),
        ("xyzzy", ()),
    ],
)
def test_unknown_command_suggests_similar_one(
    capsys: pytest.CaptureFixture[str], word: str, meant: tuple[str, ...]
) -> None:
    assert command(word).code == 2
    said = capsys.readouterr().err.partition("Error: ")[2].splitlines()
    assert said[0] == f'unknown command "{word}" for "kubectl herodotus"'
    assert said[1:] == [*["", "Did you mean this?"] * bool(meant), *(f"  kubectl herodotus {each}" for each in meant)]


def test_prints_one_name_per_line(service: Service) -> None:
    waiting = [PendingPod("shop", pod, pod, None, "p", "Unschedulable", 1, 0, "", "d") for pod in ("a", "b")]
    service.answer(f"{API}/pendingpods", build_pending_pods(waiting, now_us=0))
    assert command("pending", "-A", "-o", "name", "--endpoint", service.url).out == "pod/a\npod/b\n"


def test_hint_is_about_the_missing_pod(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(PAIR, 404, "NotFound", 'no decision for pod "b" in namespace "shop"', name="b", similar=["b-1"])
    assert command("compare", "pod", "a", "b", "-n", "shop", "--endpoint", service.url).code == 1
    err = capsys.readouterr().err
    assert "similar: b-1" in err
    assert "kubectl get pod b -n shop" in err


def test_prints_documents_unchanged(placed_pod: Service) -> None:
    arguments = ("pod", POD, "-n", "shop", "--endpoint", placed_pod.url)
    assert json.loads(command(*arguments, "-o", "json").out) == placed()
    assert yaml.safe_load(command(*arguments, "-o", "yaml").out) == placed()
    assert command(*arguments, "-o", "name").out == f"pod/{POD}\n"


def test_full_requests_the_full_record(service: Service) -> None:
    service.answer(f"{API}/namespaces/shop/decisions/{POD}?attempt=2", {"kind": "Decision"})
    ran = command("pod", POD, "-n", "shop", "--endpoint", service.url, "--full", "-o", "json", "--attempt", "2")
    assert json.loads(ran.out) == {"kind": "Decision"}


@dataclass(frozen=True)
class Colour:
    arguments: tuple[str, ...]
    environ: dict[str, str]
    width: int
    wanted: bool


@pytest.mark.parametrize(
    "case",
    [
        Colour((), {}, 80, True),
        Colour((), {}, 0, False),
        Colour((), {"NO_COLOR": "1"}, 80, False),
        Colour((), {"TERM": "dumb"}, 80, False),
        Colour(("--color", "always"), {"NO_COLOR": "1"}, 0, True),
        Colour(("--color", "never"), {}, 80, False),
        Colour(("-o", "json", "--color", "always"), {}, 80, False),
    ],
    ids=str,
)
def test_colours_terminals_and_on_demand(placed_pod: Service, case: Colour) -> None:
    ran = command(
        "pod", POD, "-n", "shop", "--endpoint", placed_pod.url, *case.arguments, environ=case.environ, width=case.width
    )
    assert ("\x1b[" in ran.out) == case.wanted


@pytest.mark.parametrize(
    "arguments",
    [
        ("pod", "a", "b"),
        ("pod", "a", "--frobnicate"),
        ("pod", "node/a"),
        ("pod", "pod/"),
        ("pod", "deploy/web"),
        ("pod", "shop/web-0", "-n", "other"),
        ("pod", "a", "--full"),
        ("pod", "a", "--full", "-o", "json", "--all"),
        ("pod", "a", "-o", "xml"),
        ("pod", "a", "--as", "u", "--endpoint", "http://127.0.0.1:1"),
        ("pod", "a", "--as-group", "g"),
        ("pod", "a", "--attempt", "0"),
        ("pod", "a", "--attempts", "--node", "x"),
        ("pod", "a", "--attempts", "--full", "-o", "json"),
        ("compare", "pod"),
        ("compare", "pod", "a"),
        ("compare", "pod", "a", "a"),
        ("compare", "pod", "a", "b", "c"),
        ("compare", "pod", "a", "b", "--nodes", "x", "y"),
        ("compare", "pod", "a", "--nodes", "x", "x"),
        ("compare", "pod", "a", "b", "--attempt", "2"),
        ("compare", "pod", "a", "--attempts", "2", "2"),
        ("compare", "pod", "a", "b", "--attempts", "1", "2"),
        ("compare", "pod", "a", "--nodes", "x", "y", "--attempts", "1", "2"),
        ("compare", "node", "a", "b"),
        ("pod", "a", "--attempt", "x"),
        ("pod", "a", "--endpoint", "localhost:8000"),
        ("pod", "a", "--endpoint", "http://127.0.0.1:99999"),
        ("pod", "a", "--endpoint", "http://127.0.0.1:0"),
        ("pod", "a", "--endpoint", "http://:80"),
        ("pod", "a", "--endpoint", "http://a\x1bb"),
        ("pod", "a", "--service", "nonsense"),
        ("pod", "a", "--service", "a/b:99999999"),
        ("pod", "a", "--service", "a/b:0"),
        ("pod", "a", "--service", "../b:80"),
        ("\x1b[31m",),
        ("pod", "a", "--\x1b[31m"),
        ("pod", "a", "--request-timeout", "soon"),
        ("node", "a", "--since", "yesterday"),
        ("frobnicate",),
        ("balance", "--weights", "Fit"),
        ("balance", "--weights", "Fit=-1"),
        ("balance", "--decisions", "0"),
        ("pending", "-A", "-n", "shop"),
        ("workload",),
        ("workload", "shop/a/b/web"),
        ("workload", "pod/web"),
        ("podgroup", "pod/web"),
        ("podgroup",),
        ("workload", "deploy/"),
        ("workload", "deploy/../x"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_with_a_message(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    err = capsys.readouterr().err
    assert "Usage: kubectl herodotus" in err
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["a\x1b[31m", "\udcff\udcfe", "a b", "..", "../x", "x" * 254, "ä", "a\n"], ids=ascii)
def test_rejects_invalid_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("pod", name), ("pod", "a", "-n", name), ("pod", "a", "--node", name), ("node", name)):
        assert command(*arguments).code == 2
        *_, last = capsys.readouterr().err.splitlines()
        assert last.endswith(" is not a valid name")
        assert last.isprintable()


def test_rejects_path_traversal_in_kubeconfig_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config"
    config.write_text("current-context: a\ncontexts: [{name: a, context: {namespace: ..}}]")
    assert command("pod", "x", environ={"KUBECONFIG": str(config)}).code == 1
    assert capsys.readouterr().err == "error: kubeconfig: namespace '..' is not a valid name\n"


@pytest.mark.parametrize("command_line", ["node worker-1", "workload deploy/web", "balance", "disagreements"])
def test_rejects_duration_of_zero(command_line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*command_line.split(), "--since", "0").code == 2
    assert "'0' must be longer than 0: write 1h, 24h or 7d" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for flag in ("-h", "--help"):
        ran = command(*([name] if name else []), flag)
        assert ran.code == 0
        assert max(map(len, ran.out.splitlines())) <= 80
        expect(f"help{'-' * bool(name)}{name}", ran.out)


def test_prints_both_versions(service: Service) -> None:
    service.answer(f"{API}/serviceversions", {"version": "9.9.9"})
    assert command("version", "--endpoint", service.url).out == (
        f"Client Version: {__version__}\nServer Version: 9.9.9\n"
    )
    both = json.loads(command("version", "-o", "json", "--endpoint", service.url).out)
    assert both == {"clientVersion": __version__, "serverVersion": "9.9.9"}
    assert command("version", "--client").out == f"Client Version: {__version__}\n"


@pytest.mark.parametrize(
    ("server", "warned"), [("0.1.9", False), ("0.2.0", False), ("0.3.0", True), ("1.1.0", True), ("unknown", False)]
)
def test_warns_about_version_skew(
    service: Service, capsys: pytest.CaptureFixture[str], server: str, warned: bool
) -> None:
    service.answer(f"{API}/serviceversions", {"version": server})
    assert command("version", "--endpoint", service.url).code == 0
    assert capsys.readouterr().err.startswith("WARNING: version difference between client (0.1)") is warned


def test_utc_prints_times_instead_of_ages(placed_pod: Service) -> None:
    ran = command("pod", POD, "-n", "shop", "--endpoint", placed_pod.url, "--utc")
    assert "scheduled at 2026-03-01T12:00:00Z, attempt 1" in ran.out


def test_no_headers_omits_headers(placed_pod: Service) -> None:
    ran = command("pod", POD, "-n", "shop", "--endpoint", placed_pod.url, "--no-headers")
    assert "RANK" not in ran.out


def test_namespace_defaults_to_the_kubeconfigs(service: Service, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("current-context: a\ncontexts: [{name: a, context: {namespace: shop}}]")
    service.answer(f"{API}/namespaces/shop/podexplanations/payments-0", explained(a_pending()))
    ran = command("pod", "payments-0", "--endpoint", service.url, environ={"KUBECONFIG": str(config)})
    assert (ran.code, "No node fits:" in ran.out) == (0, True)


def test_namespace_is_default_without_kubeconfig(service: Service, tmp_path: Path) -> None:
    command("pod", "x", "--endpoint", service.url, environ={"HOME": str(tmp_path)})
    assert service.requests == [f"{API}/namespaces/default/podexplanations/x"]


def test_does_not_read_kubeconfig_when_not_needed(placed_pod: Service, tmp_path: Path) -> None:
    broken = tmp_path / "config"
    broken.write_text("{")
    environ = {"KUBECONFIG": str(broken)}
    assert command("pod", POD, "-n", "shop", "--endpoint", placed_pod.url, environ=environ).code == 0
    assert command("pod", POD, "--endpoint", placed_pod.url, environ=environ).code == 1


@pytest.mark.parametrize("name", ["HERODOTUS_ENDPOINT", "HERODOTUS_SERVICE"])
def test_error_names_the_wrong_variable(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pod", "x", "-n", "y", environ={name: "nonsense"}).code == 2
    assert f"Error: {name}: 'nonsense' is not " in capsys.readouterr().err
