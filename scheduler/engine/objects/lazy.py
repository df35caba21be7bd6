"""A property that is computed on its first read and then stored.

Like `functools.cached_property` but without its lock, which costs more than the value at several reads per cycle. Two
threads that read first at the same time may both compute the value; computed from immutable objects, both values are
equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - read as a decorator, like `property`
    """A decorator that turns a method into a property whose value is computed on the first read.

    The value is then stored in the instance's `__dict__`, where later reads find it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
