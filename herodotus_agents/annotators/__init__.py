"""Annotators, one file each: they write measurements on nodes. `controller` runs them in rounds."""
