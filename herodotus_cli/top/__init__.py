"""The full-screen program of `kubectl herodotus top`: nodes, waiting pods and placements, updated in place.

Owns: the program's screens and keys (`app`, `answer_screen`, `row_list`), what it reads of nodes and pods (`cluster`,
`reader`), and running other commands of the plugin for their answers (`command_runner`). Does not own: any answer; it
shows the screens that the commands print. Textual is imported here alone.
"""

import os

# How many milliseconds a terminal may take for the rest of a key's sequence after ESC. textual reads this when it is
# imported, and looks every 100 ms whether the time is over: its default of 100 takes a second look, and 50 none.
os.environ.setdefault("ESCDELAY", "50")
