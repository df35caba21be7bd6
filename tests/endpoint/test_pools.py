"""Which worker pool runs a request, and how long its body may be: what the route declares, however it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from werkzeug.test import EnvironBuilder, run_wsgi_app

from herodotus_endpoint.api import ingest, review_queue
from herodotus_endpoint.fair_queue import TurnRefusedError
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.pools import Pools, refuse_ingest
from herodotus_endpoint.routing import MAX_IGNORED_BODY, Access, PoolKind, Route
from herodotus_endpoint.settings import ServiceSettings
from herodotus_serving.messages import PoolAssignment, Request, RequestHead
from herodotus_serving.wsgi import POOL, build_environ
from tests.endpoint.service import API, Service, declared_routes, envelope

Assign = Callable[[str, str], PoolAssignment]

WATCHES = (
    "watch=true",
    "watch",
    "watch=",
    "watch=1",
    "%77atch=1",
    "w%61tch",
    "watch=true&watch=false",
    "limit=1&watch",
    "watch=%31",
    "watch=nonsense",  # refused by the view with 400, in the pool of watches
)
LISTS = ("", "watch=false", "watch=0", "watch=false&watch=true", "Watch=true", "xwatch=true", "pod=watch%3D1")
CHEAP = {PoolKind.PROBES, PoolKind.DISCOVERY}


@pytest.fixture
def assign(service: Service) -> Assign:
    """The pool and limit of a request by method and target, on a listener for queries and ingest."""
    pools = Pools(ServiceSettings(), 8, EndpointMetrics())
    choose = pools.assign_by_route(service.client.application, serves_ingest=True)
    return lambda method, target: choose(RequestHead(method, target, [("Host", "x")]))


@pytest.mark.parametrize("path", [f"{API}/decisions", f"{API}/namespaces/shop/decisions", f"{API}/%64ecisions"])
@pytest.mark.parametrize("query", WATCHES)
def test_a_watch_in_any_spelling_runs_in_the_pool_of_watches(assign: Assign, path: str, query: str) -> None:
    assert assign("GET", f"{path}?{query}").pool.name == "watches"


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/decisions/",
        f"{API}//decisions",
        f"{API}/./decisions",
        f"{API}/x/../decisions",
        f"{API}/Decisions",
        f"{API.upper()}/decisions",
        f"{API}%2Fdecisions",
        f"{API}/decisions;x",
        f"{API}/decisions%3Fwatch=true",
        f"http://elsewhere{API}/decisions",
        f"{API}/watch/decisions",
    ],
)
def test_a_path_in_any_spelling_is_watched_in_the_pool_of_watches_or_not_at_all(
    service: Service, assign: Assign, path: str
) -> None:
    target = f"{path}?watch=true&timeoutSeconds=1"
    pool = assign("GET", target).pool.name
    if pool != "watches":
        request = Request(
            RequestHead("GET", target, [("Host", "x")]), b"", ("127.0.0.1", 1), ("127.0.0.1", 2), pool=pool
        )
        status = run_wsgi_app(service.client.application.wsgi_app, build_environ(request))[1]
        assert not status.startswith("200"), status


def test_a_reader_asks_one_review_at_a_time_and_leaves_a_quarter_of_the_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = Pools(ServiceSettings(max_reviews=8), 8, EndpointMetrics()).queues
    for name, turns in (("reviews", 1), ("queries", 6)):
        monkeypatch.setattr(queues[name], "_wait_s", 0.01)
        with ExitStack() as running:
            for _ in range(turns):
                running.enter_context(queues[name].admit("one reader"))
            with pytest.raises(TurnRefusedError):
                running.enter_context(queues[name].admit("one reader"))
            running.enter_context(queues[name].admit("another reader"))


@pytest.mark.parametrize("query", LISTS)
def test_a_list_runs_in_the_pool_of_queries(assign: Assign, query: str) -> None:
    assert assign("GET", f"{API}/decisions?{query}").pool.name == "queries"


def test_what_cannot_be_watched_is_no_watch(assign: Assign) -> None:
    assert assign("GET", f"{API}/nodehistories?watch=true").pool.name == "queries"
    assert assign("GET", f"{API}/namespaces/shop/decisions/p?watch=true").pool.name == "queries"


@pytest.mark.parametrize("query", [query for query in WATCHES if query.count("watch") == 1 and "nonsense" not in query])
def test_a_watch_outside_of_its_pool_is_refused(service: Service, query: str) -> None:
    refused = service.client.get(f"{API}/decisions?{query}", environ_overrides={POOL: "queries"})
    assert envelope(refused)["code"] == 503


@pytest.mark.parametrize("route", declared_routes(), ids=str)
def test_a_route_runs_in_the_pool_that_it_declares(assign: Assign, route: Route) -> None:
    path = route.path
    for part in route.path_parts:
        path = path.replace(f"<{part}>", "a%2Db")
    assigned = assign(route.method, path)
    assert (assigned.pool.name, assigned.max_body) == (route.pool.value, route.max_body)
    if route.method == "GET":
        assert assign("HEAD", path).pool is assigned.pool
    if route.right is Access.DISCLOSES_NOTHING:
        assert route.pool in CHEAP
    else:
        assert route.pool not in CHEAP


@pytest.mark.parametrize(
    "target",
    [
        "/placementreviews",
        "/x/placementreviews",
        f"{API}/placementreviews",
        f"{API}/namespaces/shop/placementreviews/",
        f"{API}//namespaces/shop/placementreviews",
        "/clusterreviews",
        f"{API}/namespaces/shop/clusterreviews",
        "/ingest/v1/frames/more",
        "/ingest/",
        f"{API}/decisions?watch=true",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
def test_no_body_is_read_for_what_is_no_route(assign: Assign, method: str, target: str) -> None:
    assigned = assign(method, target)
    assert (assigned.pool.name, assigned.max_body) == ("queries", MAX_IGNORED_BODY)


def test_a_path_in_percent_encoding_is_the_same_route(assign: Assign) -> None:
    assert assign("POST", "/ingest/v1/%66rames") == assign("POST", "/ingest/v1/frames")
    assert assign("GET", "/%6Civez").pool.name == "probes"


def test_senders_have_the_limits_that_their_views_check(assign: Assign) -> None:
    assert assign("POST", ingest.PATH).max_body == ingest.MAX_BODY_BYTES
    assert assign("POST", f"{review_queue.PATH}/1").max_body == review_queue.MAX_ANSWER_BYTES
    assert assign("GET", review_queue.PATH).pool.name == "polls"


@pytest.mark.parametrize("route", [route for route in declared_routes() if route.right is Access.SENDER], ids=str)
def test_a_listener_for_queries_reads_no_body_of_senders_and_refuses_them(service: Service, route: Route) -> None:
    application = service.client.application
    path = route.path.replace("<id>", "1")
    choose = Pools(ServiceSettings(), 8, EndpointMetrics()).assign_by_route(application, serves_ingest=False)
    assigned = choose(RequestHead(route.method, path, []))
    assert (assigned.pool.name, assigned.max_body) == ("queries", MAX_IGNORED_BODY)
    environ = EnvironBuilder(path, method=route.method).get_environ()
    assert run_wsgi_app(refuse_ingest(application.wsgi_app), environ)[1].startswith("403")
