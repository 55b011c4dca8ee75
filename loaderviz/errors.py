"""The one error family. Every error that loaderviz raises on purpose is a LoaderVizError."""

from loaderviz.text import printable


class LoaderVizError(Exception):
    """Raised when loaderviz cannot do what was asked.

    The message names the value that was given and what to do instead. Exceptions of torch or of
    the user's own dataset are never turned into this one: they pass through unchanged. Control
    characters in the message are escaped: it may name what a stranger's file holds.
    """

    def __str__(self) -> str:
        return printable(super().__str__())
