"""Kubernetes' quantities and semantic versions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.library.declaration import Overload, declare, is_parsed_by
from scheduler.engine.cel.library.gotext import quote, require_uint
from scheduler.engine.cel.values import OpaqueValue
from scheduler.engine.objects.quantity import Quantity, fits_int64

# What follows the digits starts with no digit, so that a long text is matched in one way: the time is linear.
_FORM: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eEinumkKMGTP]+[-+]?[0-9]*|[-+][0-9]*)?)?", re.ASCII
)
_WRONG_FORM: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Return the quantity in a text. Raise CelRuntimeError, with Kubernetes' message, if it is no quantity."""
    if not _FORM.fullmatch(text) or not text:
        raise CelRuntimeError(_WRONG_FORM)
    try:
        return Quantity.parse(text)
    except ValueError:
        raise CelRuntimeError(_WRONG_SUFFIX) from None


def _compare(one: Quantity, two: Quantity) -> int:
    return (one > two) - (two > one)


def _sign(quantity: Quantity) -> int:
    return (quantity.unscaled > 0) - (quantity.unscaled < 0)


def _as_float(quantity: Quantity) -> float:
    if quantity.places == 0:
        return float(quantity.unscaled)
    try:
        power = float(f"1e{-quantity.places}")
        return float(quantity.unscaled) * power
    except OverflowError:
        return float("inf") if quantity.unscaled > 0 else float("-inf")


def _int64(quantity: Quantity) -> int | None:
    """Return the quantity as an int64, or None if it does not fit, or if upstream holds it as a decimal or fraction."""
    if quantity.is_decimal or quantity.places > 0:
        return None
    amount = int(quantity.unscaled * 10**-quantity.places)
    return amount if fits_int64(amount) else None


def _as_integer(quantity: Quantity) -> int:
    amount = _int64(quantity)
    if amount is None:
        raise CelRuntimeError("cannot convert value to integer")
    return amount


def _whole(amount: int) -> Quantity:
    return Quantity(amount, 0, is_decimal=False)


def _negative(quantity: Quantity) -> Quantity:
    return Quantity(-quantity.unscaled, quantity.places, quantity.is_decimal)


@dataclass(frozen=True, slots=True, eq=False)
class Version(OpaqueValue):
    """A semantic version.

    `order` is the key by which versions compare: a release comes after its prereleases, numbers come before words, and
    build metadata does not count.
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...]
    text: str
    order: tuple[object, ...] = field(init=False)
    type_name = "kubernetes.Semver"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)

    def __str__(self) -> str:
        return self.text

    def __post_init__(self) -> None:
        words = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease)
        object.__setattr__(self, "order", (self.major, self.minor, self.patch, not words, words))


_DIGITS: Final = re.compile(r"[0-9]*", re.ASCII)
_WORD: Final = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelRuntimeError(f"Invalid character(s) found in {name.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelRuntimeError(f"{name} number must not contain leading zeroes {quote(text)}")
    return require_uint(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise CelRuntimeError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelRuntimeError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return require_uint(text)
    if not _WORD.fullmatch(text):
        raise CelRuntimeError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    """Return the semantic version in a text. Raise CelRuntimeError, with kube-scheduler's message, if it is none."""
    if not text:
        raise CelRuntimeError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelRuntimeError("No Major.Minor.Patch elements found")
    major, minor = _number("Major", parts[0]), _number("Minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, prerelease = rest.partition("-")
    patch = _number("Patch", patch_text)
    words = tuple(map(_prerelease, prerelease.split("."))) if dash else ()
    for word in build.split(".") if plus else ():
        if not word:
            raise CelRuntimeError("Build meta data is empty")
        if not _WORD.fullmatch(word):
            raise CelRuntimeError(f"Invalid character(s) found in build meta data {quote(word)}")
    return Version(major, minor, patch, words, text)


def _semver(text: str, normalize: bool = False) -> Version:
    if not normalize:
        return parse_version(text)
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped[:1].isdigit() and stripped[0].isascii() else "0" + stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelRuntimeError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse_version(".".join(parts))


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CelRuntimeError:
        return False
    return True


def _compare_versions(one: Version, two: Version) -> int:
    return (one.order > two.order) - (one.order < two.order)


QUANTITY: Final[tuple[Overload, ...]] = (
    declare("quantity", "string_to_quantity", "(string) -> quantity", parse_quantity),
    declare("isQuantity", "is_quantity_string", "(string) -> bool", is_parsed_by(parse_quantity)),
    declare("sign", "quantity_sign", "(quantity) -> int", _sign),
    declare(
        "isGreaterThan", "quantity_is_greater_than", "quantity.(quantity) -> bool", lambda a, b: _compare(a, b) > 0
    ),
    declare("isLessThan", "quantity_is_less_than", "quantity.(quantity) -> bool", lambda a, b: _compare(a, b) < 0),
    declare("compareTo", "quantity_compare_to", "quantity.(quantity) -> int", _compare),
    declare("asApproximateFloat", "quantity_get_float", "quantity.() -> double", _as_float),
    declare("asInteger", "quantity_get_int", "quantity.() -> int", _as_integer),
    declare("isInteger", "quantity_is_integer", "quantity.() -> bool", lambda q: _int64(q) is not None),
    declare("add", "quantity_add", "quantity.(quantity) -> quantity", lambda a, b: a + b),
    declare("add", "quantity_add_int", "quantity.(int) -> quantity", lambda a, b: a + _whole(b)),
    declare("sub", "quantity_sub", "quantity.(quantity) -> quantity", lambda a, b: a + _negative(b)),
    declare("sub", "quantity_sub_int", "quantity.(int) -> quantity", lambda a, b: a + _whole(-b)),
)
SEMVER: Final[tuple[Overload, ...]] = (
    declare("semver", "string_to_semver", "(string) -> semver", _semver),
    declare("semver", "string_bool_to_semver", "(string,bool) -> semver", _semver),
    declare("isSemver", "is_semver_string", "(string) -> bool", _is_semver),
    declare("isSemver", "is_semver_string_bool", "(string,bool) -> bool", _is_semver),
    declare(
        "isGreaterThan", "semver_is_greater_than", "semver.(semver) -> bool", lambda a, b: _compare_versions(a, b) > 0
    ),
    declare("isLessThan", "semver_is_less_than", "semver.(semver) -> bool", lambda a, b: _compare_versions(a, b) < 0),
    declare("compareTo", "semver_compare_to", "semver.(semver) -> int", _compare_versions),
    declare("major", "semver_major", "semver.() -> int", lambda v: v.major),
    declare("minor", "semver_minor", "semver.() -> int", lambda v: v.minor),
    declare("patch", "semver_patch", "semver.() -> int", lambda v: v.patch),
)
