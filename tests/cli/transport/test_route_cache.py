"""The routes behind the API server: an answer costs one request, and the route is found automatically."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.service import API, PROXY, command

PATH = f"{API}/namespaces/shop/podexplanations/p"
ANSWER = {"kind": "PodExplanation", "metadata": {"name": "p"}}
UNKNOWN = "Error from server (NotFound): the server could not find the requested resource"
NO_PROXY = 'Error from server (Forbidden): services "https:x:1" is forbidden: User "ada" cannot get "services/proxy"'
WHO = "error: You must be logged in to the server (Unauthorized)"
NO_PORT = "Error from server (ServiceUnavailable): no endpoints available for service"
NO_RIGHT = 'Error from server (Forbidden): podexplanations.herodotus.dev "p" is forbidden: User "ada" cannot get it'
NO_TLS = "tls: first record does not look like a TLS handshake"
TLS_TO_PLAIN = f"Error from server (ServiceUnavailable): error trying to reach service: {NO_TLS}"
MISSING = 'Error from server (NotFound): services "herodotus-endpoint" not found'
AWAY = "Error from server (ServiceUnavailable): the server is currently unable to handle the request"
BY_PROXY, BY_GROUP, LOOKED = f"{PROXY}{PATH}", PATH, API
CUT = "Unable to connect to the server: x"
EXISTS = "/api/v1/namespaces/herodotus/services/herodotus-endpoint"
BY_LOCAL_MODE = "--accept-paths=^(/)"  # of the proxy to the API server that it starts
BY_PLAIN = f"/api/v1/namespaces/herodotus/services/http:herodotus-endpoint:plain-http/proxy{PATH}"


@dataclass
class Cluster:
    """A fake kubectl with a prepared result for each path: an error message, or "" for the answer."""

    directory: Path
    context: str = "c1"

    def says(self, **said: str) -> None:
        """`proxy`, `plain`, `group`: about the question on each way; `look`: about the APIService."""
        for name, words in said.items():
            (self.directory / name).write_text(words)

    def environ(self) -> dict[str, str]:
        d = self.directory
        (d / "answer").write_text(json.dumps(ANSWER))
        (d / "config").write_text(f"current-context: {self.context}\n")
        script = d / "kubectl"
        script.write_text(
            f'#!/bin/sh\necho "$3" >> {d}/requests\n'
            f"case $3 in *:plain-http/proxy/*) f=plain;; */proxy/*) f=proxy;; {API}) f=look;; *) f=group;; esac\n"
            f"[ -s {d}/$f ] && {{ cat {d}/$f >&2; exit 1; }}\ncat {d}/answer\n"
        )
        script.chmod(0o755)
        return {"KUBECTL_PATH": str(script), "HOME": str(d), "KUBECONFIG": str(d / "config")}

    def run(self, *more: str, code: int = 0) -> list[str]:
        """Return the paths that one command requested, in order."""
        (self.directory / "requests").write_text("")
        ran = command("pod", "p", "-n", "shop", "-o", "name", *more, environ=self.environ())
        assert (ran.code, ran.out) == (code, "" if code else "pod/p\n")
        paths = (self.directory / "requests").read_text().splitlines()
        return [path for path in paths if path != "/api/v1/namespaces/shop/pods/p"]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Cover an installation without a plain HTTP port, the usual case."""
    found = Cluster(tmp_path)
    found.says(plain=NO_PORT)
    return found


def test_service_proxy_takes_one_request_and_no_cache(cluster: Cluster) -> None:
    cluster.says(proxy="", look=UNKNOWN, group=UNKNOWN)
    assert [cluster.run(), cluster.run()] == [[BY_PROXY]] * 2
    assert not (cluster.directory / ".kube").exists()


@pytest.mark.parametrize(
    "refusal", [NO_PROXY, TLS_TO_PLAIN, UNKNOWN, WHO], ids=["no right", "no TLS", "not there", "asks for names"]
)
def test_caches_route_through_api_service(cluster: Cluster, refusal: str) -> None:
    cluster.says(proxy=refusal, look="", group="")
    assert [cluster.run(), cluster.run(), cluster.run()] == [[BY_PROXY, LOOKED, BY_GROUP], [BY_GROUP], [BY_GROUP]]


def test_forgets_removed_api_service(cluster: Cluster) -> None:
    cluster.says(proxy=NO_PROXY, look="", group="")
    cluster.run()
    cluster.says(proxy="", look=UNKNOWN, group=UNKNOWN)
    assert [cluster.run(), cluster.run()] == [[BY_GROUP, LOOKED, BY_PROXY], [BY_PROXY]]


@pytest.mark.parametrize("refusal", [NO_PROXY, TLS_TO_PLAIN], ids=["no right", "no TLS"])
def test_caches_plain_http_route(cluster: Cluster, refusal: str) -> None:
    cluster.says(proxy=refusal, look=UNKNOWN, plain="")
    assert [cluster.run(), cluster.run()] == [[BY_PROXY, LOOKED, BY_PLAIN], [BY_PLAIN]]
    cluster.says(proxy="", plain=NO_PORT)
    assert [cluster.run(), cluster.run()] == [[BY_PLAIN, LOOKED, BY_PROXY], [BY_PROXY]], "it has a certificate by now"


def test_caches_one_route_per_cluster(cluster: Cluster) -> None:
    cluster.says(proxy=NO_PROXY, look="", group="")
    cluster.run()
    cluster.context = "c2"
    assert cluster.run() == [BY_PROXY, LOOKED, BY_GROUP]
    cluster.context = "c1"
    assert (cluster.run(), cluster.run("--context", "c3")) == ([BY_GROUP], [BY_PROXY, LOOKED, BY_GROUP])


def test_limits_number_of_cached_routes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus_cli.transport.kubectl_command._MAX_FILES", 2)
    cluster.says(proxy=NO_PROXY, look="", group="")
    for context in ("c1", "c2", "c3", "c4"):
        cluster.context = context
        cluster.run()
    assert len(list((cluster.directory / ".kube/cache/herodotus").iterdir())) == 2


def test_answers_without_a_writable_cache(cluster: Cluster) -> None:
    cluster.says(proxy=NO_PROXY, look="", group="")
    (cluster.directory / ".kube").write_text("no folder")
    assert [cluster.run(), cluster.run()] == [[BY_PROXY, LOOKED, BY_GROUP]] * 2


@pytest.mark.parametrize(
    ("says", "paths", "printed"),
    [
        (
            {"proxy": NO_PROXY, "look": UNKNOWN},
            [BY_PROXY, LOOKED, BY_PLAIN, EXISTS],
            "needed: get on services/proxy, https:",
        ),
        ({"proxy": TLS_TO_PLAIN, "look": UNKNOWN}, [BY_PROXY, LOOKED, BY_PLAIN], NO_TLS),
        ({"proxy": MISSING, "look": UNKNOWN, "plain": MISSING}, [BY_PROXY, LOOKED, BY_LOCAL_MODE], "is it elsewhere?"),
        ({"proxy": NO_PROXY, "look": "", "group": NO_RIGHT}, [BY_PROXY, LOOKED, BY_GROUP], "needed: the ClusterRole"),
        ({"proxy": NO_PROXY, "look": AWAY, "group": AWAY}, [BY_PROXY, LOOKED, BY_GROUP], "is it running?"),
        ({"proxy": NO_PROXY, "look": CUT}, [BY_PROXY, LOOKED, EXISTS], "needed: get on"),
        ({"proxy": WHO, "look": WHO}, [BY_PROXY, LOOKED], WHO),
        ({"proxy": "Error from server (BadRequest): no"}, [BY_PROXY], "Error from server (BadRequest): no"),
    ],
    ids=["no right to it", "no TLS", "no Service", "no right to the pod", "away", "cannot be found out", "login", "no"],
)  # fmt: skip
def test_reports_failure_of_the_relevant_route(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], says: dict[str, str], paths: list[str], printed: str
) -> None:
    cluster.says(**says)
    assert cluster.run(code=1) == paths
    assert printed in capsys.readouterr().err
    assert (cluster.directory / ".kube").exists() == (BY_GROUP in paths), "what leads nowhere is not remembered"


def test_custom_service_uses_only_the_proxy(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.says(proxy=NO_PROXY, look="", group="")
    named = "/api/v1/namespaces/ops/services/https:decisions:443/proxy"
    assert cluster.run("--service", "ops/https:decisions:443", code=1) == [f"{named}{PATH}"]
    cluster.says(proxy=TLS_TO_PLAIN)
    cluster.run("--service", "ops/https:decisions:443", code=1)
    assert (
        "it speaks plain HTTP: upgrade it, name its port plain-http, or ask with  --service ops/http:decisions:443"
        in capsys.readouterr().err
    )
    cluster.says(proxy=WHO)
    cluster.run("--service", "ops/https:decisions:443", code=1)
    assert (
        "the service may require an identity, which its proxy does not pass on: leave out --service"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "words",
    [
        "Error from server (ServiceUnavailable): no scheduler answers what-ifs (last seen 40 s ago)",
        "Error from server (TooManyRequests): 16 reviews wait for this scheduler; ask again",
        "Error from server (InternalError): the store cannot be read",
        "Error from server (Timeout): the scheduler has not answered within 25 s",
        'Error from server (NotFound): no decision for pod "EOF" in namespace "shop"',
    ],
)
@pytest.mark.parametrize("route", ["plain", "proxy", "group"])
def test_an_error_of_the_service_is_reported_on_every_route_and_no_other_is_tried(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], route: str, words: str
) -> None:
    cluster.says(proxy=TLS_TO_PLAIN, look=UNKNOWN if route == "plain" else "", plain="", group="")
    if route == "proxy":
        cluster.says(proxy="")
    cluster.run()
    cluster.says(**{route: words})
    paths = {"plain": BY_PLAIN, "proxy": BY_PROXY, "group": BY_GROUP}
    assert set(cluster.run(code=1)) == {paths[route]}
    assert capsys.readouterr().err.startswith(words)


def test_a_service_that_is_away_is_reported_by_the_route_that_worked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.says(proxy=TLS_TO_PLAIN, look=UNKNOWN, plain="")
    cluster.run()
    cluster.says(plain="Error from server (ServiceUnavailable): error trying to reach service: connection refused")
    cluster.run(code=1)
    err = capsys.readouterr().err
    assert ("connection refused" in err, NO_TLS in err) == (True, False)
