"""Pods: the state of one, from its creation to its end, and the causes of each state."""
