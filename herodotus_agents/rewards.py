"""Rewards by pod type and node: what is learnt, kept over restarts.

Owns: the three families of keys, their file, which outcomes were counted already. Does not own: what an outcome is
(`outcomes`), telling others (`monitor`).

    /nodes/NODE          of a node, over all types
    /pods/TYPE/NODE      of a type on a node
    /pods/TYPE/all       of a type, over all nodes

Invariant: the file is whole at any time; an outcome that was counted before a restart is not counted again after it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from scheduler.formulas import reward


class StoreError(Exception):
    """The file cannot be read or written, and why."""


class _State(msgspec.Struct):
    rewards: dict[str, float] = {}
    counted: dict[str, list[str]] = {}  # pod UID -> its outcomes so far


class Rewards:
    """In memory, and in a file where there is one. For one thread."""

    def __init__(self, file: Path | None = None) -> None:
        """StoreError when the file is there and cannot be read."""
        self._file = file
        self._state = _State()
        try:
            if file is not None and file.exists():
                self._state = msgspec.json.decode(file.read_bytes(), type=_State)
        except (OSError, msgspec.MsgspecError) as e:
            raise StoreError(f"{file}: {e}") from e

    def learn(self, uid: str, outcome: str, kind: str, node: str, earned: float) -> bool:
        """Count an outcome of a pod once; whether it is new."""
        counted = self._state.counted.setdefault(uid, [])
        if outcome in counted:
            return False
        counted.append(outcome)
        for key in (f"/nodes/{node}", f"/pods/{kind}/{node}", f"/pods/{kind}/all"):
            self._state.rewards[key] = reward.learnt(self._state.rewards.get(key, reward.INITIAL), earned)
        return True

    def forget(self, uid: str) -> None:
        """The pod is gone: no outcome of it will come again."""
        self._state.counted.pop(uid, None)

    def keep_only(self, uids: Collection[str]) -> None:
        """These are the pods there are."""
        self._state.counted = {uid: counted for uid, counted in self._state.counted.items() if uid in uids}

    def worse_on(self, node: str) -> dict[str, float]:
        """The types that did not always do well on a node, and their rewards."""
        suffix = f"/{node}"
        found = {}
        for key, value in self._state.rewards.items():
            if key.startswith("/pods/") and key.endswith(suffix) and round(value, 6) < reward.INITIAL:
                found[key[len("/pods/") : -len(suffix)]] = round(value, 6)
        return dict(sorted(found.items()))

    def lines(self) -> list[str]:
        """Every key and its value, as the original printed them."""
        return [f"{key} {value:.6f}" for key, value in sorted(self._state.rewards.items())]

    def save(self) -> None:
        """StoreError when the file cannot be written."""
        if self._file is None:
            return
        try:
            beside = self._file.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(self._state))
            os.replace(beside, self._file)
        except OSError as e:
            raise StoreError(f"{self._file}: {e}") from e
