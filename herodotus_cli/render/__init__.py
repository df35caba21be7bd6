"""From an answer document to text.

Owns: screens (`pod`, `node_of_pod`, `node`: document in, blocks out) and writers (`plain`, `terminal`, `documents`:
blocks or documents in, text out). Does not own: files, terminals, clocks; what they are arrives as a `View`.

Invariant: no I/O, and the same document and view always give the same text.
"""
