"""`python -m clozeworks` is the command `clozeworks`."""

from clozeworks.cli.main import main

main()
