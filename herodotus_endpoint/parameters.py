"""Query parameters: their names, meanings and limits, the check of their values, and the errors for invalid ones.

Owns: the types of parameters, the parameters that routes of several modules accept, and reading a body up to a limit.
Does not own: which route accepts a parameter (`routing.Route`), its effect, the content of a body.

Invariant: the OpenAPI document and the check of a value derive from the same declaration. No more of a body than its
limit is read, even if the request announces more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from flask import request
from werkzeug.datastructures import MultiDict

from herodotus_endpoint.errors import StatusError

Json = dict[str, Any]
Arguments = MultiDict[str, str]
"""The query parameters of a request, decoded."""

MAX_NAME: Final = 253  # a DNS subdomain, the longest name of a Kubernetes object
MAX_TEXT: Final = 512
MAX_INTEGER: Final = 2**63 - 1  # of a database column
BOOLEANS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Parameter:
    """A query parameter of a route. A subclass defines its type: the JSON schema, and how a value is parsed.

    If `missing` is not "", the parameter is required, and `missing` is the error message of a request without it.
    """

    name: str
    description: str
    missing: str = ""

    @property
    def schema(self) -> Json:
        """The JSON schema of the parameter's value."""
        raise NotImplementedError

    def raw(self) -> str:
        """Return the parameter's unchecked text in this request, or "" if it is absent."""
        return request.args.get(self.name, "")

    def is_set(self, arguments: Arguments | None = None) -> bool:
        """Return whether a request has the parameter with a value other than "", or, for a flag, other than false.

        The value may be invalid. `arguments` are the query parameters of the request, by default of the current one.
        """
        return bool((request.args if arguments is None else arguments).get(self.name))


@dataclass(frozen=True)
class NameParameter(Parameter):
    """A query parameter whose value is the name of a Kubernetes object, or as short as one."""

    @property
    def schema(self) -> Json:
        return {"type": "string", "maxLength": MAX_NAME}

    def parse(self) -> str:
        """Return the name in this request, or "" if the parameter is absent.

        Raises StatusError 400 if the value is too long or contains a NUL, or if a required parameter is missing.
        """
        value = self.raw()
        if self.missing and not value:
            raise StatusError(400, self.missing)
        return check_name(value, self.name)


@dataclass(frozen=True)
class NamesParameter(Parameter):
    """A query parameter that may be repeated, each time with a name. Names after the first `maximum` are ignored."""

    maximum: int = 1

    @property
    def schema(self) -> Json:
        return {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": MAX_NAME, "minLength": 1}}

    def parse(self) -> list[str]:
        """Return the first `maximum` names in this request.

        Raises StatusError 400 if a name is invalid, or if a required parameter is missing.
        """
        names = [check_name(name, self.name) for name in request.args.getlist(self.name)]
        if self.missing and not names:
            raise StatusError(400, self.missing)
        return names[: self.maximum]


@dataclass(frozen=True)
class TextParameter(Parameter):
    """A query parameter with a text of at most `max_length` characters."""

    max_length: int = MAX_TEXT

    @property
    def schema(self) -> Json:
        return {"type": "string", "maxLength": self.max_length}

    def parse(self) -> str:
        """Return the text in this request, or "" if the parameter is absent.

        Raises StatusError 400 if it is too long or contains a NUL.
        """
        value = self.raw()
        if len(value) > self.max_length or "\0" in value:
            raise StatusError(400, f"{self.name} is longer than {self.max_length} characters, or holds a NUL")
        return value


@dataclass(frozen=True)
class ChoiceParameter(Parameter):
    """A query parameter with one of some values, of which the first is the default."""

    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> Json:
        return {"type": "string", "enum": list(self.choices)}

    def parse(self) -> str:
        """Return the value in this request, or the default. Raises StatusError 400 for a value that is not a choice."""
        value = self.raw() or self.choices[0]
        if value not in self.choices:
            raise StatusError(400, f"{self.name} must be one of {', '.join(self.choices)}")
        return value


@dataclass(frozen=True)
class FlagParameter(Parameter):
    """A boolean query parameter, which is false if it is absent and true if it has no value."""

    @property
    def schema(self) -> Json:
        return {"type": "string", "enum": ["true", "false"]}

    def parse(self) -> bool:
        """Return the boolean in this request.

        Raises StatusError 400 for other texts than `true`, `false`, `1` and `0`.
        """
        value = request.args.get(self.name, "false")
        if value not in BOOLEANS:
            raise StatusError(400, f"{self.name} must be true or false, not {value[:MAX_NAME]!r}")
        return BOOLEANS[value]

    def is_set(self, arguments: Arguments | None = None) -> bool:
        return BOOLEANS.get((request.args if arguments is None else arguments).get(self.name, "false"), True)


@dataclass(frozen=True)
class IntegerParameter(Parameter):
    """A query parameter with an integer from `minimum` to `maximum`, which is `default` if it is absent."""

    default: int = 0
    minimum: int = 0
    maximum: int = MAX_INTEGER

    @property
    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}

    def parse(self) -> int:
        """Return the integer in this request, or `default`. Raises StatusError 400 if it is not within the limits."""
        value = request.args.get(self.name)
        if value is None:
            return self.default
        if not re.fullmatch(r"[0-9]{1,19}", value) or not self.minimum <= int(value) <= self.maximum:
            limits = f"from {self.minimum} to {self.maximum}"
            raise StatusError(400, f"{self.name} must be a whole number {limits}, not {value[:MAX_NAME]!r}")
        return int(value)


@dataclass(frozen=True)
class PageSizeParameter(IntegerParameter):
    """The number of items of a page: at most `largest`, and `default` if the parameter is absent or 0.

    As in the API server, a greater value is no error and is reduced to `largest`.
    """

    largest: int = MAX_INTEGER

    def parse(self) -> int:
        return min(super().parse() or self.default, self.largest)


@dataclass(frozen=True)
class TimeParameter(Parameter):
    """A query parameter with a time: a number of seconds before now, or an RFC 3339 time."""

    @property
    def schema(self) -> Json:
        return {"type": "string", "maxLength": MAX_TEXT}

    def parse(self, clock: Callable[[], float]) -> int | None:
        """Return the time in this request in microseconds since 1970, or None if the parameter is absent.

        Raises StatusError 400 for a value that is not a time. `clock` returns seconds since 1970.
        """
        value = request.args.get(self.name)
        if value is None:
            return None
        if re.fullmatch(r"[0-9]{1,12}", value):
            return max(0, int((clock() - int(value)) * 1e6))
        try:
            time = datetime.fromisoformat(value)
            if time.tzinfo is None:
                raise ValueError("no offset")
            return max(0, int(time.astimezone(timezone.utc).timestamp() * 1e6))
        except (ValueError, OverflowError) as e:
            expected = "a number of seconds or a time as in 2026-03-01T12:00:00Z"
            raise StatusError(400, f"{self.name} must be {expected}, not {value[:MAX_NAME]!r}") from e


CLUSTER: Final = NameParameter(
    "cluster",
    "A cluster: the UID of its namespace kube-system, or the common name of its sender's certificate. Without it, the"
    " API server's own cluster.",
)
UID: Final = NameParameter("uid", "Only the pod of this UID.")
ATTEMPT: Final = IntegerParameter("attempt", "Number of the pod's stored attempt, ordered by start.", minimum=1)
PROFILE: Final = NameParameter("profile", "Only decisions of this profile (spec.schedulerName).")
SINCE: Final = TimeParameter("since", "Seconds before now, or a time with its offset.")
UNTIL: Final = TimeParameter("until", "End of the time, not included: seconds before now, or a time with its offset.")

# What kubectl and other clients add to requests.
TIMEOUT: Final = TextParameter("timeout", "Accepted without effect.")
PRETTY: Final = FlagParameter("pretty", "Accepted without effect.")
RESOURCE_VERSION: Final = TextParameter(
    "resourceVersion", "Version after which a watch starts; without effect elsewhere.", max_length=18
)
INCLUDE_OBJECT: Final = ChoiceParameter(
    "includeObject", "Which object each row of a table contains.", choices=("Metadata", "None", "Object")
)
GET_PARAMETERS: Final = (RESOURCE_VERSION, INCLUDE_OBJECT, PRETTY)


def reject_unknown(*names: str) -> None:
    """Raise StatusError 400 if this request has a query parameter that is not in `names`, or has one twice.

    TIMEOUT is always accepted: kubectl adds it to requests through the API server.
    """
    for name in request.args:
        if name not in (*names, TIMEOUT.name):
            raise StatusError(400, f"unknown parameter {name[:MAX_NAME]!r}; supported: {', '.join(names) or 'none'}")
        if len(request.args.getlist(name)) > 1:
            raise StatusError(400, f"parameter {name!r} is given more than once")


def check_name(value: str, what: str) -> str:
    """Return `value` unchanged if it could be the name of a Kubernetes object; "" is allowed.

    Raises StatusError 400 if it is too long or contains a NUL. `what` names the value in the error message.
    """
    if len(value) > MAX_NAME:
        raise StatusError(400, f"{what} is longer than {MAX_NAME} characters")
    if "\0" in value:  # PostgreSQL cannot store it in a text
        raise StatusError(400, f"{what} contains a NUL")
    return value


def read_body(most: int, what: str) -> bytes:
    """Return the body of the current request as sent, without decompressing it.

    Raises StatusError 413 if it is longer than `most` bytes; `what` names the body in the message.
    """
    body = request.stream.read(most + 1)
    if len(body) > most:
        raise StatusError(413, f"{what} must be at most {most >> 10} KiB as sent")
    return body
