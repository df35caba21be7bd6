"""Recognize amounts whose unit is surely a slip, such as 512m (thousandths of a byte) of memory. Pure.

Owns: which amounts are implausible, and which were probably meant. Does not own: what follows from an amount:
containers that are killed or cannot start (`container_ends`), evictions (`pod_ending`), pods that wait
(`waiting_causes`), claims (`claim_causes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from herodotus_answers.quantities import parse_quantity
from herodotus_record.units import is_in_bytes

Json = dict[str, Any]
_PARTS: Final = re.compile(r"([\d.]+)([A-Za-z]*)")
_LEAST_BYTES: Final = 1 << 20  # no container runs with less memory, and no volume or log is smaller
_CORES: Final = 100  # of so many whole cores, and twice those of the largest node, millicores may have been meant
_TIMES: Final = 100  # the largest node, of a request for bytes
_SMALLER: Final = {"Ki": "", "Mi": "Ki", "Gi": "Mi", "Ti": "Gi", "Pi": "Ti", "M": "k", "G": "M", "T": "G", "P": "T"}


class UnitSlip(NamedTuple):
    """An implausible amount: what it amounts to, as a clause, and what was probably meant."""

    text: str
    meant: str


def find_unit_slip(resource: str, amount: object, largest: Fraction | None = None) -> UnitSlip | None:
    """Return the slip in an amount of a resource, or None if it is plausible.

    `largest` is what the largest node has, in the API's units; without it no amount is too large.
    """
    value, parts = parse_quantity(amount), _PARTS.fullmatch(str(amount))
    if value is None or value <= 0 or parts is None:
        return None
    number, unit = parts.groups()
    if is_in_bytes(resource):
        return _find_byte_slip(str(amount), value, number, unit, largest)
    if resource != "cpu":
        return None
    if unit not in ("", "m", "u", "n"):
        return UnitSlip(f"{amount} cpu is {int(value)} cores: {unit} is a unit of bytes", f"{number}m")
    if unit == "" and value >= _CORES and largest is not None and value >= 2 * largest:
        return UnitSlip(f"{amount} cpu without a unit is {amount} cores", f"{number}m")
    return None


def _find_byte_slip(text: str, value: Fraction, number: str, unit: str, largest: Fraction | None) -> UnitSlip | None:
    if unit in ("m", "u", "n"):
        part = {"m": "thousandths", "u": "millionths", "n": "billionths"}[unit]
        return UnitSlip(f"{text} is {float(value):g} bytes: {unit} means {part}", f"{number}Mi")
    if value < _LEAST_BYTES:
        meant = f"{number}{'M' if unit == 'k' else 'Mi'}"
        what = "without a unit " if not unit else ""
        return UnitSlip(f"{text} {what}is {int(value)} bytes", meant)
    if largest and value > _TIMES * largest and unit in _SMALLER:
        return UnitSlip(
            f"{text} is {int(value / largest)} times what the largest node has", f"{number}{_SMALLER[unit]}"
        )
    return None


def describe_slip(resource: str, amount: object) -> str:
    """Return a clause on the slip in an amount, with a space before it; "" if there is none."""
    slip = find_unit_slip(resource, amount)
    return f" ({slip.text}; {slip.meant} may have been meant)" if slip else ""


def list_small_limits(spec: Json) -> Iterator[tuple[str, str, UnitSlip]]:
    """Yield the field, its object and the slip of each limit of a pod for storage on its node."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        limits = (container.get("resources") or {}).get("limits") or {}
        if slip := find_unit_slip("ephemeral-storage", limits.get("ephemeral-storage", "")):
            yield "the ephemeral-storage limit", f"container {container['name']}", slip
    for volume in spec.get("volumes") or ():
        if slip := find_unit_slip("ephemeral-storage", (volume.get("emptyDir") or {}).get("sizeLimit", "")):
            yield "sizeLimit", f"volume {volume['name']}", slip
