"""Many label selectors matched against one set of labels without trying each of them.

Owns: which selectors can match a set of labels at all. Does not own: what a selector means (`selectors`).

A selector that names a label's value can only match labels that have this value, so it is found by the value. Users may
write thousands of selectors into one pod, and most of them name a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector


class SelectorIndex:
    """Label selectors by a label value that each of them requires. A selector is identified by its position."""

    def __init__(self, selectors: Sequence[LabelSelector | None]) -> None:
        self._selectors = selectors
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []  # they require no value of a label, and are tried each time
        for position, selector in enumerate(selectors):
            if selector is not None:
                for entries in self._choose_entries(selector):
                    entries.append(position)

    @property
    def tried_each_time(self) -> int:
        """The number of selectors that are tried for any labels."""
        return len(self._others)

    def find_matching(self, labels: Mapping[str, str]) -> Iterator[int]:
        """Yield the positions of the selectors that match the labels, each once, in no particular order."""
        for label in labels.items():
            for position in self._by_label.get(label, ()):
                if label_selector_matches(self._selectors[position], labels):
                    yield position
        for position in self._others:
            if label_selector_matches(self._selectors[position], labels):
                yield position

    def _choose_entries(self, selector: LabelSelector) -> list[list[int]]:
        """Return the entries to list a selector under: of one of its labels, that with the fewest selectors so far.

        Labels have one value for a key, so a selector that is listed under several values of a key is found once.
        """
        ways = [[label] for label in (selector.match_labels or {}).items()]
        ways += [
            [(requirement.key, value) for value in dict.fromkeys(requirement.values or ())]
            for requirement in selector.match_expressions or ()
            if requirement.operator == "In"
        ]
        if not ways:
            return [self._others]
        fewest = min(ways, key=lambda way: sum(1 + len(self._by_label.get(label, ())) for label in way))
        return [self._by_label.setdefault(label, []) for label in fewest]
