"""The explorer on a page without a kernel: the controls that say most about workers move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loaderviz.web import style
from loaderviz.widgets.page_frames import Parts, frames_html

# Everything that they can be together is drawn when the page is made.
STOPS: dict[str, list[float]] = {
    "num_workers": [0, 1, 2, 3, 4, 6, 8, 12],
    "sample_s": [0.005, 0.02, 0.05, 0.1],
    "step_s": [0.01, 0.05, 0.1, 0.2],
}
NEEDS_LAB = (
    "The other settings, <em>Run for real</em> and <em>Pin</em> need JupyterLab "
    "(<code>make lab</code>)."
)


def explorer_html(controls: Mapping[str, Any], draw: Callable[..., Parts], most_bytes: int) -> str:
    """The page's controls, of those that the explorer shows, and what ``draw`` makes of them."""
    moved = {
        name: each
        for name, each in controls.items()
        if name in STOPS and each.layout.display != "none" and not each.disabled
    }
    stops = {
        name: sorted({*(stop for stop in STOPS[name] if stop <= each.max), each.value})
        for name, each in moved.items()
    }
    frames = frames_html(moved, draw, most_bytes=most_bytes, stopping_at=stops, note=NEEDS_LAB)
    return f"<div class='loaderviz-explore'><style>{style('explorer')}</style>{frames}</div>"
