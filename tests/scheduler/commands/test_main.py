"""The command line: exit codes, and one line for each way not to run. Most in this process; a few as real ones."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from herodotus_record.version import __version__
from herodotus_serving.sockets import Address
from scheduler.commands import main as app
from scheduler.engine.records.omitted_labels import OmittedLabels
from scheduler.serving.port import ServingOptions, parse_serving_options
from tests.scheduler.builders import make_node, make_pod
from tests.support.configurations import HEAD
from tests.support.kubeconfigs import write_kubeconfig

ROOT = Path(__file__).parents[3]
Captured = pytest.CaptureFixture[str]


def written(directory: Path, text: str) -> str:
    path = directory / "config.yaml"
    path.write_text(HEAD + text)
    return str(path)


def refused(capsys: Captured, *arguments: str) -> str:
    """Run a command that exits with 1 and return its single line on standard error."""
    assert app.main(arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_validate_prints_every_default(tmp_path: Path, capsys: Captured) -> None:
    assert app.main(["validate", written(tmp_path, "")]) == 0
    said = capsys.readouterr()
    printed = yaml.safe_load(said.out)
    assert said.err == ""
    assert (printed["parallelism"], printed["leaderElection"]["leaseDuration"]) == (16, "15s")
    assert [p["schedulerName"] for p in printed["profiles"]] == ["herodotus-scheduler"]


def test_validated_configuration_is_valid_and_equal(tmp_path: Path, capsys: Captured) -> None:
    text = "parallelism: 3\nprofiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}]"
    app.main(["validate", written(tmp_path, text)])
    first = capsys.readouterr().out
    again = tmp_path / "again.yaml"
    again.write_text(first)
    assert app.main(["validate", str(again)]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paralelism: 4", '{path}: unknown field "paralelism"'),
        (
            "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: Nope}]}}}]",
            '{path}: profiles[0]: FilterPlugin "Nope" does not exist',
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: NodeName, args: {x: 1}}]}]",
            "{path}: profiles[1].pluginConfig[0].args: plugin NodeName takes no arguments",
        ),
    ],
    ids=["the file", "a profile", "another profile"],
)
def test_validate_refuses_in_one_line(tmp_path: Path, capsys: Captured, text: str, message: str) -> None:
    path = written(tmp_path, text)
    assert refused(capsys, "validate", path) == f"error: {message.format(path=path)}"


@pytest.mark.parametrize("command", ["validate", "run --config", "evaluate --config"])
def test_a_missing_file_is_named(tmp_path: Path, capsys: Captured, command: str) -> None:
    path = str(tmp_path / "absent.yaml")
    assert refused(capsys, *command.split(), path) == f"error: {path}: No such file or directory"


def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: Captured, data: bytes) -> tuple[int, list[Any], list[str]]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    code = app.main(["evaluate"])
    said = capsys.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines()], said.err.splitlines()


def case(name: str, **changes: Any) -> bytes:
    node = make_node("n").json | {"kind": "Node"}
    return (
        json.dumps({"id": name, "objects": [node], "pod": make_pod().request(cpu="1").json} | changes).encode() + b"\n"
    )


def test_evaluate_answers_each_case(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    code, answers, errors = evaluate(monkeypatch, capsys, case("a") + b"\n" + case("b", objects=[]))
    assert (code, errors) == (0, [])
    assert [(a["id"], a["expect"]["feasible"]) for a in answers] == [("a", ["n"]), ("b", None)]
    assert answers[0]["expect"]["totals"] == {"n": 454}  # 3 × 100 (taints), 86 (room), 68 (balance)
    assert answers[1]["expect"]["fitError"] == "no nodes available to schedule pods"


BAD_PREFERENCE = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Near"}]}}
        ]
    }
}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"{\n", "line 2: not JSON: "),
        (b'{"id": NaN}\n', "line 2: not JSON: "),
        (b'{"id": "\\ud800"}\n', "line 2: not JSON: "),
        (b'{"id": ' + b"9" * 5000 + b"}\n", "line 2: not JSON: "),
        (b"[1]\n", "line 2: a case is a JSON object"),
        (b'"\xff"\n', "line 2: a case is a JSON object"),
        (b"[" * 100_000 + b"\n", "line 2: not JSON: "),
        (case("x", pod=None), "case x: pod: expected an object"),
        (
            case("x", pod={"spec": {"containers": 3}}),
            "case x: pod (Pod): spec.containers: Expected `array | null`, got `int`",
        ),
        (
            case("x", pod=make_pod().request(cpu="much").json),
            "case x: pod: spec.containers[0].resources.requests.cpu: 'much' is not a quantity",
        ),
        (
            case("x", pod=make_pod().json | {"metadata": {"name": "p", "creationTimestamp": "2026-03-01"}}),
            "case x: pod: metadata.creationTimestamp: '2026-03-01' is not an RFC 3339 time",
        ),
        (case("x", objects=3), "case x: objects: expected an array"),
        (case("x", objects=["n"]), "case x: objects[0]: expected an object"),
        (
            case("x", objects=[{"kind": "Node", "spec": {"taints": 3}}]),
            "case x: objects[0] (Node): spec.taints: Expected ",
        ),
        (
            case("x", objects=[make_node().allocatable(cpu="x").json | {"kind": "Node"}]),
            "case x: objects[0] (Node n): status.allocatable.cpu: 'x' is not a quantity",
        ),
        (case("x", config={"kind": "x"}), "case x: expected apiVersion "),
        (case("x", config="nonsense"), "case x: expected a mapping with apiVersion and kind"),
    ],
)
def test_a_malformed_case_is_named_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, bad: bytes, message: str
) -> None:
    code, answers, errors = evaluate(monkeypatch, capsys, case("a") + bad + case("b"))
    assert code == 1
    assert [a["id"] for a in answers] == ["a", "b"]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {message}")


def test_a_case_whose_scores_fail_is_answered_without_them(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """With one feasible node kube-scheduler never scores: the error is not the case's."""
    pod = make_pod().with_spec(affinity=BAD_PREFERENCE).json
    code, answers, errors = evaluate(monkeypatch, capsys, case("a", pod=pod))
    assert (code, errors, answers[0]["expect"]["feasible"]) == (0, [], ["n"])
    assert "totals" not in answers[0]["expect"]


class TestRunRefuses:
    def test_the_stock_schedulers_name(self, tmp_path: Path, capsys: Captured) -> None:
        path = written(tmp_path, "profiles: [{schedulerName: default-scheduler}]")
        assert refused(capsys, "run", "--config", path) == (
            'error: a profile is named "default-scheduler", which the cluster\'s own scheduler serves;'
            " give --replace-default-scheduler once the cluster's own scheduler is stopped"
        )

    @pytest.mark.parametrize("flag", [[], ["--leader-elect"]])
    def test_the_stock_schedulers_lease(self, tmp_path: Path, capsys: Captured, flag: list[str]) -> None:
        elect = "false" if flag else "true"
        path = written(tmp_path, f"leaderElection: {{leaderElect: {elect}, resourceName: kube-scheduler}}")
        assert refused(capsys, "run", "--config", path, *flag) == (
            "error: the Lease kube-system/kube-scheduler is the cluster's own scheduler's;"
            " give --replace-default-scheduler once the cluster's own scheduler is stopped"
        )

    def test_pods_of_other_schedulers_where_it_would_bind_them(self, capsys: Captured) -> None:
        said = refused(capsys, "run", "--schedulers", "default-scheduler")
        assert said == "error: --schedulers goes with --dry-run-binding: pods of others are looked at, never bound"

    def test_a_service_to_deliver_to_where_nothing_is_recorded(self, capsys: Captured) -> None:
        said = refused(capsys, "run", "--no-record", "--endpoint", "http://127.0.0.1:1")
        assert said == "error: --no-record leaves nothing to deliver to --endpoint: give one of them"

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (("https://service", "--endpoint-ca-file", "/ca.crt"), "-ca-file or --endpoint-ca-configmap, not both"),
            (("http://127.0.0.1:1",), "go with an https:// --endpoint"),
        ],
        ids=["and of a file", "without TLS"],
    )
    def test_the_authority_of_a_config_map(self, capsys: Captured, flags: tuple[str, ...], message: str) -> None:
        said = refused(capsys, "run", "--endpoint-ca-configmap", "herodotus/ca", "--endpoint", *flags)
        assert said.startswith("error: ")
        assert said.endswith(message)

    def test_a_dry_run_with_the_stock_schedulers_lease_but_not_with_its_name(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        lease = written(tmp_path, "leaderElection: {resourceName: kube-scheduler}")
        said = refused(capsys, "run", "--config", lease, "--dry-run-binding", "--schedulers", "default-scheduler")
        assert said.startswith("error: the Lease kube-system/kube-scheduler is the cluster's own scheduler's")
        own = refused(
            capsys, "run", "--dry-run-binding", "--schedulers", "default-scheduler", "--master", "localhost:8080"
        )
        assert own == "error: --master localhost:8080: expected a URL such as http://127.0.0.1:8001"

    def test_a_kubeconfig_without_the_context(self, tmp_path: Path, capsys: Captured) -> None:
        path = write_kubeconfig(tmp_path)
        message = 'error: context "nope" does not exist in the kubeconfig'
        assert refused(capsys, "run", "--kubeconfig", path, "--context", "nope") == message

    def test_a_missing_kubeconfig(self, tmp_path: Path, capsys: Captured) -> None:
        path = str(tmp_path / "absent")
        assert refused(capsys, "run", "--kubeconfig", path).startswith(f"error: kubeconfig {path}: ")

    def test_a_master_that_is_no_url(self, capsys: Captured) -> None:
        line = "error: --master localhost:8080: expected a URL such as http://127.0.0.1:8001"
        assert refused(capsys, "run", "--master", "localhost:8080") == line

    def test_invalid_plugins_are_refused_before_the_first_request(self, tmp_path: Path, capsys: Captured) -> None:
        path = written(tmp_path, "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: Nope}]}}}]")
        said = refused(capsys, "run", "--config", path, "--master", "http://127.0.0.1:9")
        assert said == 'error: profiles[0]: FilterPlugin "Nope" does not exist'

    def test_a_port_that_is_taken(self, capsys: Captured) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            said = refused(
                capsys, "run", "--master", "http://127.0.0.1:9", "--bind-address", "127.0.0.1", "--secure-port", port
            )
        where = f"cannot serve on 127.0.0.1:{port} (--bind-address, --secure-port)"
        assert said == f"error: {where}: Address already in use"

    def test_an_address_for_probes_that_is_taken(self, capsys: Captured) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            said = refused(capsys, "run", "--master", "http://127.0.0.1:9", "--secure-port", "0", "--probe-bind", where)
        assert said == f"error: cannot serve on {where} (--probe-bind): Address already in use"

    def test_a_certificate_without_its_key(self, capsys: Captured, tmp_path: Path) -> None:
        said = refused(capsys, "run", "--master", "http://127.0.0.1:9", "--tls-cert-file", str(tmp_path))
        assert said.endswith("--tls-cert-file and --tls-private-key-file must be given together")

    @pytest.mark.parametrize(
        ("status", "body", "words"),
        [
            (200, b"<html>a web page</html>", "does not answer as a Kubernetes API server does"),
            (200, b"[]", "does not answer as a Kubernetes API server does"),
            (401, b'{"message": "Unauthorized"}', "refuses us: Unauthorized"),
            (403, b'{"message": "forbidden"}', "refuses us: forbidden"),
        ],
    )
    def test_unreachable_or_refusing_server_is_an_error(
        self, capsys: Captured, status: int, body: bytes, words: str
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                url = f"http://127.0.0.1:{server.server_port}"
                assert refused(capsys, "run", "--master", url, "--secure-port", "0").endswith(words)
            finally:
                server.shutdown()
                thread.join()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["validate"],
        ["run", "--spool-limit", "much"],
        ["run", "--spool-limit", "0"],
        ["run", "--spool-limit", "63Ki"],
        ["run", "--spool-limit", "1025Ti"],
        ["run", "--spool-limit", "-1Mi"],
        ["run", "--secure-port", "٤٤٣"],
        ["run", "--v", "-1"],
        ["observe", "--window", "nan"],
        ["run", "--omit-labels", "app=web"],
        ["run", "--secure-port", "65536"],
        ["run", "--secure-port", "https"],
        ["run", "--authorization-always-allow-paths", "healthz"],
        ["run", "--logging-format", "yaml"],
        ["run", "--endpoint", "ftp://x"],
        ["run", "--endpoint", "http://x/path"],
        ["ship"],
        ["run", "--v", "loud"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as raised:
        app.main(arguments)
    assert raised.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_sizes_and_urls() -> None:
    parse = app._parser().parse_args
    assert parse(["run", "--spool-limit", "512Mi"]).spool_limit == 512 << 20
    assert parse(["run", "--endpoint", "http://x:1/"]).endpoint == "http://x:1"
    assert parse(["run"]).spool_limit == 1 << 30
    assert parse(["observe", "--omit-labels", "person,x.io/*"]).omit_labels == OmittedLabels(("person", "x.io/*"))
    assert parse(["run", "--no-leader-elect"]).leader_elect is False


def test_options_of_the_port_are_kube_scheduler_s() -> None:
    parsed = app._parser().parse_args(
        [
            *("run", "--secure-port", "443", "--bind-address", "::", "--tls-cert-file", "c", "--cert-dir", "d"),
            *("--tls-private-key-file", "k", "--client-ca-file", "a"),
            *("--authorization-always-allow-paths", "/healthz,/metrics", "--logging-format", "json"),
        ]
    )
    files = Path("c"), Path("k"), Path("d"), Path("a")
    assert parse_serving_options(parsed) == ServingOptions("::", 443, ("/healthz", "/metrics"), (), *files)
    assert parsed.logging_format == "json"
    parsed = app._parser().parse_args(["observe", "--probe-bind", "[::]:8002"])
    assert parse_serving_options(parsed).probes == (Address("::", 8002),)
    default = parse_serving_options(app._parser().parse_args(["run"]))
    assert default == ServingOptions("0.0.0.0", 10259, ("/healthz", "/readyz", "/livez"))


def command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **more,
    )


def test_as_a_process(tmp_path: Path) -> None:
    version = command("--version")
    assert (version.returncode, version.stdout) == (0, f"{__version__}\n")
    wrong = command("validate", str(tmp_path))
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (1, "", f"error: {tmp_path}: Is a directory\n")


def test_closed_standard_output_ends_the_command() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler", "evaluate"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(case("a") * 50, timeout=100)
        assert (process.returncode, errors) == (1, b"")


BETA = "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\nhealthzBindAddress: ':1'\n"


class TestBetaConfigurations:
    """Read with a flag, or converted once."""

    def test_the_flag_reads_them_and_warns_once_of_the_version(self, tmp_path: Path) -> None:
        (tmp_path / "old.yaml").write_text(BETA)
        done = command("validate", "--accept-legacy-config", str(tmp_path / "old.yaml"))
        assert done.returncode == 0
        assert yaml.safe_load(done.stdout)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
        version, field = done.stderr.splitlines()
        assert version[0] == field[0] == "W"
        assert "v1beta2 is deprecated: kube-scheduler removed it in v1.28" in version
        assert "healthzBindAddress: left out" in field

    def test_converted_configuration_is_equivalent(self, tmp_path: Path, capsys: Captured) -> None:
        old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
        old.write_text(BETA)
        assert app.main(["convert-config", str(old), "-o", str(new)]) == 0
        assert "is deprecated" not in capsys.readouterr().err
        assert app.main(["validate", str(new)]) == 0
        converted = capsys.readouterr().out
        app.main(["validate", "--accept-legacy-config", str(old)])
        assert capsys.readouterr().out == converted
        assert app.main(["convert-config", str(new)]) == 0
        assert capsys.readouterr().out == new.read_text()

    def test_an_output_that_cannot_be_written_is_named(self, tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "old.yaml").write_text(BETA)
        assert refused(capsys, "convert-config", str(tmp_path / "old.yaml"), "-o", str(tmp_path)).endswith(
            f"error: {tmp_path}: Is a directory"
        )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["run"], id="run"),
        pytest.param(["observe"], id="observe"),
        pytest.param(["evaluate", "--cluster", "absent", "--pod", "absent"], id="evaluate"),
        pytest.param(["replay", "absent"], id="replay"),
        pytest.param(["snapshot", "absent"], id="snapshot"),
    ],
)
def test_each_command_that_decides_takes_feature_gates(arguments: list[str], capsys: Captured) -> None:
    """The refusal of a locked gate shows that the command reads its value, before it reads anything else."""
    line = refused(capsys, *arguments, "--feature-gates", "DRAAdminAccess=false")
    locked = "cannot set feature gate DRAAdminAccess to false, feature is locked to true"
    assert line == f"error: {locked}"
