"""Labels of pods that records omit (`--omit-labels`).

Scheduling and extenders still read every label.

Invariant: an omitted label is in no frame and in no digest, since a value with few alternatives can be guessed from its
digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from herodotus_record.model import Reason

_PATTERN: Final = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9*?_./-]*")  # a label key with wildcards


@dataclass(frozen=True)
class OmittedLabels:
    """The patterns of label keys that records omit from pods: `*` matches any text, `?` any one character."""

    patterns: tuple[str, ...] = ()

    def kept(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels without those whose keys match a pattern; a record stores the result."""
        if not self.patterns:
            return dict(labels)
        return {key: value for key, value in labels.items() if not any(fnmatchcase(key, p) for p in self.patterns)}

    def notes(self, labels: Mapping[str, str]) -> tuple[Reason, ...]:
        """Return a note for the record with the number of labels that it omits, or an empty tuple if it omits none."""
        lacking = len(labels) - len(self.kept(labels))
        return (Reason("labels-omitted", {"count": str(lacking), "total": str(len(labels))}),) if lacking else ()


NOTHING_OMITTED: Final = OmittedLabels()


def omitted_labels(text: str) -> OmittedLabels:
    """Parse comma-separated patterns of label keys. Raises ValueError for a pattern that no label key can match."""
    patterns = tuple(dict.fromkeys(text.split(",")))
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise ValueError(f"{pattern!r} is not a label's key, nor a pattern of keys such as example.com/*")
    return OmittedLabels(patterns)
