"""The chart for tests: rendered by Helm, with its objects by kind and name."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml

from scripts.manifests import CHART, RELEASE, VALUES, load_values
from tests.deploy import operators

Json = dict[str, Any]

# Documented, and in no ready-made file: what has to be asked for.
ASKED_FOR: dict[str, Json] = {
    "plain-http": {"endpoint": {"certificate": {"source": "none"}}},
    "cert-manager": {"endpoint": {"certificate": {"source": "certManager"}}},
    "own-secret": {"endpoint": {"certificate": {"source": "secret", "secret": "herodotus-certificate"}}},
    "extras": {
        component: {
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
            "extraVolumes": [{"name": "extra", "configMap": {"name": "herodotus-extra"}}],
            "extraVolumeMounts": [{"name": "extra", "mountPath": "/etc/extra", "readOnly": True}],
        }
        for component in ("scheduler", "endpoint", "observer")
    },
}
COMBINATIONS = tuple(sorted(path.stem for path in VALUES.glob("*.yaml")))
CONTRADICT = {("agents", "observer")}  # the one needs our scheduler, the other is without it
VALID = [
    (),
    *((name,) for name in (*COMBINATIONS, *ASKED_FOR)),
    *(pair for pair in itertools.combinations(COMBINATIONS, 2) if pair not in CONTRADICT),
    *(("plain-http", name) for name in ("agents", "monitoring", "observer")),
    ("extras", "postgresql"),
]
every_combination = pytest.mark.parametrize("names", VALID, ids=lambda names: "+".join(names) or "default")


def merged(*values: Mapping[str, Any]) -> Json:
    """Return merged values as `helm install -f A -f B` does: later values win, mappings are merged."""
    found: Json = {}
    for given in values:
        for key, value in given.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def combined(*names: str) -> Json:
    return merged(*(ASKED_FOR[name] if name in ASKED_FOR else load_values(name) for name in names))


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


@functools.cache
def made_of(names: tuple[str, ...]) -> list[Json]:
    """Return the objects of a combination; do not change them."""
    return objects(combined(*names))


def containers(pod: Json) -> list[Json]:
    """Return the init containers, then the other containers."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def pods(made: list[Json]) -> dict[str, Json]:
    """Return the pod specs by the names of their Deployments."""
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in made if o["kind"] == "Deployment"}


def refusal(values: Json) -> str:
    """Return the error with which the chart rejects these values; fail if it accepts them."""
    try:
        objects(values)
    except helm_python.HelmError as e:
        return str(e)
    raise AssertionError(f"not refused: {values}")


def list_queries(dashboards: Mapping[str, Json]) -> dict[str, str]:
    """Return the queries of Grafana's dashboards, by file, panel and legend."""
    return {
        f"{file}, {panel['title']}: {target['legendFormat']}": target["expr"]
        for file, dashboard in dashboards.items()
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


TESTED = "1.36"


@functools.cache
def valid(document: str, kubernetes: str = TESTED) -> None:
    """Check an object against the schema of the API or of an operator, with unknown fields forbidden."""
    o = json.loads(document)
    kinds = operators.KINDS.get(o["apiVersion"].removesuffix("/v1"))
    if kinds is None:
        kubernetes_validate.validate(o, kubernetes, strict=True)
    else:
        jsonschema.validate(o["spec"], operators.closed(kinds[o["kind"]]))
