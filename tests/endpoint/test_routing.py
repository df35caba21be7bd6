"""The declaration of a route: what is checked at start, and what derives from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response

from herodotus_endpoint.errors import install_error_handlers, json_response
from herodotus_endpoint.parameters import (
    CLUSTER,
    ChoiceParameter,
    FlagParameter,
    IntegerParameter,
    NameParameter,
    NamesParameter,
    PageSizeParameter,
    Parameter,
    TextParameter,
    TimeParameter,
)
from herodotus_endpoint.resources import BALANCE, DECISION, EXPLANATION, PREFIX
from herodotus_endpoint.routing import (
    READ_ERRORS,
    Access,
    RequiredRight,
    Route,
    RouteDeclarationError,
    build_blueprint,
    declare,
    install_routes,
    list_routes,
    list_verbs,
)
from tests.endpoint.service import declared_routes

NAME = NameParameter("name", "A name.")
FLAG = FlagParameter("watch", "Whether to watch.")


def a_route(path: str = f"{PREFIX}/decisions", **fields: Any) -> Route:
    complete: dict[str, Any] = {
        "operation_id": "test",
        "summary": "A test.",
        "right": RequiredRight("list", DECISION),
        "errors": READ_ERRORS,
    }
    return Route(fields.pop("method", "GET"), path, **(complete | fields))


def an_app(*routes: Route) -> Flask:
    @declare(*routes)
    def view(**parts: str) -> Response:
        return json_response(parts)

    app = Flask("test", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.register_blueprint(build_blueprint("test", (view,)))
    install_error_handlers(app)
    install_routes(app)
    return app


@pytest.mark.parametrize(
    ("fields", "gap"),
    [
        ({"operation_id": ""}, "it has no operation ID"),
        ({"summary": ""}, "it has no summary"),
        ({"right": None}, "it names neither a right nor Access.DISCLOSES_NOTHING"),
        ({"parameters": (NAME, NAME)}, "it names a parameter twice"),
        ({"parameters": (NameParameter("name", ""),)}, "a parameter has no description"),
        (
            {"right": RequiredRight("get", DECISION, "name")},
            "the object's name in its right is neither in its path nor in a parameter",
        ),
        (
            {"right": RequiredRight("list", DECISION, instead=(FLAG, RequiredRight("watch", DECISION)))},
            "the parameter that changes its right is not among its parameters",
        ),
        ({"errors": (404,)}, "its errors lack those of the check of its right and parameters (400, 401, 403, 503)"),
        ({"path": f"{PREFIX}/things"}, "its path names no resource of the API group"),
    ],
)
def test_an_incomplete_declaration_is_refused_with_the_route_s_name(fields: dict[str, Any], gap: str) -> None:
    route = a_route(**fields)
    with pytest.raises(RouteDeclarationError) as e:
        an_app(route)
    assert str(e.value) == f"the declaration of route GET {route.path} is incomplete: {gap}"


def test_every_gap_is_named() -> None:
    assert Route("POST", "/x").find_gaps() == [
        "it has no operation ID",
        "it has no summary",
        "it names neither a right nor Access.DISCLOSES_NOTHING",
        "it takes a body and declares no limit of it",
    ]


def test_a_view_without_a_declaration_is_refused() -> None:
    def view() -> Response:
        return json_response({})

    with pytest.raises(RouteDeclarationError, match=r"the view .*view declares no route"):
        build_blueprint("test", (view,))


def test_a_route_that_flask_registered_is_refused() -> None:
    app = an_app(a_route())
    app.add_url_rule("/sneaked-in", "sneaked-in", lambda: json_response({}))
    with pytest.raises(RouteDeclarationError, match="route /sneaked-in has no declaration"):
        install_routes(app)


def test_two_routes_with_one_operation_id_are_refused() -> None:
    app = an_app(a_route())

    @declare(a_route(f"{PREFIX}/balances"))
    def other() -> Response:
        return json_response({})

    app.register_blueprint(build_blueprint("other", (other,)))
    with pytest.raises(RouteDeclarationError, match="has the operation ID of another route"):
        install_routes(app)


def test_the_service_ends_with_one_line_if_a_declaration_is_incomplete(tmp_path: Path) -> None:
    """Started as users do, with a route whose summary was forgotten."""
    program = (
        "import sys\n"
        "from herodotus_endpoint import __main__, routing\n"
        "class Forgetful(routing.Route):\n"
        "    def find_gaps(self): return ['it has no summary'] if self.path == '/pod' else []\n"
        "routing.Route = Forgetful\n"
        "sys.exit(__main__.main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--data", str(tmp_path), "--bind", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert errors == ["error: the declaration of route GET /pod is incomplete: it has no summary"], done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 3


def test_routes_that_read_records_reject_unknown_parameters() -> None:
    reads = an_app(a_route(parameters=(CLUSTER, NAME))).test_client()
    answer = reads.get(f"{PREFIX}/decisions?nam=x")
    assert (answer.status_code, answer.get_json()["message"]) == (
        400,
        "unknown parameter 'nam'; supported: cluster, name",
    )
    assert reads.get(f"{PREFIX}/decisions?name=x&timeout=5s").status_code == 200
    probe = an_app(a_route("/livez", right=Access.DISCLOSES_NOTHING)).test_client()
    assert probe.get("/livez?nam=x").status_code == 200


def test_a_copy_for_all_namespaces_has_no_namespace_in_its_path() -> None:
    route = a_route(f"{PREFIX}/namespaces/<namespace>/pendingpods")
    everywhere = route.for_all_namespaces("all", "All.")
    assert (everywhere.path, everywhere.operation_id, everywhere.summary) == (f"{PREFIX}/pendingpods", "all", "All.")
    assert everywhere.right == route.right


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"{PREFIX}/balances", ("list", "balances")),
        ("GET", f"{PREFIX}/namespaces/<namespace>/decisions", ("list", "decisions")),
        ("GET", f"{PREFIX}/namespaces/<namespace>/decisions/<name>", ("get", "decisions")),
        ("POST", f"{PREFIX}/namespaces/<namespace>/placementreviews", ("create", "placementreviews")),
        ("POST", f"{PREFIX}/clusterreviews", ("create", "clusterreviews")),
        ("GET", f"{PREFIX}/pages/", ("list", "pages")),
        ("GET", PREFIX, None),
        ("GET", "/pod", None),
    ],
)
def test_api_server_authorizes_by_path(method: str, path: str, expected: tuple[str, str] | None) -> None:
    assert a_route(path, method=method).api_request == expected


def test_verbs_follow_from_routes() -> None:
    verbs = {kind.plural: list_verbs(declared_routes(), kind) for kind in (DECISION, BALANCE, EXPLANATION)}
    assert verbs == {"decisions": ["get", "list", "watch"], "balances": ["list"], "podexplanations": ["get"]}


PARAMETERS: list[tuple[Parameter, str, Any]] = [
    (NAME, "", ""),
    (NAME, "?name=a", "a"),
    (NAME, "?name=" + "x" * 254, "name is longer than 253 characters"),
    (NAME, "?name=a%00", "name contains a NUL"),
    (NameParameter("name", "A name.", missing="who?"), "", "who?"),
    (NamesParameter("name", "Names.", "who?", 2), "?name=a&name=b&name=c", ["a", "b"]),
    (NamesParameter("name", "Names.", "who?", 2), "", "who?"),
    (NamesParameter("name", "Names.", "who?", 2), "?name=" + "x" * 254, "name is longer than 253 characters"),
    (TextParameter("text", "A text.", max_length=3), "?text=abc", "abc"),
    (TextParameter("text", "A text.", max_length=3), "?text=abcd", "text is longer than 3 characters, or holds a NUL"),
    (ChoiceParameter("choice", "A choice.", choices=("a", "b")), "", "a"),
    (ChoiceParameter("choice", "A choice.", choices=("a", "b")), "?choice=b", "b"),
    (ChoiceParameter("choice", "A choice.", choices=("a", "b")), "?choice=c", "choice must be one of a, b"),
    (FLAG, "", False),
    (FLAG, "?watch", True),
    (FLAG, "?watch=0", False),
    (FLAG, "?watch=maybe", "watch must be true or false, not 'maybe'"),
    (IntegerParameter("n", "A number.", default=7, minimum=1, maximum=9), "", 7),
    (IntegerParameter("n", "A number.", default=7, minimum=1, maximum=9), "?n=9", 9),
    (IntegerParameter("n", "A number.", minimum=1, maximum=9), "?n=0", "n must be a whole number from 1 to 9, not '0'"),
    (IntegerParameter("n", "A number.", minimum=1, maximum=9), "?n=x", "n must be a whole number from 1 to 9, not 'x'"),
    (PageSizeParameter("n", "A page's size.", default=5, largest=9), "?n=0", 5),
    (PageSizeParameter("n", "A page's size.", default=5, largest=9), "?n=10", 9),
]


@pytest.mark.parametrize(("parameter", "query", "expected"), PARAMETERS)
def test_parameter_is_parsed_within_its_limits(parameter: Any, query: str, expected: Any) -> None:
    @declare(a_route(right=Access.DISCLOSES_NOTHING))
    def view() -> Response:
        return json_response(parameter.parse())

    app = Flask("test")
    app.register_blueprint(build_blueprint("test", (view,)))
    install_error_handlers(app)
    answer = app.test_client().get(f"{PREFIX}/decisions{query}")
    assert (answer.get_json() if answer.status_code == 200 else answer.get_json()["message"]) == expected


@pytest.mark.parametrize("parameter", sorted({p for r in declared_routes() for p in r.parameters}, key=str), ids=repr)
def test_every_parameter_has_a_bounded_schema(parameter: Parameter) -> None:
    schema = parameter.schema
    bounds = {"string": {"maxLength", "enum"}, "integer": {"minimum", "maximum"}, "array": {"items"}}
    assert schema.keys() & bounds[schema["type"]]
    assert not isinstance(parameter, TimeParameter) or parameter.name in ("since", "until")


def test_routes_are_listed_in_the_order_of_registration() -> None:
    first, second = a_route(), a_route(f"{PREFIX}/balances", operation_id="second")
    assert list_routes(an_app(first, second)) == [first, second]
