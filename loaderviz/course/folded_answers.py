"""What a cell prints, folded until the reader has guessed it."""

from __future__ import annotations

import contextlib
import html
import io
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class FoldedText:
    """Text behind a line to click on; plain where a front end shows no HTML."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return (
            '<details class="loaderviz-guess"><summary>Guess first, then open</summary>'
            f"<pre>{html.escape(self.text)}</pre></details>"
        )


@contextlib.contextmanager
def guess_first() -> Iterator[None]:
    """Fold what is printed in the ``with`` block: one click shows it, with a kernel or without.

    For the cell that answers a *Predict*. What was printed before an error is shown, too; the
    error itself is never folded.
    """
    from IPython.display import display

    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        if printed.getvalue():
            display(FoldedText(printed.getvalue().rstrip("\n")))
