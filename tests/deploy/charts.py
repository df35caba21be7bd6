"""The chart for tests: rendered as Helm does, its objects found by kind and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import helm_python
import yaml

from scripts.manifests import CHART, RELEASE, VALUES, combination

Json = dict[str, Any]

COMBINATIONS = tuple(sorted(path.stem for path in VALUES.glob("*.yaml")))


def merged(*values: Mapping[str, Any]) -> Json:
    """As `helm install -f A -f B`: the later one wins, mappings are merged."""
    found: Json = {}
    for given in values:
        for key, value in given.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def combined(*names: str) -> Json:
    return merged(*map(combination, names))


def templates(values: Json, name: str = RELEASE, namespace: str = "herodotus") -> dict[str, str]:
    with helm_python.Chart.load(CHART) as chart:
        return chart.render(values, name=name, namespace=namespace)


def objects(values: Json, name: str = RELEASE, namespace: str = "herodotus") -> list[Json]:
    made = templates(values, name, namespace)
    return [
        o for path, text in made.items() if path.endswith(".yaml") for o in yaml.safe_load_all(text) if o is not None
    ]


def named(made: list[Json], kind: str, name: str) -> Json:
    (found,) = (o for o in made if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pods(made: list[Json]) -> dict[str, Json]:
    """The pods' specs, by the names of their Deployments."""
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in made if o["kind"] == "Deployment"}


def refusal(values: Json) -> str:
    """Why these values are refused; fails where they are not."""
    try:
        objects(values)
    except helm_python.HelmError as e:
        return str(e)
    raise AssertionError(f"not refused: {values}")
