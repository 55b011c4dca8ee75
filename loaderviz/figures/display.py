"""A plotly figure that lights up one batch at a time, and follows the page's theme."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio


@functools.cache
def look() -> str:
    """The script that every shown figure brings along; running it again changes nothing."""
    return files("loaderviz.figures").joinpath("look.js").read_text("utf-8")


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """``plotly.graph_objects.Figure``; hovering or clicking a batch makes it stand out.

    The script that does so needs no kernel: ``to_html`` and ``write_html`` include it too.
    """

    def _ipython_display_(self) -> None:
        if "plotly_mimetype" not in str(pio.renderers.default):
            super()._ipython_display_()
            return
        from IPython.display import display

        bundle = {"application/vnd.plotly.v1+json": self.to_plotly_json()}
        display({**bundle, "text/plain": repr(self)}, raw=True)
        display({"text/html": f"<script>{look()}</script>", "text/plain": ""}, raw=True)

    def to_html(self, *args: Any, **kwargs: Any) -> str:
        kwargs["post_script"] = [look(), *_as_list(kwargs.get("post_script"))]
        return str(super().to_html(*args, **kwargs))

    def write_html(self, *args: Any, **kwargs: Any) -> None:
        kwargs["post_script"] = [look(), *_as_list(kwargs.get("post_script"))]
        super().write_html(*args, **kwargs)

    def __repr__(self) -> str:
        return str(self.layout.title.text or "").replace("<b>", "").replace("</b>", "")


def _as_list(scripts: Any) -> list[str]:
    return [] if scripts is None else [scripts] if isinstance(scripts, str) else list(scripts)
