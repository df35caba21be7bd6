"""Validation of label keys and values, with the API server's messages.

Source: k8s.io/apimachinery/pkg/api/validate/content (kube.go, dns.go) and pkg/apis/core/v1/helper v1.36. Lengths are
counted in bytes, as Go does.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_DOMAIN_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_DOMAIN_LABEL}(\.{_DOMAIN_LABEL})*"
_MAX_NAME: Final = 63
_MAX_DOMAIN: Final = 253

_CHARACTERS: Final = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_NAME_RULE: Final = (
    f"must consist of {_CHARACTERS}"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    f"a valid label must be an empty string or consist of {_CHARACTERS}"
    f" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_DOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_DOMAIN}')"
)


def validate_label_key(key: str) -> list[str]:
    """Return the API server's messages for an invalid label key, or an empty list if the key is valid.

    A label key is `NAME` or `DOMAIN/NAME`, a "qualified name".
    """
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = [f"prefix part {what}" for prefix in prefixes for what in _validate_domain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > _MAX_NAME:
        problems.append(f"name part {_too_long(_MAX_NAME)}")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def validate_label_value(value: str) -> list[str]:
    """Return the API server's messages for an invalid label value, or an empty list if the value is valid."""
    problems = [_too_long(_MAX_NAME)] if len(value.encode()) > _MAX_NAME else []
    return problems if re.fullmatch(_VALUE, value) else [*problems, _VALUE_RULE]


def _validate_domain(domain: str) -> list[str]:
    if not domain:
        return ["must be non-empty"]
    problems = [_too_long(_MAX_DOMAIN)] if len(domain.encode()) > _MAX_DOMAIN else []
    return problems if re.fullmatch(_DOMAIN, domain) else [*problems, _DOMAIN_RULE]


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"
