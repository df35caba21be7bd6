"""Random expressions on random devices: an answer or an error of the package, within bounds of time and memory.

Each example is a seed from which some expressions are made, because drawing every part of an expression with Hypothesis
takes longer than evaluating it. `make fuzz` tries a million expressions, in about half an hour.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cel import CelDevice, CelError, CelRuntimeError, compile_selector, types
from scheduler.engine.cel.selector import MAX_LENGTH
from tests.golden.cel.record import recorded_expressions
from tests.scheduler.engine.cel.typed_generator import TypedGenerator
from tests.support.examples import examples

EXAMPLES: Final = int(os.environ.get("HERODOTUS_FUZZ_EXAMPLES", "60"))
EACH: Final = 50  # expressions of an example
LIMIT_S: Final = 5.0  # processor time: the cost limit allows a million steps, which take a second or two
MEMORY_KIB: Final = 256 * 1024  # beyond what the process had before
DRIVER: Final = "gpu.example.com"

SIGNS_LINE: Final = (
    "! - -- !! !- -! ? : . .? [? , ( ) [ ] { } && || == != < <= > >= + * / % in # @ $ ; & | = \\ ` ' \" '''"
)
WORDS_LINE: Final = (
    """true false null x device __result__ has( size( .all(x, .map(x, cel.bind(x, optional.of( int( dyn( b" r' // 0x"""
)
SIGNS: Final = SIGNS_LINE.split()
WORDS: Final = WORDS_LINE.split()
NUMBERS_LINE: Final = (
    "0 -1 9223372036854775807 -9223372036854775808 9223372036854775808 18446744073709551615u 0x 0xffffffffffffffff"
    " 1u 1e308 1e309 -0.0 .5 1. 1e 1e-400"
)
NUMBERS: Final = (*NUMBERS_LINE.split(), "9" * 4400, "0" * 4400 + "1", "0." + "9" * 4400)
CALLS_TEXT: Final = r"""
double("inf")
double("-inf")
double("nan")
quantity("1e1000")
semver("1.0.0")
duration("2562047h")
timestamp("9999-12-31T23:59:59Z")
timestamp("0001-01-01T00:00:00-24:00")
timestamp(0).getHours("99999999999:00")
"a".matches("(")
"%d%s".format([1, ""])
b'\xff'
"\ud800"
string(b"\xff")
url("http://[::1")
ip("::ffff:1.2.3.4")
cidr("::/129")
[[]].flatten(-1)
{1: 2}[1]
string(
device.attributes
.getFullYear(
.format([
.toLower()
.split("")
lists.range(
"""
CALLS: Final = CALLS_TEXT.split("\n")
CHARACTERS: Final = "\x00\t\n\r\x0b\x7f\x85\xa0é\u2028\ud83d\udc00\ufeff\uffff\U0001f600\U0010ffff"
OPENING_TEXT: Final = "(|[|{1: |!|-|- |)|a.|f(|[1].all(x, |cel.bind(x, 1, |true ? |1 + |dyn(["
OPENING: Final = OPENING_TEXT.split("|")


@cache
def corpus() -> list[str]:
    return [expression for expression in recorded_expressions() if len(expression) < 2000]


def word(rng: random.Random) -> str:
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(CHARACTERS)
    if kind == 1:
        return chr(rng.randrange(0x110000))
    if kind == 2:
        return rng.randbytes(rng.randrange(1, 5)).decode("latin-1")
    return rng.choice((SIGNS, SIGNS, WORDS, NUMBERS, CALLS)[kind - 3])


def span(rng: random.Random, text: str) -> tuple[int, int]:
    start = rng.randrange(len(text) + 1)
    return start, min(len(text), start + int(rng.expovariate(0.2)))


def cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def remove(rng: random.Random, text: str) -> str:
    start, end = span(rng, text)
    return text[:start] + text[end:]


def repeat(rng: random.Random, text: str) -> str:
    start, end = span(rng, text)
    return text[:start] + text[start:end] * rng.choice((2, 3, 300)) + text[end:]


def insert(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + word(rng) + text[start:]


def exchange(rng: random.Random, text: str) -> str:
    start, end = span(rng, text)
    return text[:start] + word(rng) + text[end:]


def splice(rng: random.Random, text: str) -> str:
    start, end = span(rng, text)
    other = rng.choice(corpus())
    first, last = span(rng, other)
    return text[:start] + other[first:last] + text[end:]


def join(rng: random.Random, text: str) -> str:
    return f"{text} {rng.choice(SIGNS)} {rng.choice(corpus())}"


def nest(rng: random.Random, text: str) -> str:
    return rng.choice(OPENING) * rng.choice((1, 2, 40, 249, 251, 3000)) + text


def inflate(rng: random.Random, text: str) -> str:
    """Put a very long literal, or a long list of operands, into the text."""
    start = rng.randrange(len(text) + 1)
    size = rng.choice((100, 1000, 9000))
    long = rng.choice(('"' + "a" * size + '"', "9" * size, "[" + "1," * (size // 2) + "]", "1" + " + 1" * (size // 4)))
    return text[:start] + long + text[start:]


MUTATIONS: Final[tuple[Callable[[random.Random, str], str], ...]] = (
    *(cut, remove, repeat, insert, insert, exchange, exchange, splice, splice, join),
)
RARE_MUTATIONS: Final = (nest, inflate)


def expression(rng: random.Random, generator: TypedGenerator) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return " ".join(word(rng) for _ in range(rng.randrange(12)))
    text = rng.choice(corpus()) if kind == 1 else generator.draw(types.BOOL, rng.randrange(4))
    for _ in range(rng.randrange(4)):
        mutation = rng.choice(RARE_MUTATIONS if rng.random() < 0.05 else MUTATIONS)
        text = mutation(rng, text)[: MAX_LENGTH + 1]
    return text


TEXTS: Final = (
    *("", "A100", "3", "true", "2.0.0", "10.0.0.1", "1Gi", "é" * 32, "\x00", "\ud800", "a" * 64, "%s%d", "(a*)*b"),
    *("2024-02-29T12:00:00Z", "1h", "https://a.b/c?d=e", "\u2028", "\U0010ffff", "NaN", "9" * 64),
)
INTEGERS: Final = (0, 1, -1, 3, 2**31, 2**53, 2**63 - 1, -(2**63))
VERSIONS: Final = ("1.2.3", "2.0.0-rc.1+build.5", "1", "", "18446744073709551616.0.0", "1.0.0-" + "a" * 58)
AMOUNTS: Final = ("0", "1", "1500m", "40Gi", "9223372036854775807", "9223372036854775808", "-1", "1e9", "100n", "9E")


def device(rng: random.Random) -> CelDevice:
    attributes: dict[str, Any] = {}
    for name in ("model", "index", "ecc", "numa", "driverVersion", "other.example.org/name"):
        kind = rng.choice(("string", "int", "bool", "version", "none"))
        values: Any = {"string": TEXTS, "int": INTEGERS, "bool": (True, False), "version": VERSIONS, "none": (None,)}
        if kind != "none" or rng.random() < 0.02:
            attributes[name] = {kind: rng.choice(values[kind])}
    amounts = {name: {"value": rng.choice(AMOUNTS)} for name in ("memory", "cores") if rng.random() < 0.8}
    return CelDevice(DRIVER, attributes, amounts, rng.random() < 0.5)


def run(text: str, target: CelDevice) -> float:
    """Compile and evaluate an expression as a scheduler does, and return the processor time in seconds."""
    began = time.thread_time()
    try:
        selector = compile_selector(text)
        selector.key(target)
        assert selector.matches(target) in (True, False)
    except (CelError, CelRuntimeError) as error:
        str(error).encode("utf-8", "surrogatepass")
    return time.thread_time() - began


def run_seed(seed: int) -> None:
    rng, generator = random.Random(seed), TypedGenerator(seed)
    for _ in range(EACH):
        text, target = expression(rng, generator), device(rng)
        try:
            took = run(text, target)
        except Exception as error:
            raise AssertionError(f"{error!r} of {text!r}") from error
        assert took < LIMIT_S, f"{took:.1f} s for {text!r}"


@pytest.fixture(scope="module")
def peak_kib_before() -> int:
    corpus()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_any_expression_on_any_device_ends_with_a_result_or_its_own_error(peak_kib_before: int, seed: int) -> None:
    run_seed(seed)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib_before
    assert grown < MEMORY_KIB, f"{grown} KiB more than before, after seed {seed}"
