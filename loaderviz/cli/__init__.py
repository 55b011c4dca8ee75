"""The command line: one file for each command, with its options and what it prints.

A command does no work of its own: it calls the package. Results go to stdout, all else to stderr.
"""

from loaderviz.cli.app import main

__all__ = ["main"]
