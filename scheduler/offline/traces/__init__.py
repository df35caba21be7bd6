"""Traces: the nodes and pods of a cluster over time, with what scheduling reads of them, in one file.

`document` (the file's format, its writer and reader), `importing` (public traces in CSV).
"""
