"""Which rights for a suggestion the user lacks, and what the screen says of it and of pods that cannot be listed."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_cli.live_pods import read_live_facts
from herodotus_cli.render import plain_text
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_cli.transport.api_server_queries import NodePodsQuery, RefusedPodsQuery, RightsQuery
from tests.cli.scenes import NOW, explained, pending_with_suggestions

PATCH = {"verb": "patch", "resource": "statefulsets.apps", "namespace": "shop"}
UNCORDON = {"verb": "patch", "resource": "nodes", "namespace": ""}
LISTED = b"""
pods                 []                    []               [get list watch delete]
statefulsets.apps    []                    []               [get list]
"""


class Ended:
    """A process that has ended with an exit code, an output and an error output."""

    def __init__(self, code: int, out: bytes = b"", error: bytes = b"") -> None:
        self.returncode, self._outputs = code, (out, error)

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        return self._outputs

    def kill(self) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def missing(out: bytes, *rights: dict[str, str], code: int = 0, error: bytes = b"") -> list[dict[str, str]]:
    process: Any = Ended(code, out, error)
    return RightsQuery(process).find_missing(list(rights))


def test_a_right_is_missing_if_no_rule_allows_it() -> None:
    assert missing(LISTED, PATCH, UNCORDON) == [PATCH, UNCORDON]
    assert missing(LISTED, {"verb": "delete", "resource": "pods", "namespace": "shop"}) == []


@pytest.mark.parametrize(
    "rule",
    [
        b"*.*  []  []  [*]\n",
        b"*.apps  []  []  [patch]\n",
        b"statefulsets.apps  []  []  [patch]\n",
        b"statefulsets.apps  []  [web]  [patch]\n",
    ],
)
def test_a_rule_that_may_allow_it_is_enough(rule: bytes) -> None:
    assert missing(LISTED + rule, PATCH) == []


def test_without_a_complete_list_nothing_is_said_to_be_missing() -> None:
    assert missing(b"", PATCH) == []
    assert missing(LISTED, PATCH, code=1) == []
    assert missing(LISTED, PATCH, error=b"warning: the list may be incomplete: webhook") == []
    assert RightsQuery().find_missing([PATCH]) == []


@pytest.mark.parametrize(
    ("ended", "may_exist"),
    [
        (Ended(0, b'{"items": [{}]}'), True),
        (Ended(0, b'{"items": []}'), False),
        (Ended(1, error=b"Error from server (Forbidden): events is forbidden"), False),
        (Ended(1, error=b"Unable to connect to the server"), True),
        (None, False),
    ],
)
def test_pods_may_be_refused_unless_no_event_says_so(ended: Any, *, may_exist: bool) -> None:
    assert RefusedPodsQuery(ended).may_exist() is may_exist


class Transport:
    """A transport whose requests have ended."""

    def __init__(self, rights: Any, pods: Any) -> None:
        self._rights, self._pods = rights, pods

    def rights(self, namespace: str) -> RightsQuery:
        assert namespace == "shop"
        return RightsQuery(self._rights)

    def pods_on_node(self, node: str) -> NodePodsQuery:
        assert node == "worker-1"
        return NodePodsQuery(self._pods)


def test_the_screen_states_missing_rights_and_pods_that_could_not_be_read() -> None:
    forbidden = Ended(
        1, b"", b'Error from server (Forbidden): pods is forbidden: User "eve" cannot list resource "pods"'
    )
    transport: Any = Transport(Ended(0, LISTED), forbidden)
    facts = read_live_facts(explained(pending_with_suggestions()), transport)
    assert facts is not None
    rights, unread = facts.build()
    said = plain_text.draw([*rights, *unread], ViewOptions(NOW))
    assert said == (
        "     You may not patch statefulsets.apps in shop.\n"
        "Who holds cpu on worker-1 is not shown: you may not list pods in all namespaces.\n"
    )


def test_a_request_that_fails_otherwise_leaves_its_lines_out() -> None:
    transport: Any = Transport(Ended(1), Ended(1, b"", b"Unable to connect to the server"))
    facts = read_live_facts(explained(pending_with_suggestions()), transport)
    assert facts is not None
    assert facts.build() == []
