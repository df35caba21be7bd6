"""Who may read what: every route, the front proxy's word, tokens, and an API server that does not answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from herodotus_endpoint.access import guard
from herodotus_endpoint.routing import Access, RequiredRight, Route
from herodotus_kube.delegated_auth import TTL_S, FrontProxy
from herodotus_kube.published_authorities import parse_front_proxy
from herodotus_record.model import Candidate, Owner, Preemption, Reason, Verdict
from herodotus_serving.wsgi import CERTIFICATE, HEADERS
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import API, Service, a_service, declared_routes, envelope, rows
from tests.scheduler.serving.authorities import Authority

POD = "checkout-7d9f-x2k"
SHOP = f"{API}/namespaces/shop"


# Values of path parts and required query parameters, by name; then those of single routes, by operation ID.
EXAMPLES = {
    "namespace": "shop",
    "pod": POD,
    "name": POD,
    "node": "worker-1",
    "workload": "replicaset.checkout",
    "podgroup": "train",
    "id": "any",
    "with": "other",
    "a": "worker-1",
    "b": "worker-2",
    "scheduler": "any",
}
OTHER_EXAMPLES = {"legacyNode": {"name": "worker-1"}, "page": {"name": "main.js"}}

# The routes that anybody may use: a new one is a decision to be taken here, too.
OPEN = {
    *("index", "livez", "readyz", "version", "listServiceVersions", "ui", "home", "page"),
    *("openapi", "openapiIndex", "openapiGroup", "groups", "group", "resources"),
}
FOR_SENDERS = {"ingest", "takeReview", "answerReview", "listOpenDecisions"}  # test_senders


@dataclass(frozen=True)
class Row:
    """An example of a request to a route, and the right that opens it, which is None if it needs none."""

    path: str
    right: tuple[str, str, str] | None
    method: str
    opened: int


def a_row(route: Route) -> Row:
    values = EXAMPLES | OTHER_EXAMPLES.get(route.operation_id, {})
    path = re.sub(r"<(\w+)>", lambda part: values[part[1]], route.path)
    query = {p.name: values[p.name] for p in route.parameters if p.missing}
    right = None
    if route.right is Access.URL:
        right = ("get", route.path, "")
    elif isinstance(route.right, RequiredRight):
        namespace = "shop" if "namespace" in (*route.path_parts, *query) else ""
        right = (route.right.verb, route.right.resource.plural, namespace)
    opened = 400 if route.method == "POST" else 200  # without a body
    return Row(f"{path}?{urlencode(query)}" if query else path, right, route.method, opened)


ROUTES = [a_row(route) for route in declared_routes()]
GUARDED = [row for row in ROUTES if row.right]


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer(tokens={"ada's": ("ada", ""), "bob's": ("bob", "")})


@pytest.fixture
def guarded(tmp_path: Path, reviewer: Reviewer) -> Iterator[Service]:
    """A service with a decision of shop that names pods of ci, and whose readers are named."""
    opened = a_service(tmp_path, access=reviewer.access())
    near = Verdict(INSUFFICIENT_CPU.code, (Reason("existing-anti-affinity", {"key": "zone", "pod": "ci/job-1"}),))
    owner = Owner("ReplicaSet", "checkout")
    first = a_decision(rejected={"worker-2": {"NodeAffinity": near}}, owner=owner)
    first = replace(first, pod=replace(first.pod, pod_group="train"))
    other = a_decision(pod="other", sequence=2, owner=owner)
    opened.stored(rows(a_table(["worker-1", "worker-2", "worker-3"])), first, other)
    yield opened
    opened.store.close()


def test_only_some_routes_require_no_right() -> None:
    by_access = {access: {r.operation_id for r in declared_routes() if r.right is access} for access in Access}
    assert by_access == {Access.DISCLOSES_NOTHING: OPEN, Access.SENDER: FOR_SENDERS, Access.URL: {"metrics"}}


@pytest.mark.parametrize("row", GUARDED, ids=lambda r: r.path)
def test_route_requires_its_right(guarded: Service, reviewer: Reviewer, row: Row) -> None:
    assert row.right is not None
    reviewer.allowed = {("ada", *row.right)}
    codes = [
        guarded.client.open(row.path, method=row.method, headers=headers).status_code
        for headers in (bearer("ada's"), bearer("bob's"), bearer("expired"), {})
    ]
    assert codes == [row.opened, 403, 401, 401]


@pytest.mark.parametrize("row", [r for r in ROUTES if not r.right], ids=lambda r: r.path)
def test_routes_without_cluster_data_need_no_review(guarded: Service, reviewer: Reviewer, row: Row) -> None:
    assert guarded.client.get(row.path).status_code in (200, 204, 302, 405)
    assert not reviewer.asked


def test_an_explanation_hides_a_preemptor_as_a_list_of_preemptions_does(tmp_path: Path, reviewer: Reviewer) -> None:
    service = a_service(tmp_path, access=reviewer.access())
    nowhere = {f"worker-{i}": {"NodeResourcesFit": INSUFFICIENT_CPU} for i in (1, 2, 3)}
    candidates = (Candidate("worker-1", (f"shop/{POD}", "ci/job-1"), 0),)
    preemptor = a_decision(pod="big-0", namespace="vip", sequence=2, rejected=nowhere)
    preemptor = replace(preemptor, preemption=Preemption("worker-1", candidates, True))
    service.stored(rows(a_table(["worker-1", "worker-2", "worker-3"])), a_decision(), preemptor)
    reviewer.allowed = {("ada", "get", "podexplanations", "shop"), ("ada", "get", "decisions", "shop")}
    reviewer.allowed |= {("bob", *right[1:]) for right in reviewer.allowed} | {("bob", "get", "decisions", "vip")}

    def ask(token: str) -> tuple[str | None, list[str | None]]:
        answer = service.client.get(f"{SHOP}/podexplanations/{POD}", headers=bearer(token)).get_json()["preemptedBy"]
        named = answer["preemptor"] and answer["preemptor"]["pod"]
        return named, [victim["pod"] for victim in answer["victims"]]

    assert ask("ada's") == (None, [POD, None])
    assert ask("bob's") == ("big-0", [POD, None])
    service.store.close()


def test_forbidden_message_equals_that_of_the_api_server(guarded: Service) -> None:
    status = envelope(guarded.client.get(f"{SHOP}/decisions/{POD}", headers=bearer("bob's")))
    assert (status["reason"], status["message"]) == (
        "Forbidden",
        f'decisions.herodotus.dev "{POD}" is forbidden: User "bob" cannot get resource "decisions" in API group'
        ' "herodotus.dev" in the namespace "shop"',
    )


@pytest.mark.parametrize("row", GUARDED, ids=lambda r: r.path)
def test_cluster_wide_requests_are_logged(
    guarded: Service, reviewer: Reviewer, row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    assert row.right is not None
    reviewer.allowed = {("ada", *row.right)}
    caplog.set_level("INFO", "herodotus_endpoint.access")
    for headers in (bearer("ada's"), bearer("bob's"), bearer("expired")):
        guarded.client.open(row.path, method=row.method, headers=headers)
    verb, resource, namespace = row.right
    lines = [json.loads(record.message) for record in caplog.records if record.name == guard.ACCESS_LOG]
    node_wide = not namespace and not resource.startswith("/")
    assert [(line["user"], line["verb"], line["resource"], line["code"]) for line in lines] == (
        [("ada", verb, resource, row.opened), ("bob", verb, resource, 403), ("", verb, resource, 401)]
        if node_wide
        else []
    )
    assert {line["name"] for line in lines} <= {"", "worker-1"}
    assert not any("ada's" in record.message for record in caplog.records)


def test_watch_requires_the_watch_verb(guarded: Service, reviewer: Reviewer) -> None:
    reviewer.allowed = {("ada", "list", "decisions", "shop")}
    assert guarded.client.get(f"{SHOP}/decisions?watch=1", headers=bearer("ada's")).status_code == 403


@pytest.mark.parametrize(
    "answer",
    [httpx.ConnectError("no route"), httpx.Response(500, text="oops"), httpx.Response(201, json={"kind": "x"})],
    ids=["away", "error", "no review"],
)
def test_access_is_denied_while_the_api_server_is_unavailable(
    guarded: Service, reviewer: Reviewer, answer: httpx.Response | Exception
) -> None:
    reviewer.answer = answer
    status = envelope(guarded.client.get(f"{SHOP}/decisions", headers=bearer("ada's")))
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")


def test_access_is_denied_while_rights_cannot_be_reviewed(guarded: Service, reviewer: Reviewer) -> None:
    """The API server has said who the reader is, and answers no more."""
    guarded.client.get(f"{SHOP}/decisions", headers=bearer("ada's"))
    reviewer.answer = httpx.ConnectError("no route")
    status = envelope(guarded.client.get(f"{API}/namespaces/other/decisions", headers=bearer("ada's")))
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
    assert "cannot check the right" in status["message"]


def test_reviews_are_cached_for_seconds(tmp_path: Path, reviewer: Reviewer) -> None:
    now = [0.0]
    reviewer.allowed = {("ada", "list", "decisions", "shop")}
    service = a_service(tmp_path, access=reviewer.access(clock=lambda: now[0]))

    def code() -> int:
        return service.client.get(f"{SHOP}/decisions", headers=bearer("ada's")).status_code

    assert (code(), code(), len(reviewer.asked)) == (200, 200, 3)  # who it is, the route, whether all is shown
    reviewer.allowed.clear()
    assert code() == 200
    now[0] = TTL_S
    assert code() == 403
    service.store.close()


def test_hides_pods_of_invisible_namespaces(guarded: Service, reviewer: Reviewer) -> None:
    reviewer.allowed = {("ada", "get", "podexplanations", "shop"), ("bob", "get", "podexplanations", "*")}
    reviewer.allowed |= {("bob", "get", "decisions", "ci"), ("bob", "get", "decisions", "shop")}
    ada, bob = (
        guarded.client.get(f"{SHOP}/podexplanations/{POD}?all", headers=bearer(token)).text
        for token in ("ada's", "bob's")
    )
    assert ("ci/job-1" in ada, "ci/job-1" in bob) == (False, True)


def test_pods_of_two_namespaces_are_compared_by_readers_of_both_alone(guarded: Service, reviewer: Reviewer) -> None:
    owner = Owner("ReplicaSet", "secret-owner")
    decision = a_decision(pod="secret-0", namespace="ci", sequence=3, owner=owner)
    secret = replace(decision.pod, requests={"cpu": 12_345})
    guarded.stored(replace(decision, pod=secret))
    reviewer.allowed = {(user, "list", "decisions", "shop") for user in ("ada", "bob")}
    reviewer.allowed |= {(user, "get", "decisions", "shop") for user in ("ada", "bob")}
    reviewer.allowed |= {("bob", "get", "decisions", "ci")}
    path = f"{SHOP}/podcomparisons/{POD}?with=secret-0&withNamespace=ci"
    ada, bob = (guarded.client.get(path, headers=bearer(token)) for token in ("ada's", "bob's"))
    assert (ada.status_code, bob.status_code) == (403, 200)
    values = ("secret-owner", "12345m")
    assert [value in ada.text for value in values] == [False] * 2
    assert [value in bob.text for value in values] == [True] * 2, "what ada does not see is in the answer"
    missing = guarded.client.get(path.replace("secret-0", "no-such"), headers=bearer("ada's"))
    assert missing.text.replace("no-such", "secret-0") == ada.text, "nor does ada see which pods there are"


def test_balance_of_selected_pods_requires_the_right_to_all_decisions(guarded: Service, reviewer: Reviewer) -> None:
    reviewer.allowed = {("ada", "list", "balances", ""), ("bob", "get", "decisions", "")}
    selected = f"{API}/balances?labelSelector=herodotus.dev/pod={POD}"
    codes = [
        [guarded.client.get(path, headers=bearer(token)).status_code for path in (f"{API}/balances", selected)]
        for token in ("ada's", "bob's")
    ]
    assert codes == [[200, 403], [403, 200]]


# --- the front proxy


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    directory = tmp_path_factory.mktemp("authorities")
    return Authority(directory, "proxies"), Authority(directory, "others")


def der(certificate: Path) -> bytes:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).public_bytes(Encoding.DER)


def environment(certificate: bytes | None, *headers: tuple[str, str]) -> dict[str, object]:
    """What the server puts into a request's environment."""
    return {HEADERS: headers} | ({CERTIFICATE: certificate} if certificate else {})


ADA = (("X-Remote-User", "ada"), ("X-Remote-Group", "dev"), ("X-Remote-Group", "cn=ops,dc=example"))


def test_front_proxy_headers_name_user_groups_and_extra(
    tmp_path: Path, reviewer: Reviewer, authorities: tuple[Authority, Authority]
) -> None:
    """A group with a comma is one group; extra keys are decoded."""
    proxies, _ = authorities
    trusted = FrontProxy(proxies.pem, ("front-proxy",))
    service = a_service(tmp_path, access=reviewer.access(trusted))
    reviewer.allowed = {("ada", "list", "decisions", "shop")}
    extra = (
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-Example.com%2fscope", "a"),
        ("X-Remote-Extra-Example.com%2fscope", "b"),
    )
    shown = environment(der(proxies.client("front-proxy")[0]), *ADA, *extra)
    assert service.client.get(f"{SHOP}/decisions", environ_overrides=shown).status_code == 200
    spec = {k: v for k, v in reviewer.asked[0]["spec"].items() if k != "resourceAttributes"}
    assert spec == {
        "user": "ada",
        "uid": "7",
        "groups": ["dev", "cn=ops,dc=example"],
        "extra": {"example.com/scope": ["a", "b"]},
    }
    service.store.close()


@pytest.mark.parametrize("case", ["no certificate", "another authority", "another name", "no settings", "no user"])
def test_ignores_user_headers_of_other_clients(
    tmp_path: Path, reviewer: Reviewer, authorities: tuple[Authority, Authority], case: str
) -> None:
    proxies, others = authorities
    trusted = FrontProxy() if case == "no settings" else FrontProxy(proxies.pem, ("front-proxy",))
    signs = others if case == "another authority" else proxies
    name = "somebody" if case == "another name" else "front-proxy"
    certificate = None if case == "no certificate" else der(signs.client(name)[0])
    headers = () if case == "no user" else (("X-Remote-User", "root"), ("X-Remote-Group", "system:masters"))
    service = a_service(tmp_path, access=reviewer.access(trusted))
    answer = service.client.get(f"{SHOP}/decisions", environ_overrides=environment(certificate, *headers))
    assert envelope(answer)["code"] == 401
    assert not reviewer.asked
    service.store.close()


def test_privileged_group_needs_no_review(
    tmp_path: Path, reviewer: Reviewer, authorities: tuple[Authority, Authority]
) -> None:
    proxies, _ = authorities
    service = a_service(tmp_path, access=reviewer.access(FrontProxy(proxies.pem)))
    shown = environment(
        der(proxies.client("any-name")[0]), ("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")
    )
    assert service.client.get(f"{API}/decisions", environ_overrides=shown).status_code == 200
    assert not reviewer.asked
    service.store.close()


def test_parses_published_front_proxy_settings(authorities: tuple[Authority, Authority]) -> None:
    pem = authorities[0].pem
    data = {
        "client-ca-file": "unused",
        "requestheader-client-ca-file": pem,
        "requestheader-allowed-names": '["front-proxy"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": "[]",
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    assert parse_front_proxy(data) == replace(FrontProxy(pem, ("front-proxy",)), uid_headers=())
    assert parse_front_proxy({}) == FrontProxy()
