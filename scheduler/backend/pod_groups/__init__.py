"""The scheduling cycle of a pod group, as the scheduler and the simulation of a trace run it."""
