"""Types of command-line flags that several servers have, for the argument `type` of argparse.

Owns: sizes in bytes, addresses to listen on, names of namespaced Kubernetes objects, and the flag for probes. Does not
own: other flags and their defaults.
"""

from __future__ import annotations

import argparse
import re
from typing import Final

from herodotus_serving.sockets import Address

MAX_BYTES: Final = 1 << 50  # 1024Ti
_SHIFTS: Final = {"Ti": 40, "Gi": 30, "Mi": 20, "Ki": 10, "": 0}
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"  # RFC 1123
_NAMESPACE: Final = re.compile(rf"(?=.{{1,63}}$){_LABEL}")
_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


class ByteSize:
    """A number of bytes such as 500, 64Ki or 4Gi, from `minimum` to MAX_BYTES. `example` is for the error message."""

    def __init__(self, minimum: int, example: str) -> None:
        self._minimum, self._example = minimum, example

    def __call__(self, text: str) -> int:
        """Return the number of bytes that a text denotes. Raises argparse.ArgumentTypeError for other texts."""
        match = re.fullmatch(r"([0-9]{1,12})(|Ki|Mi|Gi|Ti)", text)
        size = int(match[1]) << _SHIFTS[match[2]] if match else -1
        if not self._minimum <= size <= MAX_BYTES:
            bounds = f"{_format_size(self._minimum)} to {_format_size(MAX_BYTES)}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a size from {bounds}, such as {self._example}")
        return size


def parse_address(text: str) -> Address:
    """Return the address that HOST:PORT denotes; an IPv6 address is in brackets. Raises argparse.ArgumentTypeError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", text)
    if not match or int(match[3]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return Address(match[1] or match[2], int(match[3]))


def add_probe_bind(parser: argparse._ActionsContainer, paths: str) -> None:
    """Add the flag --probe-bind to a command-line parser; `paths` names what the server answers there."""
    parser.add_argument(
        "--probe-bind",
        action="append",
        type=parse_address,
        metavar="HOST:PORT",
        help=f"serve {paths} on this address too, for the kubelet: without TLS, and independent of other clients",
    )


def parse_object_name(text: str) -> tuple[str, str]:
    """Return the namespace and the name in a text NAMESPACE/NAME, which names an object such as a Secret.

    Raises argparse.ArgumentTypeError if Kubernetes does not allow such names, so that the result is safe in the path of
    a URL.
    """
    namespace, _, name = text.partition("/")
    if not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def _format_size(size: int) -> str:
    unit, shift = next((unit, shift) for unit, shift in _SHIFTS.items() if size % (1 << shift) == 0)
    return f"{size >> shift}{unit}"
