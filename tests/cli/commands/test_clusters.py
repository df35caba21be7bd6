"""`clusters` and `--cluster` with a real decisions service that has the records of two clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from herodotus_cli.completion import complete
from herodotus_cli.environment import Environment
from herodotus_client import Client, ServiceError, explain_pod, list_clusters, review_placement
from herodotus_record import codec
from herodotus_record.model import Gap
from herodotus_serving.threads import serve_in_thread
from tests.builders import CLUSTER, INCARNATION, MONDAY_US
from tests.cli.scenes import NOW
from tests.cli.service import Out, command
from tests.endpoint.reviewer import Reviewer
from tests.endpoint.service import Service, a_service
from tests.scheduler.serving.authorities import Authority
from tests.support.kubectls import KUBECTLS
from tests.support.two_clusters import ALL_OF_SHOP, HERE, OF_NODES, OTHER, OWNER, POD, here, there

NAMES = {"sender-b": OTHER}
ASK = ("pod", POD, "-n", "shop")
SHARED = f"several clusters have records; name one (cluster=, or --cluster of the plugin): {CLUSTER}, {OTHER}"


def serve(service: Service) -> Any:
    return serve_in_thread(make_server("127.0.0.1", 0, service.client.application, threaded=True))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service without access control and API server, whose senders present certificates."""
    opened = a_service(tmp_path, senders=Reviewer().senders(NAMES, authority="a CA"))
    for cluster, frames in ((CLUSTER, here()), (OTHER, there())):
        opened.store.writer.store(((frame, codec.encode(frame)) for frame in frames), cluster)
    yield opened
    opened.store.close()


def pod_manifest() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with serve(service) as found:
        yield found


@pytest.fixture
def api() -> Reviewer:
    return Reviewer(tokens={"ada's": ("ada", "")})


@pytest.fixture(params=KUBECTLS, ids=lambda k: Path(k).parent.parent.name)
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, api: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Return the environment of a real kubectl whose user ada reads a service with access control, by a token."""
    opened = a_service(tmp_path, access=api.access())
    opened.stored(*here())
    opened.stored(*there())
    certificate, key = Authority(tmp_path).server("localhost")  # kubectl sends no token without TLS
    server = make_server(
        "127.0.0.1", 0, opened.client.application, threaded=True, ssl_context=(str(certificate), str(key))
    )
    with serve_in_thread(server) as found:
        config = tmp_path / "config"
        config.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: k, user: u, namespace: shop}}]\n"
            "clusters: [{name: k, cluster: {insecure-skip-tls-verify: true,"
            f" server: '{found.replace('http', 'https')}'}}}}]\nusers: [{{name: u, user: {{token: \"ada's\"}}}}]\n"
        )
        environ = {"KUBECTL_PATH": request.param, "KUBECONFIG": str(config), "HOME": str(tmp_path)}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield environ
    opened.store.close()


def test_pods_of_equal_name_are_told_apart_by_the_cluster(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*ASK, "--endpoint", url).code == 1
    assert capsys.readouterr().err == f"Error from server (BadRequest): {SHARED}\n"
    ours = command(*ASK, "--endpoint", url, "--cluster", CLUSTER)
    theirs = command("--cluster", OTHER, *ASK, "--endpoint", url)  # also before the command
    by_name = command(*ASK, "--endpoint", url, "--cluster", "sender-b")
    assert (ours.code, "worker-1" in ours.out, "there-" in ours.out) == (0, True, False)
    assert (theirs.code, "unschedulable" in theirs.out, "worker-" in theirs.out) == (0, True, False)
    assert by_name.out == theirs.out


def test_every_question_is_about_the_named_cluster(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("pod", "-n", "shop"),
        ("pending", "-A"),
        ("node", "there-1"),
        ("workload", "rs/checkout-7d9f", "-n", "shop", "--since", "9999d"),
        ("podgroup", "train", "-n", "shop"),
        ("compare", POD, "--nodes", "there-1", "there-2", "-n", "shop"),
        ("balance",),
        ("preemptions", "-A"),
        ("disagreements", "-A"),
    ):
        ran = command(*words, "--endpoint", url, "--cluster", OTHER, "-o", "json")
        said = capsys.readouterr().err
        assert (ran.code, said, any(name in ran.out for name in HERE)) == (0, "", False), (words, said)
        assert command(*words, "--endpoint", url, "-o", "json").code == 1
        assert SHARED in capsys.readouterr().err


def test_lists_clusters_within_80_columns(service: Service, url: str) -> None:
    service.store.writer.store(
        ((frame, codec.encode(frame)) for frame in (Gap(INCARNATION, 9, 3, 5, "full", MONDAY_US),)), CLUSTER
    )
    listed = command("clusters", "--endpoint", url, environ={"NO_COLOR": "1"}, width=80).out
    assert [len(line) for line in listed.splitlines() if len(line) > 80] == []
    rows = [line.split() for line in listed.splitlines()]
    assert rows[0] == ["ID", "NAME", "AGE", "MISSING", "SCHEDULERS"]
    assert [(row[0], row[1]) for row in rows[1:]] == [(CLUSTER, "–"), (OTHER, "sender-b")]
    items = json.loads(command("clusters", "--endpoint", url, "-o", "json").out)["items"]
    assert [(c["incarnations"], c["missing"], c["explainedByGaps"]) for c in items] == [(1, 4, 3), (1, 0, 0)]
    by_gaps = command("clusters", "--endpoint", url, "--sort-by", "missing", "--no-headers").out
    assert [row.split()[0] for row in by_gaps.splitlines()] == [CLUSTER, OTHER]
    by_name = command("clusters", "--endpoint", url, "--sort-by", "name", "--no-headers").out
    assert [row.split()[0] for row in by_name.splitlines()] == [OTHER, CLUSTER]  # which has no name
    (only,) = json.loads(command("clusters", "--endpoint", url, "--cluster", "sender-b", "-o", "json").out)["items"]
    assert only == items[1]


def test_unknown_cluster_has_no_records(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*ASK, "--endpoint", url, "--cluster", "elsewhere").code == 1
    assert "records of other clusters: kubectl herodotus clusters" in capsys.readouterr().err
    assert command("pod", "web", "-n", "shop", "--endpoint", url, "--cluster", OTHER).code == 1
    assert capsys.readouterr().err.endswith("To see which:\n  kubectl get pod, with that cluster's context\n")
    assert command("clusters", "--endpoint", url, "--cluster", "elsewhere").code == 0
    assert capsys.readouterr().err == "No clusters with records that you may read.\n"


def test_completes_clusters_by_name(url: str) -> None:
    around = Environment({"HERODOTUS_ENDPOINT": url}, Out(False), lambda: NOW, lambda: 80)
    assert complete(("pod", "--cluster", ""), around).splitlines() == [CLUSTER, "sender-b", ":4"]
    words = complete(("pod", "--cluster", OTHER, "-n", "shop", ""), around).splitlines()
    assert words == [POD, ":4"]


def test_python_client_asks_about_a_cluster(url: str) -> None:
    with Client(url) as client:
        names = [cluster["metadata"]["name"] for cluster in client.ask(list_clusters())["items"]]
        with pytest.raises(ServiceError, match="several clusters"):
            client.ask(explain_pod("shop", POD))
        assert names == [CLUSTER, OTHER]
        for cluster, node in ((CLUSTER, "worker-1"), ("sender-b", None)):
            assert client.ask(explain_pod("shop", POD), cluster=cluster)["outcome"]["node"] == node
            with pytest.raises(ServiceError, match="no scheduler answers what-ifs"):
                client.ask(review_placement("shop", {"object": pod_manifest()}), cluster=cluster)


@pytest.mark.parametrize(
    ("rights", "listed", "code"),
    [
        pytest.param(ALL_OF_SHOP | {("ada", "list", "clusters", "")}, [CLUSTER], 1, id="own cluster"),
        pytest.param(
            ALL_OF_SHOP | {("ada", verb, "clusters", "") for verb in ("get", "list")}, [CLUSTER, OTHER], 0, id="both"
        ),
    ],
)
def test_reader_sees_only_clusters_with_a_right(
    shared: dict[str, str],
    api: Reviewer,
    rights: set[tuple[str, str, str, str]],
    listed: list[str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.allowed = rights
    found = json.loads(command("clusters", "-o", "json", environ=shared).out)["items"]
    assert [(c["metadata"]["name"], c["own"]) for c in found] == [(name, name == CLUSTER) for name in listed]
    ours = command(*ASK, environ=shared)
    assert (ours.code, "worker-1" in ours.out) == (0, True)
    capsys.readouterr()
    theirs = command(*ASK, "--cluster", OTHER, environ=shared)
    said = capsys.readouterr().err
    assert theirs.code == code
    if code:
        assert f'clusters.herodotus.dev "{OTHER}" is forbidden: User "ada" cannot get resource' in said
        assert "needed: get on clusters.herodotus.dev with that cluster's ID" in said
    else:
        assert ("unschedulable" in theirs.out, said) == (True, "")


def test_clusters_need_a_right_to_list_them(
    shared: dict[str, str], api: Reviewer, capsys: pytest.CaptureFixture[str]
) -> None:
    api.allowed = ALL_OF_SHOP | (OF_NODES - {("ada", "list", "clusters", "")})
    assert command("clusters", environ=shared).code == 1
    assert 'cannot list resource "clusters"' in capsys.readouterr().err


def test_other_cluster_is_never_mixed_with_objects_of_kubectl_s_own(
    shared: dict[str, str], api: Reviewer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The API server that kubectl reaches would say of an equally named pod that it was deleted or replaced."""
    api.allowed = ALL_OF_SHOP | {("ada", "get", "clusters", "")}
    assert command(*ASK, "--cluster", OTHER, environ=shared).code == 0
    assert capsys.readouterr().err == ""
    for words in (("whatif", f"deploy/{OWNER.name}"), ("capacity", "pod", POD)):
        assert command(*words, "-n", "shop", "--cluster", OTHER, environ=shared).code == 1
        assert "must be read from the API server: leave out --cluster" in capsys.readouterr().err
    assert command("ui", "--cluster", OTHER, environ=shared).code == 1
    assert "the web pages show the service's own cluster only" in capsys.readouterr().err
    assert command(*ASK, "--cluster", OTHER, "--local", environ=shared).code == 2


def test_missing_service_is_no_reason_to_evaluate_another_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        "#!/bin/sh\necho 'Error from server (NotFound): services \"herodotus-endpoint\" not found' >&2\nexit 1\n"
    )
    kubectl.chmod(0o755)
    environ = {"KUBECTL_PATH": str(kubectl), "HOME": str(tmp_path)}
    assert command(*ASK, "--cluster", OTHER, environ=environ).code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: the decisions service did not answer")
    assert "evaluated now" not in said
