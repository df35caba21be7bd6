"""Keeps the runs of a simulation or a search in a file as they end, so that one that was interrupted continues.

    with FinishedRuns.open(question, configurations, RunKey, RunResult) as runs:
        runs.keep(RunKey("stock.yaml", 3), result)

The file has lines of JSON: the first is the identity of the question, each other one a run. A killed process leaves at
most one incomplete line, the last one, which is cut off.

Owns: the file, and the refusal of runs of another question. Does not own: the runs (`comparison`, `tuning`).

Invariant: the runs are those that the question would give again, unless a plugin outside the tree has changed. A file
that has anything else is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from herodotus_answers.simulation_questions import TraceQuestion, TuningQuestion
from herodotus_record.typed_decoding import decode_json
from herodotus_record.version import __version__
from scheduler.config import Configuration

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_DIGEST_BYTES: Final = 16
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class ResumeError(ValueError):
    """A file of runs that a simulation cannot continue. The message names the file and says why."""


class QuestionIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the runs of a question depend on besides their key. Contents of files are digests.

    `variants` has the digest of each variant's configuration. The seeds are not part of the identity. `halves_seed` is
    the seed with which a search simulates the first half of the trace, from which the second one begins; None without
    a search.
    """

    herodotus: str
    traces: list[str]
    removed_nodes: str
    prices: str
    variants: dict[str, str]
    halves_seed: int | None = None

    @classmethod
    def from_question(cls, question: TraceQuestion, variants: Mapping[str, Configuration]) -> QuestionIdentity:
        """Return the identity of a question whose variants have these configurations. Raises ResumeError."""
        return cls(
            __version__,
            sorted(map(_digest_file, question.traces)),
            question.removed_nodes,
            _digest_file(question.prices) if question.prices else "",
            {name: _digest(_encode(configuration)) for name, configuration in variants.items()},
            question.seed if isinstance(question, TuningQuestion) else None,
        )

    def find_difference(self, other: QuestionIdentity) -> str:
        """Return in words how the question of runs, `self`, differs from another one; "" if it does not."""
        if self.herodotus != other.herodotus:
            return f"Herodotus {self.herodotus} made them, and this is {other.herodotus}"
        if (self.halves_seed is None) != (other.halves_seed is None):
            return "simulate tune made them" if other.halves_seed is None else "simulate made them"
        if self.halves_seed != other.halves_seed:
            return f"--seed is {other.halves_seed}, and was {self.halves_seed}"
        if self.traces != other.traces:
            return "the trace is another one"
        if self.removed_nodes != other.removed_nodes:
            return f"--remove-nodes is {other.removed_nodes!r}, and was {self.removed_nodes!r}"
        if self.prices != other.prices:
            return "the prices are others"
        if self.variants.keys() != other.variants.keys():
            return f"the variants are {', '.join(other.variants)}, and were {', '.join(self.variants)}"
        changed = [name for name, digest in self.variants.items() if digest != other.variants[name]]
        return f"the configuration of {', '.join(changed)} has changed" if changed else ""


class _FinishedRun(msgspec.Struct, Generic[Key, Result], frozen=True, forbid_unknown_fields=True):
    """A line of the file."""

    run: Key
    result: Result


class FinishedRuns(Generic[Key, Result]):
    """The runs of a question that have ended, by their keys. Without a file they are in memory alone."""

    def __init__(self, file: FileIO | None = None) -> None:
        """Start without runs. A file must be open for appending."""
        self._file, self.results = file, dict[Key, Result]()

    @classmethod
    @contextmanager
    def open(
        cls, question: TraceQuestion, variants: Mapping[str, Configuration], key: type[Key], result: type[Result]
    ) -> Iterator[FinishedRuns[Key, Result]]:
        """Context manager that yields the runs in the question's file, which get those that end in the block.

        `key` and `result` are the types of a run's key and result. The file is created if there is none. Raises
        ResumeError if it has anything but runs of the question.
        """
        if not question.resume:
            yield cls()
            return
        identity = QuestionIdentity.from_question(question, variants)
        with _naming(question.resume):
            file = FileIO(question.resume, "a", opener=_open_private)
        with file:
            runs = cls(file)
            runs._read(Path(question.resume), identity, _FinishedRun[key, result])  # type: ignore[valid-type]
            yield runs

    def _read(self, path: Path, identity: QuestionIdentity, kind: type[_FinishedRun[Key, Result]]) -> None:
        """Read the runs in the file, cut off an incomplete line, and begin the file if it is empty."""
        assert self._file is not None
        with _naming(path):
            *lines, incomplete = path.read_bytes().split(b"\n")
        if not lines and _encode(identity).startswith(incomplete):  # empty, or killed while it began
            self._file.truncate(0)
            self._write(identity)
            return
        try:
            difference = decode_json((lines or [b""])[0], QuestionIdentity).find_difference(identity)
        except msgspec.DecodeError:
            raise ResumeError(f"{path}: not a file of runs, which --resume begins: name a new one") from None
        if difference:
            raise ResumeError(f"{path}: its runs are of another question: {difference}")
        for number, line in enumerate(lines[1:], 2):
            try:
                finished = decode_json(line, kind)
            except msgspec.DecodeError as e:
                raise ResumeError(f"{path}: line {number}: {e}") from e
            self.results[finished.run] = finished.result
        self._file.truncate(path.stat().st_size - len(incomplete))

    def keep(self, run: Key, result: Result) -> None:
        """Add a run, and write it to the file at once."""
        self.results[run] = result
        self._write(_FinishedRun(run, result))

    def _write(self, line: QuestionIdentity | _FinishedRun[Key, Result]) -> None:
        if self._file is None:
            return
        rest = memoryview(_encode(line) + b"\n")
        with _naming(self._file.name):
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())


@contextmanager
def _naming(file: object) -> Iterator[None]:
    """Context manager that turns an OSError into a ResumeError with the name of a file."""
    try:
        yield
    except OSError as e:
        raise ResumeError(f"{file}: {e.strerror or e}") from e


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, because it has names of pods and nodes."""
    return os.open(path, flags, 0o600)


def _digest_file(path: str) -> str:
    with _naming(path):
        return _digest(Path(path).read_bytes())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
