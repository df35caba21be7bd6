"""The commands of `python -m scheduler`, one module each, and the steps that long-running ones share."""
