"""Readers with few rights ask for everything in every way, and get no text that its declaration hides from them.

The records hold a canary, a unique word, in every declared text (`canaries`). The requests follow from the declared
routes, with values for each type of parameter, so that a new route or field is tried without a change here.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlencode

import pytest

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_endpoint import maintenance
from herodotus_endpoint.access import masking
from herodotus_endpoint.api import masked_reader
from herodotus_endpoint.api.selectors import FIELDS as SELECTABLE
from herodotus_endpoint.parameters import (
    ChoiceParameter,
    FlagParameter,
    IntegerParameter,
    Parameter,
    TimeParameter,
)
from herodotus_endpoint.resources import CLUSTER_REVIEW
from herodotus_endpoint.routing import Access, Route, list_routes
from herodotus_record import disclosure, model
from herodotus_record.discloses import Discloses
from herodotus_record.disclosure import PARAMETERS, mask_answer
from herodotus_record.fields import Disclosure, list_declarations, list_disclosures
from herodotus_record.model import (
    Frame,
    Reason,
)
from herodotus_serving.wsgi import CANCELLED
from tests.builders import CLUSTER, a_table
from tests.endpoint.access.canaries import (
    HIDDEN_NAMESPACE,
    KEPT,
    MARK,
    NODES,
    SHOWN,
    SHOWN_TEXTS,
    find_canaries,
)
from tests.endpoint.access.canary_scene import (
    DAY_S,
    NAMESPACE_OF,
    OTHER_CLUSTER,
    READERS,
    WORKERS,
    Scene,
    open_scene,
)
from tests.endpoint.reviewer import bearer
from tests.endpoint.service import rows
from tests.support.answering_scheduler import answering, review
from tests.support.breadth import widen
from tests.support.cluster_answering_scheduler import ClusterAnsweringScheduler as ClusterScheduler
from tests.support.namespaces import OneNamespace

MADE_BY_RETENTION = {model.Summary, model.FirstRejection}
ACCEPTED = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,"
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    "text/html",
)


@dataclass(frozen=True)
class Answer:
    """A response to a reader with the log lines of its request."""

    route: str
    request: str
    code: int
    text: str

    def leaks(self, scene: Scene, reader: str) -> list[str]:
        """Return the hidden canaries in the answer; the reader knows those of the request already."""
        found = find_canaries(self.text)
        requested = tuple(find_canaries(self.request)) if found else ()
        return sorted(w for w in found if not any(r.startswith(w) for r in requested) and not scene.may_see(reader, w))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("service")) as opened:
        yield opened


def path_values(scene: Scene, namespace: str) -> dict[str, list[str]]:
    """Return values of the parts of paths and of parameters with names, by name of the part."""
    decisions = scene.decisions_in(namespace)
    hidden = scene.decisions_in(HIDDEN_NAMESPACE)[0]
    near = [hidden.pod.name[:-1], hidden.pod.name]  # the second exists and the first resembles it
    pods = list(dict.fromkeys(d.pod.name for d in decisions))
    owners = list(dict.fromkeys(f"{d.pod.owner.kind}.{d.pod.owner.name}".lower() for d in decisions if d.pod.owner))
    groups = list(dict.fromkeys(d.pod.pod_group for d in decisions))
    return {
        "namespace": [namespace],
        "podgroup": [*groups, hidden.pod.pod_group],
        "pod": [*pods, *near],
        "name": [*pods, *(d.id for d in decisions), *near, NODES[0], "main.js"],
        "with": [*pods[1:3], *near],
        "node": [*NODES, NODES[0][:-1]],
        "a": [NODES[0], "none"],
        "b": [NODES[2], "none"],
        "workload": [*owners, f"deployment.{near[1]}", f"replicaset.{near[0]}"],
        "uid": [decisions[0].key.pod_uid, hidden.key.pod_uid],
        "cluster": [CLUSTER, OTHER_CLUSTER],
        "profile": [decisions[0].scheduler.profile, near[1]],
        "weights": ["ImageLocality=5", near[1]],
        "fieldSelector": [f"{name}={near[1]}" for name in SELECTABLE],
        "labelSelector": [f"{label}={value}" for label, value in hidden.pod.labels.items()],
        "id": [near[0]],
        "scheduler": [near[0]],
    }


def values_of(parameter: Parameter, named: Mapping[str, list[str]], near: str) -> list[str]:
    """Return valid and malformed values of a query parameter, by its type."""
    match parameter:
        case FlagParameter():
            return ["true", near]
        case ChoiceParameter():
            return [*parameter.choices, near]
        case IntegerParameter():
            return [*map(str, {parameter.minimum, 1, 2, parameter.maximum}), near]
        case TimeParameter():
            return [str(30 * DAY_S), near]
        case _:
            return [*named.get(parameter.name, ()), near, "0", f"{near}=={near}"]


def queries(route: Route, named: Mapping[str, list[str]], near: str) -> Iterator[dict[str, str]]:
    """Yield the required parameters alone, with each value of each other parameter, and with an unknown parameter."""
    required = {p.name: named[p.name][0] for p in route.parameters if p.missing}
    yield required
    watch = {"watch": "true", "resourceVersion": "0"} if any(p.name == "watch" for p in route.parameters) else None
    for parameter in route.parameters:
        for value in values_of(parameter, named, near):
            yield required | {parameter.name: value}
            if watch:
                yield watch | {parameter.name: value}
    yield required | {near: near}


def requests(scene: Scene, route: Route, namespace: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield the path, query and accepted media type of each request to the route."""
    named = path_values(scene, namespace)
    near = named["pod"][-2]
    every = list(itertools.product(*(named[part] for part in route.path_parts)))
    for i, chosen in enumerate(every):
        path = route.path
        for part, value in zip(route.path_parts, chosen, strict=True):
            path = path.replace(f"<{part}>", value)
        required = {p.name: named[p.name][0] for p in route.parameters if p.missing}
        flags = [p.name for p in route.parameters if isinstance(p, FlagParameter) and not p.name.startswith(("w", "s"))]
        for query in queries(route, named, near) if i == 0 else (required, required | dict.fromkeys(flags, "true")):
            yield path, query, ACCEPTED[0]
        for accepted in ACCEPTED[1:] if i == 0 else ():
            yield path, required, accepted
    if any(p.name == "includeObject" for p in route.parameters):
        for more, accepted in itertools.product(({}, {"watch": "true", "resourceVersion": "0"}), ACCEPTED[1:3]):
            yield path, {"includeObject": "Object"} | more, accepted


def reader_routes(scene: Scene) -> list[Route]:
    """Return all routes but those of senders, which `test_senders` holds closed for readers."""
    return [route for route in list_routes(scene.service.client.application) if route.right is not Access.SENDER]


def ask(
    scene: Scene, reader: str, namespace: str = "", *, briefly: bool = False, document_routes: bool = False
) -> Iterator[Answer]:
    """Yield the answers to a reader's requests to every route, for objects of a namespace.

    `briefly` leaves out the values of optional parameters, and `document_routes` the routes that require no right.
    """
    client, over = scene.service.client, threading.Event()
    over.set()  # a watch ends after it has sent what it has
    namespace = namespace or NAMESPACE_OF[reader]
    for route in reader_routes(scene):
        if document_routes and (route.right is Access.DISCLOSES_NOTHING or route.method == "POST"):
            continue
        for path, query, accepted in requests(scene, route, namespace):
            if briefly and len(query) > sum(bool(p.missing) for p in route.parameters) and "true" not in query.values():
                continue
            began = len(scene.log)
            body = review(allNodes=True) if route.method == "POST" else None
            headers = bearer(reader) | {"Accept": accepted}
            scheduler = answering(scene.service, *reviewed(scene, namespace)).working()
            if route.path.endswith(CLUSTER_REVIEW.plural):
                body = {"kind": CLUSTER_REVIEW.kind, "spec": {"changes": [{"kind": "Cordon", "nodes": [NODES[0]]}]}}
                scheduler = ClusterScheduler(scene.service, scene.cluster).working()
            with scheduler if route.method == "POST" else nullcontext():
                answer = client.open(
                    path,
                    method=route.method,
                    query_string=query,
                    headers=headers,
                    json=body,
                    environ_overrides={CANCELLED: over},
                )
            log = scene.log[began:]
            text = f"{answer.status}\n{answer.headers}\n{answer.text}\n{log}"
            yield Answer(str(route), f"{path}?{urlencode(query)}\n{accepted}", answer.status_code, text)


def reviewed(scene: Scene, namespace: str) -> list[Frame]:
    """Return the answer of a scheduler to a review in the namespace: a hypothetical pod that is rejected."""
    found = scene.reviewed.get(namespace) or scene.reviewed["outside"]
    return [rows(a_table(WORKERS)), found]


@pytest.fixture(scope="module")
def answers(scene: Scene) -> Callable[[str], list[Answer]]:
    """Return a function that returns the answers to a reader's requests; the first test that needs them asks."""

    @cache
    def ask_as(reader: str) -> list[Answer]:
        found = list(ask(scene, reader))
        if reader == "outsider":
            found += ask(scene, reader, "shop", briefly=True)
        if reader in ("outsider", "tenant", "node-reader"):
            found += ask(scene, reader, HIDDEN_NAMESPACE, briefly=True)
        return found

    return ask_as


@pytest.mark.parametrize("reader", widen(READERS, every=2))
def test_no_answer_holds_a_text_that_its_declaration_hides(
    scene: Scene, answers: Callable[[str], list[Answer]], reader: str
) -> None:
    leaks = {f"{a.route}: {a.request}": leaked for a in answers(reader) if (leaked := a.leaks(scene, reader))}
    assert not leaks
    assert not [f"{a.request}\n{a.text[:600]}" for a in answers(reader) if a.code >= 500]


def test_every_route_answers_the_admin(scene: Scene, answers: Callable[[str], list[Answer]]) -> None:
    """Otherwise nothing of the route would have been searched."""
    answered = {a.route for a in answers("admin") if a.code < 400}
    assert answered == {str(route) for route in reader_routes(scene)}


def test_every_declared_text_is_planted_and_reaches_a_document(
    scene: Scene, answers: Callable[[str], list[Answer]]
) -> None:
    """A new field or parameter that no record or answer shows would be declared, and never searched for."""
    words = {word for a in answers("admin") for word in find_canaries(a.text)}
    reached = {scene.planted.known[word].place for word in words & scene.planted.known.keys()}
    planted = {c.place for c in scene.planted.known.values() if c.has_path}
    assert not planted - reached
    for kind in vars(model).values():
        if isinstance(kind, type) and is_dataclass(kind) and kind not in MADE_BY_RETENTION:
            hints = get_type_hints(kind)
            texts = {
                name
                for name, declared in list_declarations(kind).items()
                if declared.discloses not in SHOWN and declared.path and holds_text(hints[name])
            }
            labels = {f"{kind.__name__}-{name}".lower().replace("_", "-") for name in texts - KEPT}
            assert kind is Reason or labels <= planted
    assert {name for name, rule in PARAMETERS.items() if rule not in SHOWN} <= {p.rpartition("-")[2] for p in planted}


def test_message_without_names_is_shown(answers: Callable[[str], list[Answer]]) -> None:
    message = "0/3 nodes are available: 3 Insufficient example.com/gpu."
    shown = {a.route.rpartition("<namespace>/")[2] for a in answers("tenant") if message in a.text}
    assert shown == {
        "decisions",
        "decisions/<name>",
        "podexplanations/<pod>",
        "podhistories/<pod>",
        "pendingpods",
        "workloadplacements/<workload>",
    }


def list_parts(kind: type) -> Iterator[type]:
    """Yield the type of an answer and those of all parts in it."""
    yield kind
    for found in list_disclosures(kind).values():
        if found.part is not None:
            yield from list_parts(found.part)


def holds_text(annotation: Any) -> bool:
    """Return whether values of a type contain a text outside other parts of a record."""
    return annotation is str or any(map(holds_text, get_args(annotation)))


def test_hidden_objects_answer_like_missing_ones(scene: Scene) -> None:
    """Names of the hidden namespace, in the reader's namespace and in their own."""
    hidden = scene.decisions_in(HIDDEN_NAMESPACE)[0]
    assert hidden.pod.owner
    owner = f"{hidden.pod.owner.kind}.{hidden.pod.owner.name}"
    for route in reader_routes(scene):
        if "namespace" not in route.path_parts or len(route.path_parts) < 2 or route.method != "GET":
            continue
        required = {p.name: NODES[0] for p in route.parameters if p.missing}
        for namespace, name in itertools.product(("shop", HIDDEN_NAMESPACE), (hidden.pod.name, hidden.id, owner)):
            said = []
            before, _, after = name.rpartition(MARK)  # of a workload, only the name is another
            for asked in (name, f"{before}absent{after}"):
                path = route.path.replace("<namespace>", namespace).replace(f"<{route.path_parts[1]}>", asked)
                answer = scene.service.client.get(path, query_string=required, headers=bearer("tenant"))
                text = re.sub(r'"similar":\[.*?\]', "", answer.text)  # names of the reader's own pods
                said.append((answer.status_code, text.replace(MARK, "absent")))
            assert said[0][0] in (400, 403, 404), path
            assert said[0] == said[1]


@pytest.mark.wide
def test_answers_of_postgresql_hold_no_hidden_text(tmp_path: Path, postgresql_database: Callable[[], str]) -> None:
    with open_scene(tmp_path, postgresql_database()) as scene:
        answers = ask(scene, "tenant", briefly=True, document_routes=True)
        assert not [leak for a in answers if (leak := a.leaks(scene, "tenant"))]


def test_export_and_check_print_and_log_no_record(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exports are not masked: an operator asks for them. But only the file holds records, and only the chosen ones."""
    began = len(scene.log)
    for namespace, kind in itertools.product(("shop", "outside"), ("jsonl", "parquet")):
        file = tmp_path / f"{namespace}.{kind}"
        options = [
            "export",
            "--data",
            str(scene.folder / "data"),
            "--namespace",
            namespace,
            "--format",
            kind,
            "-o",
            str(file),
        ]
        assert maintenance.main(options) == 0
        for written in [file] if file.is_file() else file.iterdir():
            found = {scene.planted.known.get(w) for w in find_canaries(written.read_bytes().decode("latin-1"))}
            assert {c.namespace for c in found if c and c.record != "nodes"} - {HIDDEN_NAMESPACE} <= {namespace}
            assert not [c for c in found if c and c.record.startswith("hidden")]
    assert maintenance.main(["check", "--data", str(scene.folder / "data")]) == 0
    printed = capsys.readouterr()
    assert not find_canaries(f"{printed.out}{printed.err}{scene.log[began:]}")


def test_storing_and_pruning_log_no_record(tmp_path: Path) -> None:
    with open_scene(tmp_path) as scene:
        assert not find_canaries("\n".join(scene.log))


def unmask(patch: pytest.MonkeyPatch, part: type | None, name: str) -> None:
    """Declare a field of a part, or a parameter if the part is None, to disclose nothing."""
    if part is None:
        patch.setitem(PARAMETERS, name, Discloses.NOTHING)
    else:
        patch.setitem(list_disclosures(part), name, Disclosure(Discloses.NOTHING, None))


@pytest.mark.parametrize(
    "mutate",
    [
        pytest.param(lambda patch: unmask(patch, model.RecordedPod, "name"), id="THIS_POD", marks=pytest.mark.wide),
        pytest.param(
            lambda patch: unmask(patch, model.RecordedPod, "namespace"), id="NAMESPACE", marks=pytest.mark.wide
        ),
        pytest.param(lambda patch: unmask(patch, None, "pod"), id="POD"),
        pytest.param(lambda patch: unmask(patch, model.Candidate, "victims"), id="PODS"),
        pytest.param(lambda patch: unmask(patch, None, "nominated"), id="PODS in a parameter"),
        pytest.param(lambda patch: unmask(patch, model.Decision, "message"), id="MESSAGE"),
        pytest.param(lambda patch: unmask(patch, model.Inputs, "source"), id="TEXT"),
        pytest.param(lambda patch: unmask(patch, model.Outcome, "message"), id="TEXT of an outcome"),
        pytest.param(lambda patch: unmask(patch, None, "error"), id="TEXT in a parameter"),
        pytest.param(lambda patch: patch.setattr(disclosure, "_is_known", bool), id="TERMS"),
        pytest.param(lambda patch: patch.setattr(disclosure, "_is_catalogued", bool), id="REASON"),
        pytest.param(lambda patch: patch.setattr(masked_reader, "mask_row", lambda row, _: row), id="rows of lists"),
        pytest.param(
            lambda patch: patch.setattr(masking, "_mask_workload", lambda name, _: name),
            id="workloads",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_finds_a_text_whose_masking_is_switched_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutate(monkeypatch)
    readers = ("tenant", "node-reader")
    asked = ((reader, a) for reader in readers for a in ask(scene, reader, briefly=True, document_routes=True))
    assert any(answer.leaks(scene, reader) for reader, answer in asked)


def test_finds_each_text_of_a_cluster_review_that_is_declared_to_disclose_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_leaks() -> set[str]:
        shown = mask_answer(scene.cluster, ClusterReviewStatus, OneNamespace("shop"))
        return {word for word in find_canaries(str(shown)) if not scene.may_see("tenant", word)}

    assert not find_leaks()
    hidden = [
        (kind, name)
        for kind in {*list_parts(ClusterReviewStatus)}
        for name, hint in get_type_hints(kind).items()
        if holds_text(hint) and name not in SHOWN_TEXTS.get(kind.__name__, ())
    ]
    assert len(hidden) > 30
    for kind, name in hidden:
        with monkeypatch.context() as patch:
            unmask(patch, kind, name)
            assert find_leaks(), f"{kind.__name__}.{name}"


def test_each_class_that_masking_hides_has_a_mutation() -> None:
    hidden = {*Discloses} - SHOWN - {Discloses.PARTS}
    mark = test_finds_a_text_whose_masking_is_switched_off.pytestmark[0]  # type: ignore[attr-defined]
    assert {rule.name for rule in hidden} <= {str(each.id) for each in mark.args[1]}
