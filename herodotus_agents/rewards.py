"""Rewards by pod type and node, kept in a file across restarts.

Owns: the three families of keys, the file, and which outcomes are already counted. Does not own: what an outcome is
(`outcomes`), publishing (`monitor`).

    /nodes/NODE          of a node, over all types
    /pods/TYPE/NODE      of a type on a node
    /pods/TYPE/all       of a type, over all nodes

Invariant: the file is complete at any time. An outcome that was counted before a restart is not counted again after it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from herodotus_record.typed_decoding import decode_json
from scheduler.engine.formulas import reward


class RewardsError(Exception):
    """The rewards file cannot be read or written; the message gives the reason."""


class _State(msgspec.Struct):
    rewards: dict[str, float] = {}
    counted: dict[str, list[str]] = {}  # names of the counted outcomes by pod UID


class Rewards:
    """Learned rewards, numbers from 0 to 1 that say how well pods of a type do on a node. Use it from one thread only.

    The rewards are in memory, and in `file` if one is given.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Load the rewards from `file` if it exists. Raises RewardsError if it cannot be read."""
        self._file = file
        self._state = _State()
        try:
            if file is not None and file.exists():
                self._state = decode_json(file.read_bytes(), _State)
        except (OSError, msgspec.MsgspecError) as e:
            raise RewardsError(f"{file}: {e}") from e

    def record_outcome(self, uid: str, outcome: str, pod_type: str, node: str, earned: float) -> bool:
        """Update the rewards with an outcome of a pod unless it was counted before; return whether it is new.

        `outcome` is a name that is unique within the pod with this `uid`; `earned` is its reward, 0 to 1.
        """
        pod_outcomes = self._state.counted.setdefault(uid, [])
        if outcome in pod_outcomes:
            return False
        pod_outcomes.append(outcome)
        for key in (f"/nodes/{node}", f"/pods/{pod_type}/{node}", f"/pods/{pod_type}/all"):
            self._state.rewards[key] = reward.update_reward(self._state.rewards.get(key, reward.INITIAL), earned)
        return True

    def forget_pod(self, uid: str) -> None:
        """Forget which outcomes of a deleted pod were counted. The rewards do not change."""
        self._state.counted.pop(uid, None)

    def retain_pods(self, uids: Collection[str]) -> None:
        """Forget which outcomes were counted, except for pods with the given UIDs. The rewards do not change."""
        self._state.counted = {uid: counted for uid, counted in self._state.counted.items() if uid in uids}

    def rewards_below_initial(self, node: str) -> dict[str, float]:
        """Return the rewards on a node that are below the initial value of 1, by pod type."""
        suffix = f"/{node}"
        rewards = {}
        for key, value in self._state.rewards.items():
            if key.startswith("/pods/") and key.endswith(suffix) and round(value, 6) < reward.INITIAL:
                rewards[key[len("/pods/") : -len(suffix)]] = round(value, 6)
        return dict(sorted(rewards.items()))

    def format_lines(self) -> list[str]:
        """Return a line "KEY VALUE" for each reward, sorted by key, such as "/pods/TYPE/NODE 0.950000"."""
        return [f"{key} {value:.6f}" for key, value in sorted(self._state.rewards.items())]

    def save(self) -> None:
        """Write the rewards to the file atomically, if there is a file. Raises RewardsError if that fails."""
        if self._file is None:
            return
        try:
            new_file = self._file.with_suffix(".new")
            new_file.write_bytes(msgspec.json.encode(self._state))
            os.replace(new_file, self._file)
        except OSError as e:
            raise RewardsError(f"{self._file}: {e}") from e
