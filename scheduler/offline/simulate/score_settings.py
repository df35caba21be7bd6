"""The settings that decide how the first profile of a configuration scores nodes, as numbers and words to search over.

    settings = ScoreSettings(document, config, registry, ["cpu", "memory"])
    text = settings.format_with({**settings.present, "NodeResourcesFit.type": "MostAllocated"})

Owns: which settings there are with their values and names, and configurations with other values. Does not own: the
search (`search`).

Settings are the weight of each score plugin, where 0 disables its score, and of NodeResourcesFit the strategy, the
weights of its resources, and three points of its shape.

Invariant: what a change does not concern stays as the document has it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.config import Configuration, Registry, build_profile
from scheduler.config.defaulted import fill_defaults
from scheduler.config.legacy import to_yaml
from scheduler.config.types import sets_by_point
from scheduler.engine.plugins.node_resources_fit import LEAST, MOST, RATIO
from scheduler.engine.plugins.utilization_shape import MAX_POINT_SCORE
from scheduler.offline.evaluate import NoCluster

Json = dict[str, Any]
Values = Mapping[str, int | str]

FIT: Final = "NodeResourcesFit"
MAX_WEIGHT: Final = 10
_UTILIZATIONS: Final = (0, 50, 100)  # of the points of the shape
_TYPE: Final = f"{FIT}.type"


class Setting(NamedTuple):
    """A setting: its name, and its least and greatest number or the words that it may be."""

    name: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()


class ScoreSettings:
    """The settings of a configuration's first profile. `present` has their values in the configuration."""

    def __init__(self, document: Json, config: Configuration, registry: Registry, resources: Sequence[str]) -> None:
        """Take the settings from a document and the configuration that it is. Raises ConfigError.

        `resources` are those that pods request.
        """
        self._document = document
        profile = build_profile(config, 0, registry, NoCluster())
        self._spelling = {
            registry[ref.name].name: ref.name
            for plugins in sets_by_point(config.profiles[0].plugins).values()
            for ref in plugins.enabled
        }
        self._weights = {plugin.name: profile.weights[plugin.name] for plugin in profile.score}
        self.settings = [
            Setting(_name_weight(name), 0, max(MAX_WEIGHT, weight)) for name, weight in self._weights.items()
        ]
        self.present: dict[str, int | str] = {_name_weight(name): weight for name, weight in self._weights.items()}
        self._resources: list[str] = []
        if FIT in self._weights:
            self._add_strategy(fill_defaults(config, registry)["profiles"][0]["pluginConfig"], resources)

    def _add_strategy(self, plugin_config: Sequence[Json], requested: Sequence[str]) -> None:
        args: Json = next(each["args"] for each in plugin_config if each["name"] == FIT)
        strategy = args["scoringStrategy"]
        weights = {each["name"]: each["weight"] for each in strategy["resources"]}
        self._resources = [*weights, *(name for name in requested if name not in weights)]
        shape = (strategy.get("requestedToCapacityRatio") or {}).get("shape") or [
            {"utilization": 0, "score": 0},
            {"utilization": 100, "score": MAX_POINT_SCORE},
        ]
        at, scores = ([each.get(key, 0) for each in shape] for key in ("utilization", "score"))
        self.present[_TYPE] = strategy["type"]
        self.settings.append(Setting(_TYPE, words=(LEAST, MOST, RATIO)))
        for name in self._resources:
            self.present[_name_resource(name)] = weights.get(name, 0)
            self.settings.append(Setting(_name_resource(name), 0, max(MAX_WEIGHT, weights.get(name, 0))))
        for utilization in _UTILIZATIONS:
            self.present[_name_point(utilization)] = round(float(np.interp(utilization, at, scores)))
            self.settings.append(Setting(_name_point(utilization), 0, MAX_POINT_SCORE))

    def list_examples(self) -> list[dict[str, int | str]]:
        """Return values to try first: the present ones, and these with each other strategy."""
        if _TYPE not in self.present:
            return [{**self.present}]
        types = [self.present[_TYPE], *(name for name in (LEAST, MOST, RATIO) if name != self.present[_TYPE])]
        return [{**self.present, _TYPE: name} for name in types]

    def list_changes(self, values: Values) -> list[str]:
        """Return the names of the settings that differ from the present ones and have an effect."""
        changed = [each.name for each in self.settings if values[each.name] != self.present[each.name]]
        if not values.get(_name_weight(FIT)):  # what a strategy is does not matter without its score
            return [name for name in changed if not name.startswith(f"{FIT}.") or name == _name_weight(FIT)]
        return [name for name in changed if values[_TYPE] == RATIO or name not in map(_name_point, _UTILIZATIONS)]

    def format_with(self, values: Values) -> str:
        """Return the configuration with these values as YAML."""
        document = copy.deepcopy(self._document)
        profiles = document.setdefault("profiles", [])
        profile: Json = profiles[0] if profiles else {}
        document["profiles"] = [profile, *profiles[1:]]
        changed = self.list_changes(values)
        for name in self._weights:
            if _name_weight(name) in changed:
                self._set_weight(profile, self._spelling.get(name, name), int(values[_name_weight(name)]))
        if any(name.startswith(f"{FIT}.") and name != _name_weight(FIT) for name in changed):
            self._set_strategy(profile, values)
        return to_yaml(document)

    @staticmethod
    def _set_weight(profile: Json, name: str, weight: int) -> None:
        score: Json = profile.setdefault("plugins", {}).setdefault("score", {})
        for group in ("enabled", "disabled"):
            score[group] = [each for each in score.get(group) or () if each["name"] != name]
        if weight:
            score["enabled"].append({"name": name, "weight": weight})
        else:
            score["disabled"].append({"name": name})
        for group in ("enabled", "disabled"):
            if not score[group]:
                del score[group]

    def _set_strategy(self, profile: Json, values: Values) -> None:
        configured: list[Json] = profile.setdefault("pluginConfig", [])
        entry = next((each for each in configured if each["name"] == FIT), None)
        if entry is None:
            entry = {"name": FIT}
            configured.append(entry)
        weights = {name: int(values[_name_resource(name)]) for name in self._resources}
        weights = {name: weight for name, weight in weights.items() if weight} or dict.fromkeys(self._resources, 1)
        strategy: Json = {
            "type": values[_TYPE],
            "resources": [{"name": name, "weight": weight} for name, weight in weights.items()],
        }
        if values[_TYPE] == RATIO:
            shape = [{"utilization": each, "score": int(values[_name_point(each)])} for each in _UTILIZATIONS]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        entry["args"] = {**entry.get("args", {}), "scoringStrategy": strategy}


def _name_weight(plugin: str) -> str:
    return f"{plugin}.weight"


def _name_resource(resource: str) -> str:
    return f"{FIT}.resources.{resource}"


def _name_point(utilization: int) -> str:
    return f"{FIT}.shape.{utilization}"
