"""Hooks for every test."""

import signal

from hypothesis import settings

# a slow machine is no failure (a hung test is pytest-timeout's business), and every run tries the same examples
settings.register_profile("herodotus", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10, stateful_step_count=20)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("herodotus")

# started in a shell's background we would ignore it, and with us every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
