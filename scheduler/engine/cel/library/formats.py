"""Named formats such as `format.dns1123Label()`, which tell what is wrong with a text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.network import parse_url
from scheduler.engine.cel.library.times import parse_timestamp
from scheduler.engine.cel.values import NOTHING, OpaqueValue, OptionalValue

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_UUID: Final = re.compile(
    r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
    r"|^[0-9a-f]{32}$",
    re.ASCII,
)
_DATETIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True, eq=False)
class Format(OpaqueValue):
    """A format with the function that returns what is wrong with a text."""

    name: str
    check: Callable[[str], list[str]]
    type_name = "kubernetes.NamedFormat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _form_error(kind: str, pattern: str, examples: str) -> str:
    return f"{kind} ({examples}, regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


_LABEL_KIND: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_KIND: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_1035_KIND: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)


def _pattern_check(pattern: str, limit: int, kind: str, examples: str, is_prefix: bool) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> list[str]:
        text = text[:-1] + "a" if is_prefix and len(text) > 1 and text.endswith("-") else text
        wrong = [_too_long(limit)] if len(text.encode()) > limit else []
        if not compiled.fullmatch(text):
            wrong.append(_form_error(kind, pattern, examples))
        return wrong

    return check


def _label(is_prefix: bool) -> Callable[[str], list[str]]:
    return _pattern_check(_LABEL, _LABEL_LENGTH, _LABEL_KIND, "e.g. 'my-name',  or '123-abc'", is_prefix)


def _subdomain(is_prefix: bool) -> Callable[[str], list[str]]:
    return _pattern_check(_SUBDOMAIN, _SUBDOMAIN_LENGTH, _SUBDOMAIN_KIND, "e.g. 'example.com'", is_prefix)


def _label_1035(is_prefix: bool) -> Callable[[str], list[str]]:
    return _pattern_check(_LABEL_1035, _LABEL_LENGTH, _LABEL_1035_KIND, "e.g. 'my-name',  or 'abc-123'", is_prefix)


_NAME_KIND: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NAME_EXAMPLES: Final = "e.g. 'MyName',  or 'my.name',  or '123-abc'"


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    wrong = []
    if len(parts) > 2:
        kind = f"a qualified name {_NAME_KIND}"
        message = _form_error(kind, _NAME, _NAME_EXAMPLES)
        return [f"{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if len(parts) == 2:
        if not parts[0]:
            wrong.append("prefix part must be non-empty")
        else:
            wrong += [f"prefix part {message}" for message in _subdomain(False)(parts[0])]
    name = parts[-1]
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name.encode()) > _LABEL_LENGTH:
        wrong.append(f"name part {_too_long(_LABEL_LENGTH)}")
    if not re.fullmatch(_NAME, name, re.ASCII):
        wrong.append(f"name part {_form_error(_NAME_KIND, _NAME, _NAME_EXAMPLES)}")
    return wrong


def _label_value(text: str) -> list[str]:
    wrong = [_too_long(_LABEL_LENGTH)] if len(text.encode()) > _LABEL_LENGTH else []
    pattern = f"({_NAME})?"
    if not re.fullmatch(pattern, text, re.ASCII):
        kind = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        kind += "start and end with an alphanumeric character"
        wrong.append(_form_error(kind, f"(({_NAME[:-12]}[A-Za-z0-9])?", "e.g. 'MyValue',  or 'my_value',  or '12345'"))
    return wrong


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except CelRuntimeError as error:
        return [str(error).partition(": ")[2]]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    try:
        valid = len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        valid = False
    return [] if valid else ["invalid date"]


def _date_time(text: str) -> list[str]:
    day, separator, clock = text.partition("t" if "t" in text else "T")
    if not separator or _date(day) or not _DATETIME.fullmatch(clock):
        return ["invalid datetime"]
    try:
        return [] if parse_timestamp(text.upper()) else ["invalid datetime"]
    except CelRuntimeError:
        return []


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _label(False)),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain(False)),
    "dns1035Label": Format("DNS1035Label", _label_1035(False)),
    "qualifiedName": Format("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _label(True)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _subdomain(True)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _label_1035(True)),
    "labelValue": Format("LabelValue", _label_value),
    "uri": Format("URI", _uri),
    "uuid": Format("uuid", _uuid),
    "byte": Format("byte", _byte),
    "date": Format("date", _date),
    "datetime": Format("datetime", _date_time),
}


def _named(name: str) -> OptionalValue:
    format_ = FORMATS.get(name)
    return NOTHING if format_ is None else OptionalValue(format_, present=True)


def _validate(checked: Format, text: str) -> OptionalValue:
    wrong = checked.check(text)
    return OptionalValue(wrong, present=True) if wrong else NOTHING


def _constant(checked: Format) -> Callable[[], Format]:
    return lambda: checked


OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("validate", "format-validate", "format.(string) -> optional(list(string))", _validate),
    declare("format.named", "format-named", "(string) -> optional(format)", _named),
    *(declare(f"format.{name}", f"format.{name}", "() -> format", _constant(f)) for name, f in FORMATS.items()),
)
