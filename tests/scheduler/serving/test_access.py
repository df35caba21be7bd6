"""Who asks and whether they may: the API server says so, and where it does not, nobody may."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from herodotus_kube.delegated_auth import TTL_S, UserInfo
from herodotus_serving.messages import Request, RequestHead
from scheduler.serving.access import RequestAuthorizer, parse_certificate_user
from scheduler.serving.http import HttpStatusError
from tests.kube.servers import Json, api_of, status
from tests.scheduler.serving.token_reviewer import ADA, TokenReviewer
from tests.support.clock import Clock


@pytest.fixture
def reviewer() -> TokenReviewer:
    return TokenReviewer()


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def access(reviewer: TokenReviewer, clock: Clock) -> RequestAuthorizer:
    return RequestAuthorizer(api_of(reviewer), clock=clock)


def get(path: str = "/metrics", *, token: str = "", peer: dict[str, Any] | None = None, method: str = "GET") -> Request:
    head = RequestHead(method, path, [("Authorization", f"Bearer {token}")] if token else [])
    return Request(head, b"", ("127.0.0.1", 1), ("127.0.0.1", 2), subject=peer or {})


def refused(access: RequestAuthorizer, request: Request) -> tuple[int, str, str]:
    with pytest.raises(HttpStatusError) as raised:
        access.check(request)
    return raised.value.code, raised.value.reason, str(raised.value)


def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((pair,) for pair in pairs)}


def test_a_user_with_the_right_is_let_in_by_two_reviews(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    user = access.check(get(token="good"))
    groups = ("dev", "system:authenticated")
    assert user == UserInfo("ada", groups, "7", (("scopes", ("a", "b")),))
    assert [body["spec"] for body in reviewer.asked] == [
        {"token": "good"},
        {
            "user": "ada",
            "uid": "7",
            "groups": list(groups),
            "extra": {"scopes": ["a", "b"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    ]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("bad", (401, "Unauthorized", "Unauthorized")),
        ("", (403, "Forbidden", 'forbidden: User "system:anonymous" cannot get path "/metrics"')),
    ],
    ids=["a token of nobody", "no token"],
)
def test_unauthorized_requests_are_refused(
    access: RequestAuthorizer, token: str, expected: tuple[int, str, str]
) -> None:
    assert refused(access, get(token=token)) == expected


def test_access_is_reviewed_by_verb_and_path(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    access.check(get("/debug/flags/v", token="good", method="PUT"))
    assert reviewer.asked[-1]["spec"]["nonResourceAttributes"] == {"path": "/debug/flags/v", "verb": "put"}


def test_a_user_without_the_right_is_forbidden_and_named(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    reviewer.allowed.clear()
    message = 'forbidden: User "ada" cannot get path "/configz"'
    assert refused(access, get("/configz", token="good")) == (403, "Forbidden", message)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_access_review(access: RequestAuthorizer, reviewer: TokenReviewer, path: str) -> None:
    access.check(get(path))
    assert reviewer.asked == []


def test_a_bad_token_is_refused_even_for_health(access: RequestAuthorizer) -> None:
    assert refused(access, get("/healthz", token="bad"))[0] == 401


@pytest.mark.parametrize("path", ["/readyz/shipper", "/healthzz", "/metrics", "/"])
def test_only_these_paths_are_for_everyone(access: RequestAuthorizer, path: str) -> None:
    assert refused(access, get(path))[0] == 403


def test_a_star_allows_what_begins_so(reviewer: TokenReviewer) -> None:
    access = RequestAuthorizer(api_of(reviewer), ("/readyz/*",))
    access.check(get("/readyz/shipper"))
    assert refused(access, get("/readyz"))[0] == 403


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        status(500),
        status(403),
        httpx.Response(201, text="a web page"),
        httpx.Response(201, json={"status": "yes"}),
        httpx.Response(201, json=[]),
    ],
    ids=repr,
)
class TestWithoutAnAnswerItIsNeverOpen:
    def test_a_token_that_cannot_be_reviewed_is_unauthorized(
        self, access: RequestAuthorizer, reviewer: TokenReviewer, answer: httpx.Response | Exception
    ) -> None:
        reviewer.answer = answer
        assert refused(access, get(token="good"))[0] == 401

    def test_a_right_that_cannot_be_reviewed_is_an_error(
        self, access: RequestAuthorizer, reviewer: TokenReviewer, answer: httpx.Response | Exception
    ) -> None:
        reviewer.answer = answer
        code, _, message = refused(access, get(peer=subject(("commonName", "ada"))))
        assert (code, message.startswith('Internal Server Error: "/metrics"')) == (500, True)

    def test_denied_reader_is_reviewed_again(
        self, access: RequestAuthorizer, reviewer: TokenReviewer, answer: httpx.Response | Exception
    ) -> None:
        reviewer.answer = answer
        refused(access, get(token="good"))
        reviewer.answer = None
        assert access.check(get(token="good")).name == "ada"


def test_denied_wins_over_allowed(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    reviewer.answer = httpx.Response(201, json={"status": {"allowed": True, "denied": True, "reason": "because"}})
    code, _, message = refused(access, get(peer=subject(("commonName", "ada"))))
    assert (code, message.endswith(": because")) == (403, True)


@pytest.mark.parametrize(
    "answer",
    [
        {"authenticated": "yes", "user": ADA},
        {"authenticated": True, "user": {"groups": ["dev"]}},
        {"authenticated": True},
    ],
    ids=["no boolean", "no name", "no user"],
)
def test_a_token_review_that_names_nobody_is_unauthorized(
    access: RequestAuthorizer, reviewer: TokenReviewer, answer: Json
) -> None:
    reviewer.answer = httpx.Response(201, json={"status": answer})
    assert refused(access, get(token="good"))[0] == 401


def test_only_true_allows(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    reviewer.answer = httpx.Response(201, json={"status": {"allowed": "yes"}})
    assert refused(access, get(peer=subject(("commonName", "ada"))))[0] == 403


def test_answers_are_remembered_for_their_time_and_no_longer(
    access: RequestAuthorizer, reviewer: TokenReviewer, clock: Clock
) -> None:
    for _ in range(3):
        access.check(get(token="good"))
        refused(access, get(token="bad"))
    assert reviewer.kinds == ["TokenReview", "SubjectAccessReview", "TokenReview"]
    reviewer.allowed.clear()
    reviewer.users.clear()
    clock.now_s = TTL_S - 0.1
    access.check(get(token="good"))
    clock.now_s = TTL_S
    assert refused(access, get(token="good"))[0] == 401


def test_access_cache_is_bounded(
    monkeypatch: pytest.MonkeyPatch, access: RequestAuthorizer, reviewer: TokenReviewer
) -> None:
    monkeypatch.setattr("herodotus_kube.delegated_auth.MAX_ENTRIES", 2)
    for token in ("a", "b", "c"):
        refused(access, get(token=token))
    assert len(access._reviews._users._entries) == 2


def test_no_token_is_kept(access: RequestAuthorizer) -> None:
    access.check(get(token="good"))
    assert b"good" not in repr(access._reviews._users._entries).encode()


def test_a_certificate_names_the_user_and_its_groups(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    peer = subject(("organizationName", "dev"), ("organizationName", "ops"), ("commonName", "ada"))
    assert access.check(get(peer=peer, token="bad")) == UserInfo("ada", ("dev", "ops", "system:authenticated"))
    assert reviewer.kinds == ["SubjectAccessReview"]


def test_certificate_without_a_common_name_is_anonymous(access: RequestAuthorizer) -> None:
    assert refused(access, get(peer=subject(("organizationName", "dev"))))[0] == 401


def test_an_administrator_needs_no_review(access: RequestAuthorizer, reviewer: TokenReviewer) -> None:
    reviewer.answer = httpx.ConnectError("refused")
    peer = subject(("organizationName", "system:masters"), ("commonName", "root"))
    assert access.check(get(peer=peer)) == parse_certificate_user(peer)
