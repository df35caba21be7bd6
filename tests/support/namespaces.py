"""Readers who see some namespaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OneNamespace:
    name: str
    everything: bool = False

    def sees(self, namespace: str) -> bool:
        return namespace == self.name
