"""Plot how evenly placements spread over nodes, over time.

python docs/examples/placement_balance.py URL
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from herodotus_client import Client, balance

try:
    from matplotlib.figure import Figure
except ImportError:
    sys.exit("error: this example plots with matplotlib, which is not installed: pip install matplotlib")


def plot(client: Client, hours: float) -> Figure:
    """Return two plots of the last `hours`: placements over time, and placed and expected pods of each node."""
    answer = client.ask(balance(since_s=hours * 3600))
    spans, nodes = answer["overTime"], answer["nodes"]
    figure = Figure(figsize=(9, 7), layout="constrained")
    over_time, by_node = figure.subplots(2)
    times = [datetime.fromisoformat(span["from"]) for span in spans]
    over_time.plot(times, [span["placed"] for span in spans], marker="o", label="all placements")
    over_time.plot(times, [span["most"] for span in spans], marker="o", label="most on one node")
    over_time.set(ylabel="pods", ylim=(0, None), title="Placements over time")
    over_time.legend()
    names = [node["node"] for node in nodes]
    by_node.bar(names, [node["won"] for node in nodes], label="placed")
    by_node.plot(
        names, [node["expected"] for node in nodes], "k_", markersize=16, label="by a draw among those that fit"
    )
    by_node.set(ylabel="pods", title="Placements by node")
    by_node.tick_params("x", rotation=90)
    by_node.legend()
    return figure


def main() -> None:
    """Ask the service and write the plot."""
    parser = argparse.ArgumentParser(description="Plot how evenly placements spread over nodes.")
    parser.add_argument("url", help="of the decisions service")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--output", default="placement-balance.png")
    arguments = parser.parse_args()
    with Client(arguments.url) as client:
        plot(client, arguments.hours).savefig(arguments.output)


if __name__ == "__main__":
    main()
