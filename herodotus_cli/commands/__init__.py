"""The commands, in the order in which the help lists them."""

from herodotus_cli.commands.compare import compare
from herodotus_cli.commands.node import node
from herodotus_cli.commands.pod import pod
from herodotus_cli.commands.version import version

COMMANDS = (pod, compare, node, version)
