"""Values of flags: sizes in bytes and names of objects, and what is refused."""

from __future__ import annotations

import argparse
import re

import pytest

from herodotus_serving.flag_types import MAX_BYTES, ByteSize, parse_address, parse_object_name
from herodotus_serving.sockets import Address

SIZE = ByteSize(64 << 10, "512Mi")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("65536", 65536), ("64Ki", 65536), ("3Mi", 3 << 20), ("1Gi", 1 << 30), ("1024Ti", MAX_BYTES)],
)
def test_sizes(text: str, expected: int) -> None:
    assert SIZE(text) == expected


@pytest.mark.parametrize("text", ["", "0", "63Ki", "65535", "1025Ti", "1G", "1.5Gi", "-1Gi", "1gi", "1Gi ", "9" * 13])
def test_other_sizes_are_refused(text: str) -> None:
    message = f"{text!r} is not a size from 64Ki to 1024Ti, such as 512Mi"
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{re.escape(message)}$"):
        SIZE(text)


def test_a_size_without_a_minimum_is_at_least_a_byte() -> None:
    assert ByteSize(1, "2Mi")("1") == 1
    with pytest.raises(argparse.ArgumentTypeError, match="'0' is not a size from 1 to 1024Ti, such as 2Mi"):
        ByteSize(1, "2Mi")("0")


@pytest.mark.parametrize("name", ["a", "herodotus-ca", "a.b-c.d", "n" * 253])
def test_object_names(name: str) -> None:
    assert parse_object_name(f"kube-system/{name}") == ("kube-system", name)


@pytest.mark.parametrize(
    "text",
    ["", "a", "/a", "a/", "a/b/c", "a/..", "../a", "a/b?c", "a/b#c", "a/B", "a.b/c", "a/-b", "a/b\n", "a/" + "n" * 254],
)
def test_what_kubernetes_does_not_allow_as_a_name_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not NAMESPACE/NAME"):
        parse_object_name(text)


@pytest.mark.parametrize(("text", "host"), [("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1"), ("a.b:80", "a.b")])
def test_addresses(text: str, host: str) -> None:
    assert parse_address(text) == Address(host, 80)


@pytest.mark.parametrize("text", ["", ":80", "a", "a:", "a:65536", "::1:80", "[x]:80", "a:8 0", "a:80\n", "a:\u0668"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not HOST:PORT"):
        parse_address(text)
