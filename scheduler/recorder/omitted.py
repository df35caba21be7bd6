"""Labels of pods that records leave out (`--omit-labels`).

Owns: which labels those are, and the words that say so. Does not own: what else a record keeps (`build`). What
scheduling and extenders read is not changed by it.

Invariant: what is left out here is in no frame, also not within a digest: a value that few others could be is guessed
from its digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

_PATTERN: Final = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9*?_./-]*")  # a label's key, with signs for any


@dataclass(frozen=True)
class OmittedLabels:
    """Keys of labels as patterns: `*` is any text, `?` any one sign."""

    patterns: tuple[str, ...] = ()

    def kept(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels that are recorded."""
        if not self.patterns:
            return dict(labels)
        return {key: value for key, value in labels.items() if not any(fnmatchcase(key, p) for p in self.patterns)}

    def marks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """What the record of a pod with these labels says about those that it lacks."""
        lacking = len(labels) - len(self.kept(labels))
        return (f"left out: {lacking} of the pod's {len(labels)} labels (--omit-labels)",) if lacking else ()


NOTHING_OMITTED: Final = OmittedLabels()


def omitted_labels(text: str) -> OmittedLabels:
    """Patterns on a command line, with commas. ValueError where one could be no label's key, or there is none."""
    patterns = tuple(dict.fromkeys(text.split(",")))
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise ValueError(f"{pattern!r} is not a label's key, nor a pattern of keys such as example.com/*")
    return OmittedLabels(patterns)
