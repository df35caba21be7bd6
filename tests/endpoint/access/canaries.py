"""Records with a canary, a unique word, in every text that their declarations know, and the search for canaries.

What is planted in records follows from the declared types and disclosures of `herodotus_record.model`, so that a new
field or parameter carries a canary without a change here. In answers that are masked as a whole, each text has a canary
that is not in SHOWN_TEXTS, whatever its field declares.
"""

from __future__ import annotations

import base64
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict
from urllib.parse import unquote_plus

import msgspec

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.node_groups import RecordedNodeGroups
from herodotus_record import notes, reasons
from herodotus_record.discloses import Discloses
from herodotus_record.disclosure import PARAMETERS
from herodotus_record.fields import list_declarations, list_disclosures
from herodotus_record.model import Column, Decision, Reason, Verdict
from tests.builders import a_decision

MARK: Final = "canary"
HIDDEN_NAMESPACE: Final = f"{MARK}-namespace"
NODES: Final = tuple(f"{MARK}-node-{i}" for i in (1, 2, 3))
SHOWN: Final = frozenset((Discloses.NOTHING, Discloses.NODES))
# What identifies a record, or has a form that the service checks, stays as the builder made it.
KEPT: Final = {"cluster", "incarnation", "of", "decision_id", "namespace", "phase", "unknown"}
# The texts of answers about the cluster that every reader of such an answer may see, by type and field.
SHOWN_TEXTS: Final = {
    "ReviewedPlacement": {"cause", "fromNode", "node", "plugin"},
    "BlockedPod": {"node", "cause"},
    "RemovedPod": {"node", "cause"},
    "ChangedNode": {"name"},
    "NodeCapacity": {"node"},
    "ScatteredResource": {"resource"},
    "Capacity": {"zones"},
    "EmptiedNode": {"node", "targets"},
    "KeptNode": {"node"},
    "UpgradedDecisions": {"change", "node", "bestBefore", "bestAfter", "rules"},
    "UpgradedRule": {"name", "plugin", "effect"},
    "UpgradeReview": {"fromVersion", "toVersion"},
    "ClusterReviewStatus": {"continue", "drained", "drainCommands"},
    "NodeTemplate": {
        *("zone", "instanceType", "source", "labels", "taints", "allocatable", "daemonRequests", "volumeLimits"),
    },
    "NodeGroupCondition": {"object", "type", "status", "reason", "since"},
    "NodeGroup": {"name", "source", "limits", "used", "atLimit", "taints", "startupTaints", "disruptionBudgets"},
    "NodeGroupRejection": {"plugin", "zones"},
    "NodeGroupVerdict": {"group", "zones", "atLimit", "unknown"},
    "EventReport": {"component", "reason", "at"},
    "NodeEstimate": {"group", "zones", "limitedBy"},
    "ScaleDownBlocker": {"cause", "autoscaler"},
    "NodeScaleDown": {"node", "group"},
    "PlanStep": {"kind", "node", "nodes", "landsOn"},
    "PlacedTarget": {"landsOn"},
    "PlanBound": {"kind", "reason"},
    "PlansOfKind": {"kind", "failures"},
    "PlannedDrain": {"node", "targets", "command"},
    "DrainObstacle": {"node"},
    "DrainPlan": {"cordon", "given"},
    "SpreadSkew": {"topologyKey", "domains"},
    "PlanReview": {"goal", "verdict", "endedBy"},
    "NodeUtilization": {"class", "node", "percentages"},
    "DeschedulePlugin": {"profile", "plugin", "summary"},
    "DescheduledPod": {"node", "profile", "plugin", "outcome", "landsOn"},
    "NonEviction": {"profile", "plugin"},
    "EvictionVerdict": {"node"},
    "DescheduleReview": {"version", "endedBy"},
}

_TOKEN: Final = re.compile(rf"{MARK}-[a-z0-9-]*[a-z0-9]")  # so that a suffix after a dot is no part of a canary
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{12,}")


@dataclass(frozen=True)
class Canary:
    """Where a canary was planted: the record, its field or parameter, and what the field declares to disclose.

    `namespace` is that of the record's pod, and "" for facts about nodes. `has_path` is whether documents contain the
    field.
    """

    record: str
    place: str
    discloses: Discloses
    namespace: str
    has_path: bool


@dataclass
class Plantation:
    """Fills records with canaries and remembers each of them by its word."""

    known: dict[str, Canary] = field(default_factory=dict)
    _used: Counter[str] = field(default_factory=Counter)
    _record: str = ""
    _namespace: str = ""
    _nodes: Sequence[str] = NODES

    def __post_init__(self) -> None:
        self.known |= {node: Canary("nodes", "node", Discloses.NODES, "", True) for node in NODES}
        self.known[HIDDEN_NAMESPACE] = Canary("", "namespace", Discloses.THIS_POD, HIDDEN_NAMESPACE, True)

    def decision(self, record: str, namespace: str, nodes: Sequence[str] = NODES, **arguments: Any) -> Decision:
        """Return the decision of `a_decision` with these arguments, with a canary in each text."""
        self._record, self._namespace, self._nodes = record, namespace, nodes
        base = a_decision(namespace=namespace, nodes=nodes, **arguments)
        planted: Decision = self._part(base)
        told = [reasons.format_reason(r) for f in planted.filters for v in f.verdicts for r in v.reasons]
        if planted.chosen is None:
            message = f"0/3 nodes are available: {', '.join(f'3 {said}' for said in told)}. {planted.message}"
            planted = replace(planted, message=message)
        pre_filters = planted.pre_filters if arguments.get("pre_filters") else ()
        planted = replace(planted, pre_filters=pre_filters, summary=None)
        self._forget_absent(str(planted))
        return planted

    def frame(self, record: str, namespace: str, base: Any) -> Any:
        """Return a frame, such as an outcome or a gap, with a canary in each text."""
        self._record, self._namespace = record, namespace
        planted = self._part(base)
        self._forget_absent(str(planted))
        return planted

    def cluster_review(self, record: str, namespace: str) -> ClusterReviewStatus:
        """Return an answer about the cluster with a canary in each text that some reader may not see.

        Every list of pods has a pod of this namespace and one of the hidden namespace.
        """
        self._record = record
        return msgspec.convert(self._answer(ClusterReviewStatus, HIDDEN_NAMESPACE, namespace), ClusterReviewStatus)

    def _forget_absent(self, text: str) -> None:
        known = self.known.items()
        self.known = {word: canary for word, canary in known if canary.record != self._record or word in text}

    def _part(self, part: Any) -> Any:
        if isinstance(part, Verdict) and not part.rejects_node:
            return part
        hints, declared = get_type_hints(type(part)), list_declarations(type(part))
        planted = {}
        for each in fields(part):
            if each.name in KEPT:
                continue
            label = f"{type(part).__name__}-{each.name}".lower().replace("_", "-")
            found = declared[each.name]
            old = getattr(part, each.name)
            planted[each.name] = self._value(old, hints[each.name], found.discloses, label, bool(found.path))
        return replace(part, **planted)

    def _value(self, old: Any, hint: Any, rule: Discloses, label: str, has_path: bool) -> Any:
        arguments = [a for a in get_args(hint) if a not in (type(None), ...)]
        if get_origin(hint) is tuple:
            if arguments == [Reason]:
                return tuple(self._reasons(label))
            entries = old or (self._empty(arguments[0]),)
            return tuple(self._value(entry, arguments[0], rule, label, has_path) for entry in entries)
        if get_origin(hint) is Mapping:
            key = self._value("", arguments[0], rule, label, has_path)
            return {**old, key: self._value(self._empty(arguments[1]), arguments[1], rule, label, has_path)}
        if arguments and old is None and arguments[0] is int:  # such as the slot of the chosen node
            return None
        if arguments:
            return self._value(self._empty(arguments[0]) if old is None else old, arguments[0], rule, label, has_path)
        if hint is Reason:
            found = next(r for r in self._reasons(label) if "victim" in r.params and "error" in r.params)
            return replace(found, params={name: found.params[name] for name in ("victim", "error")})
        if is_dataclass(hint):
            return self._part(old)
        return self._text(old, rule, label, has_path) if hint is str else old

    def _text(self, old: str, rule: Discloses, label: str, has_path: bool) -> str:
        if rule is Discloses.NODES:
            return old or self._nodes[0]
        word = self._word(label, rule, has_path)
        if label == "outcome-node-groups":
            return self._node_groups(word)
        if rule in (Discloses.POD, Discloses.PODS):
            return f"{HIDDEN_NAMESPACE}/{word}"
        return f'pods "{word}" of {HIDDEN_NAMESPACE} are protected' if rule is Discloses.TEXT else word

    def _node_groups(self, word: str) -> str:
        """Return recorded verdicts of node groups with a canary in each text that may name pods."""
        recorded = self._answer(RecordedNodeGroups, self._namespace, self._namespace)
        return msgspec.json.encode({**recorded, "notes": [word, *recorded["notes"]]}).decode()

    def _answer(self, kind: type, namespace: str, readable: str) -> dict[str, Any]:
        """Return a part of an answer; a list of parts that name their pods has one in each of two namespaces.

        These are `readable` and the hidden one. `namespace` is that of the pod that this part is about.
        """
        rules, shown = list_disclosures(kind), SHOWN_TEXTS.get(kind.__name__, set())
        return {
            name: self._entry(hint, None if name in shown else (kind, name, rules[name].rule), namespace, readable)
            for name, hint in get_type_hints(kind).items()
        }

    def _entry(self, hint: Any, of: tuple[type, str, Discloses] | None, namespace: str, readable: str) -> Any:
        """Return a value of an answer; `of` is its type, field and rule, None if all readers may see its texts."""
        arguments = [a for a in get_args(hint) if a is not NoneType]
        if is_typeddict(hint):
            return self._answer(hint, namespace, readable)
        if get_origin(hint) is Literal:
            return arguments[0]
        if get_origin(hint) is dict:
            return {
                self._entry(arguments[0], of, namespace, readable): self._entry(arguments[1], of, namespace, readable)
            }
        if get_origin(hint) is list:
            rules = list_disclosures(arguments[0]).values() if is_typeddict(arguments[0]) else ()
            names_pods = any(found.rule is Discloses.NAMESPACE for found in rules)
            spaces = dict.fromkeys((readable, HIDDEN_NAMESPACE)) if names_pods else (namespace,)
            return [self._entry(arguments[0], of, each, readable) for each in spaces]
        if arguments:
            return self._entry(arguments[0], of, namespace, readable)
        return hint() if hint is not str else "shown" if of is None else self._answer_text(*of, namespace)

    def _answer_text(self, kind: type, name: str, rule: Discloses, namespace: str) -> str:
        if name == "namespace":
            return namespace
        # What is not in SHOWN_TEXTS is hidden from all but the admin, if its field declares that it is shown.
        planted_as = {Discloses.NAMESPACE: Discloses.THIS_POD, **dict.fromkeys(SHOWN, Discloses.TEXT)}
        label = f"{kind.__name__}-{name}".lower()
        word = self._word(label, planted_as.get(rule, rule), True, namespace)
        if rule is Discloses.NAMESPACE:
            return f"{namespace}/{word}"
        return f"{HIDDEN_NAMESPACE}/{word}" if rule is Discloses.PODS else word

    def _word(self, label: str, rule: Discloses, has_path: bool, namespace: str | None = None) -> str:
        place = f"{self._record}-{label}"
        self._used[place] += 1
        word = f"{MARK}-{place}-{self._used[place]}"
        of = self._namespace if namespace is None else namespace
        self.known[word] = Canary(self._record, label, rule, of, has_path)
        return word

    def _reasons(self, label: str) -> Iterator[Reason]:
        """Yield a reason of every code, one of an unknown code, and one with an undeclared parameter."""
        words = {
            name: self._text("", rule, f"{label}-{name}".lower().replace("_", "-"), True)
            for name, rule in PARAMETERS.items()
            if rule not in SHOWN
        }
        for code, sentence in {**reasons.CATALOGUE, **notes.CATALOGUE, **reasons.CHANGES}.items():
            shown = dict.fromkeys(re.findall(r"\{(\w+)\}", sentence), "1")
            unshown = {Discloses.POD, Discloses.THIS_POD}  # parameters of texts other than the sentence
            more = {"holders", "users"} if code == "cannot-allocate" else set()
            hidden = {n: word for n, word in words.items() if n in shown or n in more or PARAMETERS[n] in unshown}
            yield Reason(code, shown | hidden)
        unknown = self._word(f"{label}-code", Discloses.REASON, True)
        yield Reason(unknown, {"text": unknown})
        yield Reason("ports", {"ports": "80", "undeclared": self._word(f"{label}-undeclared", Discloses.REASON, False)})

    def _empty(self, hint: Any) -> Any:
        """Return a value of this type without canaries, into which `_value` plants them."""
        if hint is Column:
            return array("B", [0] * len(self._nodes))
        if not is_dataclass(hint):
            origin = get_origin(hint) or hint
            return [*origin][-1] if issubclass(origin, Enum) else {} if origin is Mapping else origin()
        hints = get_type_hints(hint)
        needed = (f for f in fields(hint) if f.default is MISSING and f.default_factory is MISSING)
        part: Any = hint
        return part(
            **{f.name: None if type(None) in get_args(hints[f.name]) else self._empty(hints[f.name]) for f in needed}
        )


def find_canaries(text: str) -> set[str]:
    """Return the canaries in a text, whether they are plain, URL-encoded, JSON-escaped or in base64."""
    forms = [text, unquote_plus(text), re.sub(r"\\u00([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), text)]
    for packed in _BASE64.findall(text) if _PACKED.search(text) else ():
        for shift in range(4):
            raw = packed[shift:].replace("-", "+").replace("_", "/")
            forms.append(base64.b64decode(raw[: len(raw) // 4 * 4]).decode("latin-1"))
    return {word for form in forms for word in _TOKEN.findall(form.lower())}


def _encodings() -> Iterator[str]:
    """Yield the middle part of the mark in base64, for each of the three positions at which it may start."""
    for shift in range(3):
        encoded = base64.b64encode(b"x" * shift + MARK.encode() + b"-")
        yield encoded[(shift * 8 + 5) // 6 : (shift + len(MARK) + 1) * 8 // 6].decode()


_PACKED: Final = re.compile("|".join(re.escape(form) for form in _encodings()))
