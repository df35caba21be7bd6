"""The commands, in the order in which the help lists them."""

from herodotus_cli.commands.balance import balance
from herodotus_cli.commands.compare import compare
from herodotus_cli.commands.node import node
from herodotus_cli.commands.pending import pending
from herodotus_cli.commands.pod import pod
from herodotus_cli.commands.version import version
from herodotus_cli.commands.watch import watch
from herodotus_cli.commands.workload import workload

COMMANDS = (pod, pending, compare, workload, node, balance, watch, version)
