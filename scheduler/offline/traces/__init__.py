"""Traces: the nodes and pods of a cluster over time, with what scheduling reads of them, in one file.

`document` (the file's format, its writer and reader), `redaction` (what of an object it has), `importing` (public
traces in CSV), `recording` (of a cluster that is watched).
"""


class TraceError(ValueError):
    """A file is not a complete trace, or a row of an imported one is invalid. The message names file and line."""
