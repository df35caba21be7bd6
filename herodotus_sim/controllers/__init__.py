"""The controllers of kube-controller-manager that a demo needs: workloads and the garbage collector."""

from herodotus_sim.controllers.manager import ControllerManager

__all__ = ["ControllerManager"]
