"""The command line: a file for each command, which says what it asks for and prints what it finds.

A command does no work of its own: it calls what the package offers. Results go to stdout, all else
to stderr.
"""

from loaderviz.cli.app import main

__all__ = ["main"]
