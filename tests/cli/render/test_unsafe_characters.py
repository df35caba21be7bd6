"""No character of a record that moves the cursor, forges a line or hides text reaches a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herodotus_record.escaping import escape, escape_json, escape_lines
from tests.cli.scenes import a_pending as a_pending_decision
from tests.cli.scenes import attempts, compared_nodes, compared_pods, explained, many_plugins, placed, waiting
from tests.cli.service import Service, command, status
from tests.endpoint.service import Service as Records
from tests.support.documents import watched_decision
from tests.support.examples import examples
from tests.support.screens import SURVEY_SCREENS
from tests.support.what_if_documents import review_with_victims

Json = dict[str, Any]
UNSAFE = [chr(c) for c in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
UNSAFE += list("\u2028\u2029\ufeff\u200b\u200c\u200d\u200e\u200f\u2060\u061c\u034f\u3164\U000e0041")
HOSTILE = st.text(st.sampled_from([*UNSAFE, "x", "ü", "漢", " "]), min_size=1, max_size=12)
FORGED = "\nE0101 forged"
KEPT = ("kind", "apiVersion", "type", "phase", "state", "status", "evaluation", "uid", "resourceVersion")
RUNS = settings(deadline=None, max_examples=examples(8), suppress_health_check=list(HealthCheck))


def infected(found: Any, text: str, key: str = "") -> Any:
    """Return the document with `text` appended to every string and plugin key except enumerations and times."""
    if isinstance(found, Mapping):
        plugins = {name: name + text if name[:1].isupper() else name for name in found}
        return {plugins[name]: infected(value, text, name) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [infected(value, text, key) for value in found]
    is_time = key.endswith(("At", "notBefore", "latest")) or key in ("from", "to")
    is_word = key in KEPT or found in ("pass", "reject", "not-reached")
    return found + text if isinstance(found, str) and not is_word and not is_time else found


def unsafe_in(text: str) -> set[str]:
    return set(text) & (set(UNSAFE) - {"\n"})


POD = ("pod", "p", "-n", "shop")
DOCUMENTS: dict[str, tuple[tuple[str, ...], Callable[[], Json]]] = {
    "pod": (POD, placed),
    "pod, many plugins": (POD, lambda: explained(many_plugins())),
    "pod, pending": (POD, lambda: explained(a_pending_decision())),
    "pod, waiting": (POD, waiting),
    "pod, all nodes": ((*POD, "--all"), lambda: placed(every_node=True)),
    "pod, one node": ((*POD, "--node", "worker-12"), lambda: placed(node="worker-12")),
    "pod, attempts": ((*POD, "--attempts"), attempts),
    "compare pods": (("compare", "pod", "a", "b", "-n", "shop"), compared_pods),
    "compare nodes": (
        ("compare", "pod", "a", "--nodes", "worker-7", "worker-3", "-n", "shop"),
        lambda: compared_nodes("worker-7", "worker-3"),
    ),
    "whatif": (("whatif", "-n", "shop", "-f", "pod.yaml"), review_with_victims),
    "version": (("version",), lambda: {"kind": "ServiceVersion", "version": "1.0"}),
}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Json], None]:
    """Return a function that sets the document with which every request is answered."""

    def answer(document: Json) -> None:
        class Transport:
            def get(self, path: str) -> Json:
                return document

            def post(self, path: str, sent: Json) -> Json:
                return document

        # first: it imports the module, which must not keep the other replacement after the test
        monkeypatch.setattr("herodotus_cli.commands.whatif.connect", lambda *_: Transport())
        monkeypatch.setattr("herodotus_cli.transport.connect", lambda *_: Transport())
        monkeypatch.setattr(
            "herodotus_cli.manifests.read_all", lambda _, **__: [{"kind": "Pod", "metadata": {"name": "p"}}]
        )

    return answer


def check(
    arguments: tuple[str, ...],
    document: Json,
    text: str,
    answered: Callable[[Json], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    answered(infected(document, text))
    formats = ("json", "yaml") if arguments[0] == "version" else ("wide", "json", "yaml", "name")
    for output in ([], *(["-o", name] for name in formats)):
        for width in (0, 80):
            ran = command(
                *arguments, *output, "--endpoint", "http://127.0.0.1:1", width=width, environ={"NO_COLOR": "1"}
            )
            printed = ran.out + capsys.readouterr().err
            assert (ran.code, bool(printed)) == (0, True), printed
            assert not unsafe_in(printed), (output, width)
            assert not [line for line in printed.splitlines() if line.startswith("E0101")], (output, width)
            if output == ["-o", "json"]:
                assert (
                    json.loads(ran.out) == json.loads(json.dumps(infected(document, text))) or arguments[0] == "version"
                )


@pytest.mark.parametrize("name", DOCUMENTS)
@given(text=HOSTILE)
@RUNS
def test_screens_and_documents_have_no_unsafe_characters(
    answered: Callable[[Json], None], capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    arguments, document = DOCUMENTS[name]
    check(arguments, document(), text, answered, capsys)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_records_cannot_forge_lines(
    answered: Callable[[Json], None], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments, document = DOCUMENTS[name]
    check(arguments, document(), FORGED, answered, capsys)


@pytest.mark.parametrize("name", SURVEY_SCREENS)
@given(text=HOSTILE)
@RUNS
def test_surveys_have_no_unsafe_characters(
    survey_records: Records,
    answered: Callable[[Json], None],
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
) -> None:
    path, _, weights = SURVEY_SCREENS[name][0].partition("?weights=")
    document = survey_records.get(path, **({"weights": weights} if weights else {}))
    words = {"pending": ("pending", "-n", "shop"), "workload": ("workload", "deploy/checkout", "-n", "shop")}
    check(words.get(name, ("balance",)), document, text, answered, capsys)


@given(text=HOSTILE)
@RUNS
def test_node_screen_has_no_unsafe_characters(
    node_records: Records,
    answered: Callable[[Json], None],
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    check(("node", "worker-7"), node_records.history("worker-7"), text, answered, capsys)


@pytest.mark.parametrize("output", ["", "wide", "json", "yaml", "name"])
@given(text=HOSTILE)
@RUNS
def test_watch_has_no_unsafe_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str, text: str
) -> None:
    found = infected(watched_decision(1, "Unschedulable", message="0/3 nodes are available: 3 Insufficient cpu."), text)
    monkeypatch.setattr("herodotus_cli.decision_watch.watch_decisions", lambda *_, **__: (d for d in [found]))
    monkeypatch.setattr("herodotus_cli.commands.watch.connect", lambda *_: None)
    for width in (0, 80, 200):
        given_ = ["-o", output] if output else []
        ran = command(
            "watch", "-A", "--endpoint", "http://127.0.0.1:1", *given_, width=width, environ={"NO_COLOR": "1"}
        )
        assert (ran.code, unsafe_in(ran.out)) == (0, set())
        assert (
            width
            or output not in ("", "wide", "json", "name")
            or len(ran.out.splitlines()) == 1 + (output in ("", "wide"))
        )


@given(text=HOSTILE)
@RUNS
def test_errors_have_no_unsafe_characters(service: Service, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = "/apis/herodotus.dev/v1alpha1/namespaces/shop/podexplanations/p"
    ask = ("pod", "p", "-n", "shop", "--endpoint", service.url)
    bodies: list[Any] = [status(404, "NotFound", f"no decision for pod {text}", similar=[text], otherNamespaces=[text])]
    bodies += [
        status(500, f"Reason{text}", f"it failed{text}"),
        {"kind": text},
        {"metadata": text},
        text.encode("utf-8", "replace"),
    ]
    for body in bodies:
        service.answer(path, body, 404)
        assert command(*ask).code == 1
        assert not unsafe_in(capsys.readouterr().err)


def test_escapes_are_visible_and_json_stays_valid() -> None:
    text = "a\u202eb\x1b[31m\n\t\r\u2028\U000e0041\u200b ü 漢 🎉"
    assert escape(text) == r"a\u202eb\u001b[31m\n\t\r\u2028\U000e0041\u200b ü 漢 🎉"
    assert escape_lines("a\n\tb\r\u2028") == "a\n\tb\\r\\u2028"
    document = {"text": text, "list": [text]}
    for indent in (None, 2):
        written = escape_json(json.dumps(document, ensure_ascii=False, indent=indent))
        assert json.loads(written) == document
        assert not unsafe_in(written)


def test_ordinary_text_is_not_escaped() -> None:
    for text in ("naïve", "漢字", "שלום", "العربية", "🎉", "a b", "–✓◀…"):
        assert escape(text) == text
