"""What an expression for devices may refer to: the variable `device`, the types, and the functions.

Source: Kubernetes v1.36 (apiserver/pkg/cel/environment/base.go, dynamic-resource-allocation/cel/compile.go): the
environment for new expressions, with DRAConsumableCapacity on and DRAListTypeAttributes off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.engine.cel import types
from scheduler.engine.cel.library import (
    authorization,
    conversions,
    formats,
    kubernetes,
    lists,
    network,
    operators,
    optionals,
    regex,
    strings,
    times,
)
from scheduler.engine.cel.library.declaration import Overload
from scheduler.engine.cel.types import Type
from scheduler.engine.cel.values import Value

_LIBRARIES: Final = (
    operators.OVERLOADS,
    conversions.OVERLOADS,
    strings.STANDARD,
    regex.STANDARD,
    times.OVERLOADS,
    network.URLS,
    regex.OVERLOADS,
    lists.KUBERNETES,
    authorization.OVERLOADS,
    optionals.OVERLOADS,
    kubernetes.QUANTITY,
    strings.OVERLOADS,
    lists.SETS,
    network.IPS,
    network.CIDRS,
    formats.OVERLOADS,
    lists.MAPS,
    kubernetes.SEMVER,
    lists.OVERLOADS,
)
FUNCTIONS: Final[dict[str, list[Overload]]] = {}
for _library in _LIBRARIES:
    for _overload in _library:
        FUNCTIONS.setdefault(_overload.function, []).append(_overload)

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {
    **operators.SINGLETONS,
    **conversions.SINGLETONS,
    **lists.SINGLETONS,
    **regex.SINGLETONS,
}

VARIABLES: Final = {"device": types.DEVICE}
DEVICE_FIELDS: Final = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.ANY)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
}
_A, _B = types.parameter("A"), types.parameter("B")
NAMED_TYPES: Final[dict[str, Type]] = {
    named.name: named
    for named in (
        types.BOOL,
        types.BYTES,
        types.DOUBLE,
        types.DURATION,
        types.INT,
        types.list_of(_A),
        types.map_of(_A, _B),
        types.NULL,
        types.STRING,
        types.TIMESTAMP,
        types.TYPE,
        types.UINT,
        types.optional_of(_A),
        types.IP,
        types.CIDR,
        types.DEVICE,
    )
} | {"duration": types.DURATION, "timestamp": types.TIMESTAMP}
UNDEFINED_TYPES: Final = frozenset({"duration", "timestamp"})  # names that upstream checks but cannot evaluate
