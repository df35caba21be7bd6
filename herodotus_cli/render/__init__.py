"""Rendering: from an answer document to text.

Owns: screens (document in, blocks out; one module per command) and writers (`plain_text`, `terminal`, `documents`:
blocks or documents in, text out). Does not own: files, terminals, clocks; their properties arrive as `ViewOptions`.

Invariant: no I/O, and the same document and options always give the same text.
"""
