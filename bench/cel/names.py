"""The parts of a device that the expressions read."""

from typing import Final

A: Final = 'device.attributes["gpu.example.com"]'
C: Final = 'device.capacity["gpu.example.com"]'
