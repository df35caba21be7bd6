"""Mask a record or an answer for a reader who may not see everything, by what its fields declare to disclose.

One walk masks dataclasses of a record and TypedDicts of an answer, with the same rules. The namespaces that a value
names are those for which the walk needs to know whether the reader may see them.

Owns: what each parameter of a reason or note discloses, and masking. Does not own: what each field discloses (`model`
and `herodotus_answers` declare it), which namespaces a reader may see, values of the store. Pure.

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
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from herodotus_record import notes, reasons
from herodotus_record.discloses import Discloses
from herodotus_record.fields import list_disclosures
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import Decision, InputColumn, Outcome, Reason

HIDDEN: Final = "(hidden)"  # in place of a name: no Kubernetes name can be this
HIDDEN_TEXT: Final = "(message hidden: it may name pods of other namespaces)"

_N: Final = Discloses.NOTHING
_NODES: Final = Discloses.NODES
_NAMESPACE: Final = Discloses.NAMESPACE
_UNDECLARED: Final = (None, None)

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
    **dict.fromkeys(
        ("domains", "matches", "nodeTaintsPolicy", "nodeAffinityPolicy", "minDomains", "allocatable", "capacity"),
        _N,
    ),
    "emptiest": Discloses.NODES,
    "podNode": Discloses.NODES,
    "like": Discloses.NODES,
    **dict.fromkeys(("request", "device_class", "needed", "devices", "usable", "kept", "extendedResource"), _N),
    **dict.fromkeys(("plugin", "plugins", "scheduler", "extender", "verb", "kind", "api", "purpose", "field"), _N),
    **dict.fromkeys(("change", "rules", "version", "source"), _N),
    **dict.fromkeys(("weight", "taint", "size", "domain", "terms"), _N),
    "node": Discloses.NODES,
    # of the pod itself, in suggestions and scores
    **dict.fromkeys(
        (
            "container",
            "group",
            "from",
            "to",
            "difference",
            "tolerated",
            "parts",
            "namespaces",
            "stoppers",
            "image",
            "labels",
        ),
        Discloses.THIS_POD,
    ),
    **dict.fromkeys(("templateCount", "index", "lost", "differs"), _N),
    # of other pods
    "pod": Discloses.POD,
    "victim": Discloses.PODS,
    "nominated": Discloses.PODS,
    "leaving": Discloses.PODS,
    "users": Discloses.PODS,
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

Answer = TypeVar("Answer")


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


class _NamedNamespaces:
    """Visibility of every namespace that notes the namespaces for which it is needed."""

    everything = False

    def __init__(self) -> None:
        self.namespaces: set[str] = set()

    def sees(self, namespace: str) -> bool:
        self.namespaces.add(namespace)
        return True


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


def mask_answer(answer: Answer, kind: type[Answer], visibility: NamespaceVisibility) -> Answer:
    """Return an answer, or a part of one, without the values that the reader may not see; itself if nothing is hidden.

    `kind` is the TypedDict of `answer`. Parts that are not about a pod are shown: they are about the cluster, about
    which the reader may ask.
    """
    if visibility.everything:
        return answer
    shown: Answer = _View(visibility).part(answer, kind)
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


def list_named_namespaces(part: object, kind: type | None = None) -> frozenset[str]:
    """Return the namespaces of all pods whose names occur in a part of a record or answer, or in a tuple of parts.

    `kind` is the TypedDict of a part of an answer, and None for parts of a record.
    """
    named = _NamedNamespaces()
    _View(named).part(part, kind)
    return frozenset(named.namespaces)


class _View:
    """Masks the parts of a record or answer for a reader who may not see every namespace."""

    def __init__(self, visibility: NamespaceVisibility, namespace: str | None = None) -> None:
        """Prepare masking for a reader with this visibility.

        `namespace` is that of the pod that is decided about, or None if only the parts themselves name their pods.
        """
        self._visibility = visibility
        self._own = namespace is None or visibility.sees(namespace)
        self._sentences = _CONSTANT

    def allow(self, sentences: Iterable[str]) -> None:
        """Let messages of the record show these sentences in addition to kube-scheduler's constant ones."""
        self._sentences = _with_constant(frozenset(sentences))

    def message(self, message: str) -> str:
        """Return a message of a scheduler in which only counts and the allowed sentences are shown."""
        return self._sentences.only(message)

    def part(self, value: Any, kind: type | None = None) -> Any:
        """Return a part, or a sequence of parts, with every hidden field masked; the same object if nothing is hidden.

        `kind` is the type of parts that are TypedDicts.
        """
        return self._part(value, kind, self._own)

    def _part(self, value: Any, kind: type | None, own: bool) -> Any:
        """Return a part with its hidden values masked. `own` is whether the reader sees the pod that the part is about.

        If the part has a field with the namespace of a pod, that pod counts instead. `kind` is the part's TypedDict, if
        it is one.
        """
        if value is None:
            return None
        if isinstance(value, (tuple, list)):
            return self._parts(value, kind, own)
        if isinstance(value, Reason):
            return self._reason(value, own)
        declared = list_disclosures(kind or type(value))
        values = value if isinstance(value, dict) else {f.name: getattr(value, f.name) for f in fields(value)}
        pod = next((values[name] for name, field in declared.items() if field.rule is _NAMESPACE), None)
        own = own if pod is None else self._sees(pod)
        shown = {}
        for name, old in values.items():
            rule, part = declared.get(name, _UNDECLARED)
            if rule is _N or rule is _NODES:
                continue
            new = _neutral(old) if rule is None else self._value(old, rule, part, own)
            if new is not old:
                shown[name] = new
        if not shown:
            return value
        return {**value, **shown} if isinstance(value, dict) else replace(value, **shown)

    def _parts(self, values: tuple[Any, ...] | list[Any], kind: type | None, own: bool) -> Any:
        visible = [self._part(v, kind, own) for v in values if not isinstance(v, InputColumn) or _is_known(v)]
        unchanged = len(visible) == len(values) and all(map(_is, visible, values))
        return values if unchanged else type(values)(visible)

    def _value(self, value: Any, rule: Discloses, part: type | None, own: bool) -> Any:
        """Return the value of a field or parameter as the reader may see it, masked by `rule`.

        `part` is the type of the parts that the value holds, if any. `own` is whether the reader sees the pod it is
        about.
        """
        match rule:
            case Discloses.PARTS:
                return self._part(value, part, own)
            case Discloses.NOTHING | Discloses.NODES | Discloses.TERMS:  # for terms, see `_parts`
                return value
            case Discloses.THIS_POD | Discloses.NAMESPACE:
                if not own:
                    return _neutral(value)
                return value if part is None else self._part(value, part, own)
            case Discloses.POD:
                return value if self._name(value) == value else ""
            case Discloses.PODS:
                return _map_texts(self._name, value)
            case Discloses.MESSAGE:
                return _map_texts(self.message, value) if own else _empty(value)
            case Discloses.TEXT:
                return _hidden_text(value) if own else _empty(value)
        return _neutral(value)

    def _reason(self, reason: Reason, own: bool) -> Reason:
        """Return the reason with masked parameters, or itself if nothing is hidden.

        If its code is not in a catalogue, return a reason with a fixed text instead. `own` is as in `_part`.
        """
        if not _is_catalogued(reason.code):
            return Reason("text", {"text": HIDDEN_TEXT})
        shown = {name: self._parameter(name, value, own) for name, value in reason.params.items()}
        return reason if shown == reason.params else Reason(reason.code, shown)

    def _parameter(self, name: str, value: str, own: bool) -> str:
        rule = PARAMETERS.get(name)
        if rule is None:
            return HIDDEN_TEXT
        if rule is Discloses.PODS:
            return ", ".join(map(self._name, value.split(", ")))
        return str(self._value(value, rule, None, own))

    def _name(self, pod: str) -> str:
        return pod if not pod or ("/" in pod and self._sees(pod)) else HIDDEN

    def _sees(self, pod: str) -> bool:
        """Return whether the reader sees a pod, which is named as NAMESPACE or NAMESPACE/NAME."""
        return self._visibility.sees(pod.partition("/")[0])


def _view_of(decision: Decision, visibility: NamespaceVisibility) -> _View:
    """Return a view that masks a decision for a reader and allows the sentences that its message may show."""
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

    They are those of reasons that the view does not mask, of restrictions by PreFilter, and of the requested resources.
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
    return any(code in catalogue for catalogue in (reasons.CATALOGUE, reasons.CHANGES, reasons.SCORES, notes.CATALOGUE))


def _hidden_text(value: Any) -> Any:
    if not value:
        return value
    return HIDDEN_TEXT if isinstance(value, str) else type(value)((HIDDEN_TEXT,))


def _empty(value: Any) -> Any:
    """Return the empty value of the same type: "" for a text, an empty sequence for a sequence."""
    return type(value)()


def _map_texts(mask: Callable[[str], str], value: Any) -> Any:
    """Return `mask(value)` for a text, or the sequence of masked texts; the same sequence if no text changes."""
    if isinstance(value, str):
        return mask(value)
    shown = type(value)(map(mask, value))
    return value if shown == value else shown


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
        case tuple() | list():
            return type(value)()
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
