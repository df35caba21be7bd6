"""IP addresses, address blocks and URLs."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote as escape_url
from urllib.parse import unquote

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare, is_parsed_by
from scheduler.engine.cel.library.gotext import quote
from scheduler.engine.cel.values import OpaqueValue

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class IpValue(OpaqueValue):
    """An IP address of either family."""

    address: _Address
    type_name = "net.IP"

    def __str__(self) -> str:
        return str(self.address)

    @property
    def size(self) -> int:
        """The length of the address in bytes: 4 or 16."""
        return len(self.address.packed)


@dataclass(frozen=True, slots=True)
class CidrValue(OpaqueValue):
    """An address with the length of its network's prefix."""

    address: _Address
    prefix: int
    type_name = "net.CIDR"

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.prefix), strict=False)

    @property
    def size(self) -> int:
        """The length of the prefix in bytes, rounded up, as cost estimates take it: 3 for a /20."""
        return -(-self.prefix // 8)


_HEX: Final = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_FIELDS: Final = 16  # bytes of an IPv6 address


class _AddressError(Exception):
    """Why Go's netip.ParseAddr refuses a text."""

    def __init__(self, reason: str, rest: str = "") -> None:
        super().__init__(f"{reason} (at {quote(rest)})" if rest else reason)


def _parse_address(text: str) -> tuple[_Address, str]:
    """Return the IP address in a text, and its zone or "", like Go's netip.ParseAddr.

    Raise _AddressError if the text is no address.
    """
    first = re.search("[.:%]", text)
    if first is None:
        raise _AddressError("unable to parse IP")
    if first[0] == ".":
        return ipaddress.IPv4Address(_parse_v4(text)), ""
    if first[0] == "%":
        raise _AddressError("missing IPv6 address")
    bare, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressError("zone must be a non-empty string")
    return ipaddress.IPv6Address(_parse_v6(bare)), zone


def _parse_v4(text: str) -> bytes:
    fields: list[int] = []
    digits = ""
    for i, character in enumerate(text):
        if character in "0123456789":
            if digits == "0":
                raise _AddressError("IPv4 field has octet with leading zero")
            digits += character
            if int(digits) > 255:
                raise _AddressError("IPv4 field has value >255")
        elif character != ".":
            raise _AddressError("unexpected character", text[i:])
        elif not digits or i == len(text) - 1:
            raise _AddressError("IPv4 field must have at least one digit", text[i:])
        elif len(fields) == 3:
            raise _AddressError("IPv4 address too long")
        else:
            fields.append(int(digits))
            digits = ""
    if len(fields) < 3:
        raise _AddressError("IPv4 address too short")
    return bytes([*fields, int(digits)])


def _parse_v6(text: str) -> bytes:
    packed = b""
    ellipsis = -1
    if text.startswith("::"):
        ellipsis, text = 0, text[2:]
    while text and len(packed) < _FIELDS:
        match = _HEX.match(text)
        digits = match[0] if match else ""
        rest = text[len(digits) :]
        if not digits:
            raise _AddressError("each colon-separated field must have at least one digit", text)
        if len(digits) > 4:
            raise _AddressError("each group must have 4 or less digits", text)
        if rest.startswith("."):
            if ellipsis < 0 and len(packed) != _FIELDS - 4:
                raise _AddressError("embedded IPv4 address must replace the final 2 fields of the address", text)
            if len(packed) + 4 > _FIELDS:
                raise _AddressError("too many hex fields to fit an embedded IPv4 at the end of the address", text)
            packed, text = packed + _parse_v4(text), ""
            break
        packed += int(digits, 16).to_bytes(2, "big")
        if not rest:
            text = ""
            break
        if not rest.startswith(":"):
            raise _AddressError("unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _AddressError("colon must be followed by more characters", rest)
        text = rest[1:]
        if text.startswith(":"):
            if ellipsis >= 0:
                raise _AddressError("multiple :: in address", text)
            ellipsis, text = len(packed), text[1:]
    if text:
        raise _AddressError("trailing garbage after address", text)
    if len(packed) == _FIELDS:
        if ellipsis >= 0:
            raise _AddressError("the :: must expand to at least one field of zeros")
        return packed
    if ellipsis < 0:
        raise _AddressError("address string too short")
    return packed[:ellipsis] + bytes(_FIELDS - len(packed)) + packed[ellipsis:]


def _is_mapped(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> IpValue:
    try:
        address, zone = _parse_address(text)
    except _AddressError as error:
        raise CelRuntimeError(
            f"IP Address {quote(text)} parse error during conversion from string: ParseAddr({quote(text)}): {error}"
        ) from None
    if zone:
        raise CelRuntimeError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise CelRuntimeError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IpValue(address)


def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


_LINK_LOCAL_MULTICAST: Final = ipaddress.ip_network("224.0.0.0/24")
_LIMITED_BROADCAST: Final = ipaddress.ip_address("255.255.255.255")


def _is_link_local_multicast(value: IpValue) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in _LINK_LOCAL_MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(value: IpValue) -> bool:
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _LIMITED_BROADCAST
    )


def _cidr(text: str) -> CidrValue:
    base, slash, bits = text.rpartition("/")
    failed = "network address parse error during conversion from string: "
    prefix = f"netip.ParsePrefix({quote(text)}): "
    if not slash:
        raise CelRuntimeError(f"{failed}{failed}{prefix}no '/'")
    try:
        address, zone = _parse_address(base)
    except _AddressError as error:
        raise CelRuntimeError(f"{failed}{failed}{prefix}ParseAddr({quote(base)}): {error}") from None
    if zone:
        raise CelRuntimeError(f"{failed}{failed}{prefix}IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"[0-9]+", bits) or (len(bits) > 1 and bits[0] == "0"):
        raise CelRuntimeError(f"{failed}{failed}{prefix}bad bits after slash: {quote(bits)}")
    if len(bits) > 3 or int(bits) > address.max_prefixlen:
        raise CelRuntimeError(f"{failed}{failed}{prefix}prefix length out of range")
    if _is_mapped(address):
        raise CelRuntimeError(f"{failed}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CidrValue(address, int(bits))


def _contains_ip(block: CidrValue, value: IpValue) -> bool:
    return block.address.version == value.address.version and value.address in block.network


def _contains_ip_text(block: CidrValue, text: str) -> bool:
    try:
        value = _ip(text)
    except CelRuntimeError:
        raise no_such_overload() from None  # upstream's words for a text that is no address
    return _contains_ip(block, value)


def _contains_cidr(block: CidrValue, other: CidrValue) -> bool:
    return (
        block.address.version == other.address.version
        and block.prefix <= other.prefix
        and other.address in block.network
    )


def _masked(block: CidrValue) -> CidrValue:
    return CidrValue(block.network.network_address, block.prefix)


@dataclass(frozen=True, slots=True)
class UrlValue(OpaqueValue):
    """The parts of a URL."""

    text: str
    scheme: str
    host: str
    path: str
    query: str
    type_name = "kubernetes.URL"

    def __str__(self) -> str:
        return self.text


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL | re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?")
_PATH_SAFE: Final = "/$&+,:;=@!'()*~-._"


def _url_failure(text: str, reason: str) -> CelRuntimeError:
    return CelRuntimeError(f"URL parse error during conversion from string: parse {quote(text)}: {reason}")


def parse_url(text: str) -> UrlValue:
    """Return the parts of an absolute URL or path, like Go's url.ParseRequestURI.

    Raise CelRuntimeError if the text is neither.
    """
    if _CONTROL.search(text):
        raise _url_failure(text, "net/url: invalid control character in URL")
    if not text:
        raise _url_failure(text, "empty url")
    if text == "*":
        return UrlValue(text, "", "", "*", "")
    match = _SCHEME.fullmatch(text)
    if match is None and text.startswith(":"):
        raise _url_failure(text, "missing protocol scheme")
    if match is None and ":" in text.split("/", 1)[0]:
        raise _url_failure(text, "first path segment in URL cannot contain colon")
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    if not rest.startswith("/") and not scheme:
        raise _url_failure(text, "invalid URI for request")
    rest, _, _fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        return UrlValue(text, scheme, "", "", query)  # the rest is opaque
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = authority.rpartition("@")[2]
        _check_host(text, host)
    bad = _BAD_ESCAPE.search(rest)
    if bad:
        raise _url_failure(text, f"invalid URL escape {quote(bad[0])}")
    return UrlValue(text, scheme, host, rest, query)


def _check_host(text: str, host: str) -> None:
    bad = re.search(r"[ \"<>\\^`{|}]", host)
    if bad:
        raise _url_failure(text, f"invalid character {quote(bad[0])} in host name")
    if host.startswith("[") and "]" not in host:
        raise _url_failure(text, "missing ']' in host")
    if not _HOST.fullmatch(host):
        port = host.rpartition(":")[2] if not host.startswith("[") else host.partition("]")[2]
        raise _url_failure(text, f"invalid port {quote(':' + port.lstrip(':'))} after host")


def _hostname(url: UrlValue) -> str:
    match = _HOST.fullmatch(url.host)
    assert match is not None
    return unquote(match[1].removeprefix("[").removesuffix("]"))


def _port(url: UrlValue) -> str:
    match = _HOST.fullmatch(url.host)
    assert match is not None
    return (match[2] or ":")[1:]


def _escaped_path(url: UrlValue) -> str:
    return (
        url.path
        if re.fullmatch(r"[\w/$&+,:;=@!'()*~\-.\[\]%]*", url.path, re.ASCII)
        else escape_url(unquote(url.path), safe=_PATH_SAFE)
    )


def _query(url: UrlValue) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
            continue
        values.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return values


URLS: Final[tuple[Overload, ...]] = (
    declare("url", "string_to_url", "(string) -> url", parse_url),
    declare("getScheme", "url_get_scheme", "url.() -> string", lambda url: url.scheme),
    declare("getHost", "url_get_host", "url.() -> string", lambda url: unquote(url.host)),
    declare("getHostname", "url_get_hostname", "url.() -> string", _hostname),
    declare("getPort", "url_get_port", "url.() -> string", _port),
    declare("getEscapedPath", "url_get_escaped_path", "url.() -> string", _escaped_path),
    declare("getQuery", "url_get_query", "url.() -> map(string,list(string))", _query),
    declare("isURL", "is_url_string", "(string) -> bool", is_parsed_by(parse_url)),
)
IPS: Final[tuple[Overload, ...]] = (
    declare("ip", "string_to_ip", "(string) -> ip", _ip),
    declare("family", "ip_family", "ip.() -> int", lambda value: value.address.version),
    declare("ip.isCanonical", "ip_is_canonical", "(string) -> bool", _is_canonical),
    declare("isUnspecified", "ip_is_unspecified", "ip.() -> bool", lambda value: value.address.is_unspecified),
    declare("isLoopback", "ip_is_loopback", "ip.() -> bool", lambda value: value.address.is_loopback),
    declare("isLinkLocalMulticast", "ip_is_link_local_multicast", "ip.() -> bool", _is_link_local_multicast),
    declare("isLinkLocalUnicast", "ip_is_link_local_unicast", "ip.() -> bool", lambda v: v.address.is_link_local),
    declare("isGlobalUnicast", "ip_is_global_unicast", "ip.() -> bool", _is_global_unicast),
    declare("isIP", "is_ip", "(string) -> bool", is_parsed_by(_ip)),
    declare("string", "ip_to_string", "(ip) -> string", str),
)
CIDRS: Final[tuple[Overload, ...]] = (
    declare("cidr", "string_to_cidr", "(string) -> cidr", _cidr),
    declare("containsIP", "cidr_contains_ip_string", "cidr.(string) -> bool", _contains_ip_text),
    declare("containsIP", "cidr_contains_ip_ip", "cidr.(ip) -> bool", _contains_ip),
    declare(
        "containsCIDR", "cidr_contains_cidr_string", "cidr.(string) -> bool", lambda b, t: _contains_cidr(b, _cidr(t))
    ),
    declare("containsCIDR", "cidr_contains_cidr", "cidr.(cidr) -> bool", _contains_cidr),
    declare("ip", "cidr_ip", "cidr.() -> ip", lambda block: IpValue(block.address)),
    declare("prefixLength", "cidr_prefix_length", "cidr.() -> int", lambda block: block.prefix),
    declare("masked", "cidr_masked", "cidr.() -> cidr", _masked),
    declare("isCIDR", "is_cidr", "(string) -> bool", is_parsed_by(_cidr)),
    declare("string", "cidr_to_string", "(cidr) -> string", str),
)
