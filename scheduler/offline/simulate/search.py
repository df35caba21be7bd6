"""Searches the values of settings that give the lowest loss, with optuna's tree-structured Parzen estimator.

Owns: which values are tried, and when the search ends. Does not own: settings and their meaning (`score_settings`), the
loss of values (`tuning`). Only this module imports optuna, which is an extra of the plugin.

Values are tried in batches of a fixed size, so that they do not depend on how many runs there are at once. After the
search, each changed setting is reset if that costs nothing, so that what remains has a reason.

Invariant: equal losses and seed give equal values, unless the time limit ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import optuna

from scheduler.offline.simulate.score_settings import ScoreSettings, Setting

BATCH: Final = 8  # more use more processors, and learn later from each other
_STARTUP: Final = 16  # random values, before the estimator guides the search

Trial = dict[str, int | str]


class FoundValues(NamedTuple):
    """The values with the lowest loss, that loss, that of the present values, and how many were tried."""

    values: Trial
    loss: float
    present_loss: float
    tried: int


def search_values(
    settings: ScoreSettings,
    compute_losses: Callable[[Sequence[Trial]], Sequence[float]],
    trials: int,
    seed: int,
    is_over: Callable[[], bool],
) -> FoundValues:
    """Return the values with the lowest of at most so many losses, the present values among them.

    `compute_losses` returns the loss of each of several values, `is_over` whether the time limit has passed. Values
    that change less are preferred among equal ones.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed))
    space = {each.name: _build_distribution(each) for each in settings.settings}
    for values in settings.list_examples():
        study.enqueue_trial(values)
    tried: list[tuple[float, int, int, Trial]] = []
    while len(tried) < trials and not (tried and is_over()):
        asked = [study.ask(space) for _ in range(min(BATCH, trials - len(tried)))]
        batch: list[Trial] = [{**each.params} for each in asked]
        for trial, values, loss in zip(asked, batch, compute_losses(batch), strict=True):
            study.tell(trial, loss)
            tried.append((loss, len(settings.list_changes(values)), len(tried), values))
    present_loss = tried[0][0]
    loss, _, _, best = min(tried, key=lambda each: each[:3])
    count = len(tried)
    for name in settings.list_changes(best):
        if is_over():
            break
        values = {**best, name: settings.present[name]}
        (reset_loss,) = compute_losses([values])
        count += 1
        if reset_loss <= loss:
            best, loss = values, reset_loss
    return FoundValues(best, loss, present_loss, count)


def _build_distribution(setting: Setting) -> optuna.distributions.BaseDistribution:
    if setting.words:
        return optuna.distributions.CategoricalDistribution(setting.words)
    return optuna.distributions.IntDistribution(setting.low, setting.high)
