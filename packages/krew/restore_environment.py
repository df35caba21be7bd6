"""Runs at the start of each program of krew's archive: takes back what PyInstaller set for the dynamic linker.

The linker has read LD_LIBRARY_PATH when this runs. kubectl, and the credential plugins that kubectl starts, must not
find the archive's libraries: they have their own.
"""

import os

_ORIGINAL = "LD_LIBRARY_PATH_ORIG"
os.environ.pop("LD_LIBRARY_PATH", None)
if _ORIGINAL in os.environ:
    os.environ["LD_LIBRARY_PATH"] = os.environ.pop(_ORIGINAL)
