"""Plot how the scores of each plugin spread over the nodes that fit a pod.

python docs/examples/score_distributions.py URL shop web-1
"""

from __future__ import annotations

import argparse
import sys

from herodotus_client import Client, explain_pod

try:
    from matplotlib.figure import Figure
except ImportError:
    sys.exit("error: this example plots with matplotlib, which is not installed: pip install matplotlib")


def plot(client: Client, namespace: str, name: str) -> Figure:
    """Return a box plot of the weighted scores of each plugin, with a point for the chosen node.

    Raises ValueError if nothing was scored, because fewer than two nodes fit.
    """
    answer = client.ask(explain_pod(namespace, name, every_node=True))
    nodes = [node for node in answer["perNode"] if node.get("scores")]
    if not nodes:
        raise ValueError(f"no node was scored for {namespace}/{name}: {answer['headline']}")
    plugins = list(nodes[0]["scores"])
    weighted = [[node["scores"][plugin]["weighted"] for node in nodes] for plugin in plugins]
    figure = Figure(figsize=(9, 1.5 + 0.5 * len(plugins)), layout="constrained")
    axes = figure.subplots()
    axes.boxplot(weighted, orientation="horizontal", tick_labels=plugins)
    for node in nodes:
        if node["chosen"]:
            scores = [node["scores"][plugin]["weighted"] for plugin in plugins]
            axes.plot(scores, range(1, len(plugins) + 1), "o", label=f"chosen: {node['node']}")
            axes.legend()
    axes.set(xlabel="weighted score", title=f"{namespace}/{name}: scores of {len(nodes)} nodes")
    return figure


def main() -> None:
    """Ask the service and write the plot."""
    parser = argparse.ArgumentParser(description="Plot how scores spread over the nodes that fit a pod.")
    parser.add_argument("url", help="of the decisions service")
    parser.add_argument("namespace")
    parser.add_argument("pod")
    parser.add_argument("--output", default="score-distributions.png")
    arguments = parser.parse_args()
    with Client(arguments.url) as client:
        plot(client, arguments.namespace, arguments.pod).savefig(arguments.output)


if __name__ == "__main__":
    main()
