"""Mask a record for a reader who may not see everything, by what its fields declare to disclose.

Owns: what each parameter of a reason or note discloses, and masking. Does not own: what each field discloses (`model`
declares it), which namespaces a reader may see, values of the store. Pure.

Masking never depends on the wording of a text. Names of other pods are separate values, compared by namespace. A text
that others wrote (a plugin, an extender, the API server, another scheduler, notes of an earlier version) may name any
pod, so only a reader who sees every namespace gets it. The message of the FailedScheduling event consists of counts and
sentences. A sentence is shown if it is one of kube-scheduler's constant ones, or follows from a reason of the same
record that the reader may see. Everything else in the message is replaced.

Invariant: a field or parameter without a declaration is hidden.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from herodotus_record import model, notes, reasons
from herodotus_record.fields import Discloses, list_declarations
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import Decision, InputColumn, Outcome, Reason

HIDDEN: Final = "(hidden)"  # in place of a name: no Kubernetes name can be this
HIDDEN_TEXT: Final = "(message hidden: it may name pods of other namespaces)"


FIELDS: Final[Mapping[type, Mapping[str, Discloses]]] = {
    kind: {name: declared.discloses for name, declared in list_declarations(kind).items()}
    for kind in vars(model).values()
    if isinstance(kind, type) and is_dataclass(kind)
}
_N: Final = Discloses.NOTHING

# Parameters of reasons (`reasons.CATALOGUE`) and notes (`notes.CATALOGUE`), by name.
PARAMETERS: Final[Mapping[str, Discloses]] = {
    # of the pod itself, of nodes and of the cluster
    **dict.fromkeys(
        ("key", "value", "effect", "others", "ports", "resource", "wants", "lacks", "features", "feature"), _N
    ),
    **dict.fromkeys(
        ("pods", "fewest", "maxSkew", "limit", "attached", "new", "count", "total", "named", "victims"), _N
    ),
    **dict.fromkeys(("claim", "claims", "volume", "storage_class", "selected", "disk", "driver", "name", "gates"), _N),
    **dict.fromkeys(("request", "device_class", "needed", "devices", "usable", "stoppers"), _N),
    **dict.fromkeys(("plugin", "plugins", "scheduler", "extender", "verb", "kind", "api", "purpose", "field"), _N),
    **dict.fromkeys(("change", "rules", "version", "source"), _N),
    "node": Discloses.NODES,
    # of the pod itself, in suggestions
    **dict.fromkeys(("container", "group", "from", "to"), Discloses.THIS_POD),
    "templateCount": _N,
    # of other pods
    "pod": Discloses.POD,
    "victim": Discloses.PODS,
    "nominated": Discloses.PODS,
    "holders": Discloses.PODS,  # resource claims, which the pods of their namespace own or use
    # texts that anyone may have written
    "message": Discloses.MESSAGE,
    "text": Discloses.TEXT,
    "error": Discloses.TEXT,
    "status": Discloses.TEXT,  # of the first placement of a pod group
}

# Words in the names and units of the measurements that plugins and agents of this version use.
TERMS: Final = frozenset(
    [
        "cpu",
        "deviation",
        "factor",
        "memory",
        "objective",
        "price",
        "received",
        "reward",
        "risk",
        "used",
        "%",
        "B",
        "B/s",
    ]
)

Part = TypeVar("Part")


class NamespaceVisibility(Protocol):
    """The namespaces whose pods a reader may see."""

    @property
    def everything(self) -> bool:
        """Return whether the reader may see every namespace."""

    def sees(self, namespace: str) -> bool:
        """Return whether the reader may see the names of pods in a namespace."""


class _OwnNamespace:
    """Visibility of a single namespace, that of the decision's pod, which every reader of the decision may see."""

    everything = False

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def sees(self, namespace: str) -> bool:
        return namespace == self._namespace


def mask_decision(decision: Decision, visibility: NamespaceVisibility) -> Decision:
    """Return the decision without the values that the reader may not see; the same object if nothing is hidden."""
    if visibility.everything:
        return decision
    shown: Decision = _view_of(decision, visibility).part(decision)
    return shown


def mask_outcome(outcome: Outcome, decision: Decision, visibility: NamespaceVisibility) -> Outcome:
    """Return an outcome of `decision` without the values that the reader may not see."""
    if visibility.everything:
        return outcome
    shown: Outcome = _View(visibility, decision.pod.namespace).part(outcome)
    return shown


def mask_message(message: str) -> str:
    """Return a FailedScheduling message in which only node counts and kube-scheduler's constant sentences are shown.

    Everything else is replaced. Use it where the decision is not at hand; `mask_decision` shows more of the message.
    """
    return _CONSTANT.only(message)


def is_message_public(decision: Decision) -> bool:
    """Return whether every reader of the decision, even one who sees no other namespace, may see its whole message."""
    if not decision.message:
        return True
    view = _view_of(decision, _OwnNamespace(decision.pod.namespace))
    return view.message(decision.message) == decision.message


def list_named_namespaces(decision: Decision, outcomes: Iterable[Outcome] = ()) -> frozenset[str]:
    """Return the namespaces of the decision's pod and of every other pod that the decision or its outcomes name."""
    namespaces = {decision.pod.namespace}
    for part in (decision, *outcomes):
        namespaces.update(name.partition("/")[0] for name in _pods(part))
    return frozenset(namespaces)


def _pods(part: Any) -> Iterator[str]:
    """Yield the NAMESPACE/NAME of every other pod that a value of a record, or a value inside it, names."""
    if isinstance(part, tuple):
        for each in part:
            yield from _pods(each)
    elif isinstance(part, Reason):
        for name, value in part.params.items():
            if PARAMETERS.get(name) in (Discloses.POD, Discloses.PODS):
                yield from filter(None, value.split(", "))
    elif is_dataclass(part):
        declared = FIELDS.get(type(part), {})
        for field in fields(part):
            rule = declared.get(field.name)
            if rule is Discloses.PODS:
                yield from getattr(part, field.name)
            elif rule is Discloses.PARTS:
                yield from _pods(getattr(part, field.name))


class _View:
    """Masks the values of one record for a reader who may not see every namespace."""

    def __init__(self, visibility: NamespaceVisibility, namespace: str) -> None:
        """Prepare masking for a reader with this visibility; `namespace` is that of the pod that is decided about."""
        own = visibility.sees(namespace)
        self._visibility = visibility
        self._sentences = _CONSTANT
        self._rules: Mapping[Discloses, Callable[[Any], Any]] = {
            Discloses.NOTHING: _same,
            Discloses.NODES: _same,
            Discloses.THIS_POD: _same if own else _neutral,
            Discloses.PODS: self._pods,
            Discloses.POD: self._pod,
            Discloses.TEXT: _hidden_text if own else _empty,
            Discloses.MESSAGE: self.message if own else _empty,
            Discloses.PARTS: self.part,
            Discloses.TERMS: _same,  # see `_parts`
        }

    def allow(self, sentences: Iterable[str]) -> None:
        """Let messages of the record show these sentences in addition to kube-scheduler's constant ones."""
        self._sentences = _with_constant(frozenset(sentences))

    def message(self, message: str) -> str:
        """Return a message of a scheduler in which only counts and the allowed sentences are shown."""
        return self._sentences.only(message)

    def part(self, value: Any) -> Any:
        """Return a value of the record, or a tuple of values, with every hidden field masked.

        Returns the same object if nothing is hidden.
        """
        if value is None:
            return None
        if isinstance(value, tuple):
            return self._parts(value)
        if isinstance(value, Reason):
            return self._reason(value)
        declared, shown = FIELDS.get(type(value), {}), {}
        for field in fields(value):
            old = getattr(value, field.name)
            rule = declared.get(field.name)
            new = _neutral(old) if rule is None else self._rules[rule](old)
            if new is not old:
                shown[field.name] = new
        return replace(value, **shown) if shown else value

    def _parts(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        visible = tuple(self.part(value) for value in values if not isinstance(value, InputColumn) or _is_known(value))
        return values if len(visible) == len(values) and all(map(_is, visible, values)) else visible

    def _reason(self, reason: Reason) -> Reason:
        """Return the reason with masked parameters; if its code is unknown, a reason with a fixed text instead."""
        if not _is_catalogued(reason.code):
            return Reason("text", {"text": HIDDEN_TEXT})
        shown = {name: self._parameter(name, value) for name, value in reason.params.items()}
        return reason if shown == reason.params else Reason(reason.code, shown)

    def _parameter(self, name: str, value: str) -> str:
        rule = PARAMETERS.get(name)
        return HIDDEN_TEXT if rule is None else str(self._rules[rule](value))

    def _pods(self, value: Any) -> Any:
        if isinstance(value, str):
            return ", ".join(map(self._name, value.split(", ")))
        shown = tuple(map(self._name, value))
        return value if shown == value else shown

    def _pod(self, value: str) -> str:
        return value if self._name(value) == value else ""

    def _name(self, pod: str) -> str:
        namespace, slash, _ = pod.partition("/")
        return pod if not pod or (slash and self._visibility.sees(namespace)) else HIDDEN


def _view_of(decision: Decision, visibility: NamespaceVisibility) -> _View:
    """Return the view of a decision for a reader, with the sentences that its message may show."""
    view = _View(visibility, decision.pod.namespace)
    view.allow(_sentences(decision, view))
    return view


class _Sentences:
    """The sentences that a masked FailedScheduling message may show: the constant ones and the given ones."""

    def __init__(self, more: Iterable[str]) -> None:
        sentences = sorted({*_CONSTANT_SENTENCES, *filter(None, more)}, key=len, reverse=True)
        self._sentence_pattern = re.compile(rf"(?:\d+ )?(?:{'|'.join(map(re.escape, sentences))})(?=, |\. |\.?$)")

    def only(self, message: str) -> str:
        """Return the message with everything replaced except counts and the allowed sentences."""
        shown: list[str] = []
        offset = 0
        while offset < len(message):
            match = _FRAME.match(message, offset) or self._sentence_pattern.match(message, offset)
            if match is None:
                count = _COUNT.match(message, offset)
                end = _END.search(message, offset + 1)
                shown.append((count[0] if count else "") + HIDDEN_TEXT)
                offset = end.start() if end else len(message)
            else:
                shown.append(match[0])
                offset = match.end()
        return "".join(shown)


def _sentences(decision: Decision, view: _View) -> Iterator[str]:
    """Yield the sentences that the decision's message may show to the reader of `view`.

    They follow from reasons that the view does not mask, and from other fields of the decision.
    """
    version = find_wording_version(decision.scheduler.rules)
    for reason in _reasons(decision):
        if view.part(reason) is reason:
            yield reasons.format_reason(reason, version)
    if decision.restricted_by:
        yield reasons.format_reason(Reason("narrowed", {"plugins": f"[{' '.join(decision.restricted_by)}]"}))
    for resource in decision.pod.requests:
        yield reasons.format_reason(Reason("insufficient", {"resource": resource}))


def _reasons(decision: Decision) -> Iterator[Reason]:
    for f in decision.filters:
        for verdict in f.verdicts:
            yield from verdict.reasons
    for p in (*decision.pre_filters, *decision.post_filters):
        yield from p.verdict.reasons


@lru_cache(maxsize=256)  # decisions of one pod template share their sentences; compiling takes 1 ms
def _with_constant(sentences: frozenset[str]) -> _Sentences:
    return _Sentences(sentences)


def _is_known(number: InputColumn) -> bool:
    return TERMS.issuperset(f"{number.name} {number.unit}".split())


def _is_catalogued(code: str) -> bool:
    return any(code in catalogue for catalogue in (reasons.CATALOGUE, reasons.CHANGES, notes.CATALOGUE))


def _hidden_text(value: Any) -> Any:
    if not value:
        return value
    return (HIDDEN_TEXT,) if isinstance(value, tuple) else HIDDEN_TEXT


def _empty(value: Any) -> Any:
    """Return an empty value of the same type, a text or a tuple."""
    return type(value)()


def _same(value: Part) -> Part:
    return value


def _neutral(value: Any) -> Any:
    """Return the placeholder for a hidden value of this type: HIDDEN for a text, zero, an empty collection, or None."""
    match value:
        case str():
            return HIDDEN
        case bool() | int() | float():
            return type(value)()
        case Mapping():
            return {}
        case array():
            return array("B")
        case tuple():
            return ()
    return None


def _is(one: object, other: object) -> bool:
    return one is other


_CONSTANT_SENTENCES: Final = [
    *(template for template in reasons.CATALOGUE.values() if "{" not in template),
    *(f"Insufficient {resource}" for resource in ("cpu", "memory", "ephemeral-storage")),
]
_FRAME: Final = re.compile(r"0/\d+ nodes are available:|preemption: |, |\. |\.$| ")
_COUNT: Final = re.compile(r"\d+ ")
_END: Final = re.compile(r", |\. |\.$")
_CONSTANT: Final = _Sentences(())
