"""Plot how many pods wait for each reason.

python docs/examples/pending_reasons.py URL
"""

from __future__ import annotations

import argparse
import sys

from herodotus_client import Client, list_pending_pods

try:
    from matplotlib.figure import Figure
except ImportError:
    sys.exit("error: this example plots with matplotlib, which is not installed: pip install matplotlib")


def plot(client: Client, namespace: str) -> Figure:
    """Return a bar chart of the number of pods that wait for each reason; an empty namespace means all."""
    groups = sorted(client.ask(list_pending_pods(namespace))["groups"], key=lambda group: group["count"])
    figure = Figure(figsize=(8, 1.5 + 0.4 * len(groups)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([group["reason"] for group in groups], [group["count"] for group in groups])
    axes.bar_label(bars)
    axes.set(xlabel="pods", title=f"Pending pods of {namespace or 'all namespaces'} by reason")
    return figure


def main() -> None:
    """Ask the service and write the plot."""
    parser = argparse.ArgumentParser(description="Plot how many pods wait for each reason.")
    parser.add_argument("url", help="of the decisions service")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--output", default="pending-reasons.png")
    arguments = parser.parse_args()
    with Client(arguments.url) as client:
        plot(client, arguments.namespace).savefig(arguments.output)


if __name__ == "__main__":
    main()
