"""A plotly figure that lights up one batch at a time, and follows the page's theme."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import zlib
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import plotly.io as pio
from plotly.offline import get_plotlyjs_version

from loaderviz.web import FIGURE_SCRIPTS, script

if TYPE_CHECKING:
    from loaderviz.trace import Trace

# plotly's buttons would lie over the title; a double click shows all again after a zoom.
CONFIG = {"displayModeBar": False, "responsive": True}


@functools.cache
def look() -> str:
    """The script that every shown figure brings along; running it again changes nothing."""
    once = "window.loadervizLook ? window.loadervizLook.adoptAll() : look();"
    return "\n".join(["(() => {", *map(script, FIGURE_SCRIPTS), once, "})();"])


def script_tag() -> str:
    """``look`` as HTML, by whose class it is known that the output above is ours."""
    return f"<script class='loaderviz-look'>{look()}</script>"


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """``plotly.graph_objects.Figure``; hovering or clicking a batch makes it stand out.

    The script that does so needs no kernel: ``to_html`` and ``write_html`` include it too. A page
    that nbconvert makes of a notebook draws its figures with the ``plotly.min.js`` beside it, else
    with the one that plotly offers on the web.

    Attributes:
        trace: what a timeline was drawn from; None for other figures, and for a copy.
    """

    trace: Trace | None = None

    @classmethod
    def of(cls, data: list[dict[str, Any]], layout: dict[str, Any]) -> Figure:
        """Without plotly's check of each colour, which takes longer than all else.

        Tests see to it that all is valid; what is changed later is checked again.
        """
        figure = cls(data=data, layout=layout, _validate=False)
        for part in (figure, figure.layout, *figure.data):
            part._validate = True
        return figure

    def _ipython_display_(self) -> None:
        if "plotly_mimetype" not in str(pio.renderers.default):
            super()._ipython_display_()
            return
        from IPython.display import display

        bundle = {
            "application/vnd.plotly.v1+json": _content(self),
            "text/html": for_export(self),
            "text/plain": repr(self),
        }
        display(bundle, raw=True)
        display({"text/html": script_tag(), "text/plain": ""}, raw=True)

    def to_html(self, *args: Any, **kwargs: Any) -> str:
        return str(super().to_html(*args, **_with_look(kwargs)))

    def write_html(self, *args: Any, **kwargs: Any) -> None:
        super().write_html(*args, **_with_look(kwargs))

    def __repr__(self) -> str:
        return str(self.layout.title.text or "").replace("<b>", "").replace("</b>", "")


def for_export(figure: go.Figure) -> str:
    """What a page made of the notebook shows (nbconvert knows no plotly); ``look`` draws it.

    Where no script runs, as on a code host, it is what the figure says in words.
    """
    content = _content(figure)
    packed = base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    plotly = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
    height = content["layout"].get("height", 450)
    return (
        f"<div class='loaderviz-saved' style='height: {height}px' "
        f"data-plotly='{plotly}' data-figure='{packed}'>{_in_words(figure)}</div>"
    )


def _in_words(figure: go.Figure) -> str:
    title = figure.layout.title
    verdict, numbers = (_plain(text or "") for text in (title.text, title.subtitle.text))
    return f"<p><b>{verdict}</b><br>{numbers}</p>"


def _plain(text: str) -> str:
    """Without the markup that plotly knows, and safe in a page."""
    return html.escape(html.unescape(re.sub("<[^>]*>", " ", text))).strip()


def _content(figure: go.Figure) -> dict[str, Any]:
    return {**json.loads(figure.to_json()), "config": CONFIG}


def _with_look(options: dict[str, Any]) -> dict[str, Any]:
    given = options.get("post_script") or []
    scripts = [given] if isinstance(given, str) else list(given)
    return {"config": CONFIG, **options, "post_script": [look(), *scripts]}
