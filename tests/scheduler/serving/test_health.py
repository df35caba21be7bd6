"""The sum of checks and its text, as kube components write it."""

from __future__ import annotations

import pytest

from scheduler.serving.health import HealthCheck, build_check_response, build_summary

GOOD, OTHER = HealthCheck("good", lambda: None), HealthCheck("other", lambda: None)
BAD = HealthCheck("bad", lambda: "a secret reason")
HINT = HealthCheck("history", lambda: "away", advisory=True)


@pytest.mark.parametrize(
    ("checks", "query", "code", "body"),
    [
        ([GOOD, OTHER], {}, 200, "ok"),
        ([GOOD, OTHER], {"verbose": [""]}, 200, "[+]good ok\n[+]other ok\nreadyz check passed\n"),
        ([GOOD, BAD], {}, 500, "[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n"),
        ([GOOD, BAD], {"exclude": ["bad"]}, 200, "ok"),
        (
            [GOOD, BAD],
            {"exclude": ["bad"], "verbose": [""]},
            200,
            "[+]good ok\n[+]bad excluded: ok\nreadyz check passed\n",
        ),
        (
            [GOOD],
            {"exclude": ["x", "a"], "verbose": [""]},
            200,
            '[+]good ok\nwarn: some health checks cannot be excluded: no matches for "a", "x"\nreadyz check passed\n',
        ),
        ([GOOD, HINT], {}, 200, "ok"),
        (
            [GOOD, HINT],
            {"verbose": [""]},
            200,
            "[+]good ok\n[!]history failed, which does not count: reason withheld\nreadyz check passed\n",
        ),
    ],
    ids=["good", "verbose", "bad", "excluded", "excluded, verbose", "unknown", "advisory", "advisory, verbose"],
)
def test_the_sum_of_checks_lists_each_check(
    checks: list[HealthCheck], query: dict[str, list[str]], code: int, body: str
) -> None:
    answer = build_summary("readyz", checks, query)
    assert (answer.status, answer.body.decode()) == (code, body)
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("check", "code", "body"),
    [
        (GOOD, 200, "ok"),
        (BAD, 500, "internal server error: a secret reason\n"),
        (HINT, 500, "internal server error: away\n"),
    ],
)
def test_single_check_reports_the_cause(check: HealthCheck, code: int, body: str) -> None:
    answer = build_check_response(check)
    assert (answer.status, answer.body.decode()) == (code, body)
