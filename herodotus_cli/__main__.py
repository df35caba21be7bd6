"""`python -m herodotus_cli`: the plugin without its executable."""

from herodotus_cli.main import main

main()
