"""What holds for every test."""

from hypothesis import settings

# a slow machine is no failure; a hung test is pytest-timeout's business
settings.register_profile("herodotus", deadline=None)
settings.load_profile("herodotus")
