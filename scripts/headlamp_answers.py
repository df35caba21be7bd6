"""Records the answers with which the Headlamp plugin is tested, from a running demo.

Owns: which answers, and where they are stored. Does not own: the demo (`deploy/demo`), the tests (plugins/headlamp).

    ./install.sh --demo
    python -m scripts.headlamp_answers ~/.local/share/herodotus/demo/kubeconfig

tests/plugins/test_headlamp.py validates the recorded answers with the published schemas. The Status documents of failed
requests are recorded too, so that the plugin is tested with the API server's own words.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.demo.picture import anonymize

Json = dict[str, Any]
FOLDER: Final = Path(__file__).parents[1] / "plugins/headlamp/src/fixtures"
_SERVICES: Final = "/api/v1/namespaces/herodotus/services"
_API: Final = "/apis/herodotus.dev/v1alpha1"
_PROXY: Final = f"{_SERVICES}/http:herodotus-endpoint:plain-http/proxy{_API}"
ANSWERS: Final = {
    "pod-placed": f"{_PROXY}/namespaces/shop/podexplanations/postgres-0?columns=true",
    "pod-pending": f"{_PROXY}/namespaces/shop/podexplanations/payments-0?columns=true",
    "node": f"{_PROXY}/nodehistories/worker-8?since=86400",
    "pending-pods": f"{_PROXY}/pendingpods",
}
FAILURES: Final = {
    "no-record": f"{_PROXY}/namespaces/shop/podexplanations/no-such-pod",
    "no-service": f"{_SERVICES}/https:no-such-service:8000/proxy{_API}/pendingpods",
    "no-api-service": _API,
    "tls-mismatch": f"{_SERVICES}/https:herodotus-endpoint:8000/proxy{_API}/pendingpods",
}


def record(server: str) -> dict[str, Json]:
    """Return an API server's responses by their names in ANSWERS and FAILURES.

    Raises ValueError if a request in ANSWERS fails, or one in FAILURES succeeds.
    """
    found: dict[str, Json] = {}
    for name, path in {**ANSWERS, **FAILURES}.items():
        code, document = _get(f"{server}{path}")
        if (code == 200) != (name in ANSWERS):
            raise ValueError(f"{path}: HTTP status {code}")
        found[name] = anonymize(document) if document["kind"] == "PodExplanation" else document
    return found


def _get(url: str) -> tuple[int, Json]:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def main(arguments: list[str]) -> int:
    """Write the documents of the demo with the given kubeconfig and return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m scripts.headlamp_answers KUBECONFIG", file=sys.stderr)
        return 2
    server = yaml.safe_load(Path(arguments[0]).read_text("utf-8"))["clusters"][0]["cluster"]["server"]
    FOLDER.mkdir(exist_ok=True)
    for name, document in record(server).items():
        (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
