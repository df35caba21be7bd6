"""Decoding into declared types, for programs with threads.

msgspec looks into a type at its first use, and publishes what it knows before that is complete (0.22: `StructInfo` and
`TypedDictInfo` are cached before their fields are filled in, so that types may contain themselves). A second thread
that uses the type, or one that contains it, in that moment ends the process with a segmentation fault. So whatever
decodes into a type goes through here, where the first use of each type is made under one lock.

Invariant: no other module creates a decoder with a type, or calls `msgspec.convert` (tests/contract).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_lock: Final = Lock()
_complete: Final[set[Any]] = set()
"""The types that msgspec has looked into."""


def _complete_type(type_: Any) -> None:
    """Let msgspec prepare a type for decoding, under a lock, unless that has been done."""
    if type_ not in _complete:
        with _lock:
            msgspec.json.Decoder(type_)
            _complete.add(type_)


@overload
def json_decoder(type_: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(type_: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of JSON into the type; it may be used by several threads."""
    _complete_type(type_)
    return msgspec.json.Decoder(type_)


@overload
def msgpack_decoder(type_: type[T], dec_hook: Hook | None = None) -> msgspec.msgpack.Decoder[T]: ...
@overload
def msgpack_decoder(type_: Any, dec_hook: Hook | None = None) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(type_: Any, dec_hook: Hook | None = None) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of MessagePack into the type; it may be used by several threads.

    `dec_hook` builds values of types that msgspec does not know.
    """
    _complete_type(type_)
    return msgspec.msgpack.Decoder(type_, dec_hook=dec_hook)


@overload
def decode_json(text: bytes | str | msgspec.Raw, type_: type[T]) -> T: ...
@overload
def decode_json(text: bytes | str | msgspec.Raw, type_: Any) -> Any: ...
def decode_json(text: bytes | str | msgspec.Raw, type_: Any) -> Any:
    """Return the JSON text as a value of the type. Raise msgspec.DecodeError if it is no JSON or does not fit."""
    _complete_type(type_)
    return msgspec.json.decode(text, type=type_)


@overload
def decode_msgpack(data: bytes, type_: type[T]) -> T: ...
@overload
def decode_msgpack(data: bytes, type_: Any) -> Any: ...
def decode_msgpack(data: bytes, type_: Any) -> Any:
    """Return the MessagePack data as a value of the type. Raise msgspec.DecodeError if it does not fit."""
    _complete_type(type_)
    return msgspec.msgpack.decode(data, type=type_)


@overload
def convert(value: Any, type_: type[T], *, strict: bool = True, dec_hook: Hook | None = None) -> T: ...
@overload
def convert(value: Any, type_: Any, *, strict: bool = True, dec_hook: Hook | None = None) -> Any: ...
def convert(value: Any, type_: Any, *, strict: bool = True, dec_hook: Hook | None = None) -> Any:
    """Return plain objects as a value of the type. Raise msgspec.ValidationError if they do not fit.

    Unless `strict`, text is converted to numbers and booleans. `dec_hook` builds values of types that msgspec does not
    know.
    """
    _complete_type(type_)
    return msgspec.convert(value, type_, strict=strict, dec_hook=dec_hook)
