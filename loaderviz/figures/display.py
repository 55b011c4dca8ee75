"""A plotly figure that highlights one batch at a time and follows the page's theme."""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from loaderviz.web import FIGURE_SCRIPTS, PLOTLY_TRACES, plotly_script, script

if TYPE_CHECKING:
    from loaderviz.trace import Trace

# Plotly's buttons would cover the title. A double click undoes a zoom.
CONFIG = {"displayModeBar": False, "responsive": True}
# plotly's names for front ends that draw figures by themselves.
MIMETYPE_RENDERERS = frozenset({"plotly_mimetype", "jupyterlab", "nteract", "vscode"})
# By which plotly knows of a choice, or of a Jupyter that draws otherwise (plotly/io/_renderers.py).
OTHERWISE = frozenset(
    {
        "PLOTLY_RENDERER",
        "COLAB_NOTEBOOK_ID",
        "AZURE_NOTEBOOKS_HOST",
        "COCALC_PROJECT_ID",
        "DATABRICKS_RUNTIME_VERSION",
    }
)
OF_KAGGLE = Path("/kaggle/input")


@functools.cache
def figure_script() -> str:
    """The JavaScript that comes with every shown figure; to run it twice does no harm."""
    run_once = "window.loadervizLook ? window.loadervizLook.adoptAll() : look();"
    return "\n".join(["(() => {", *map(script, FIGURE_SCRIPTS), run_once, "})();"])


def script_tag() -> str:
    """``figure_script`` as an HTML element; its class marks the output above it as ours."""
    return f"<script class='loaderviz-look'>{figure_script()}</script>"


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A ``plotly.graph_objects.Figure`` in which a batch stands out when it is hovered or clicked.

    The script for that needs no kernel; ``to_html`` and ``write_html`` include it. A page that
    nbconvert makes from a notebook draws its figures with the ``plotly.min.js`` beside it, or else
    with the one that plotly offers on the web.

    Attributes:
        trace: the trace that a timeline was drawn from; None for other figures and for a copy.
    """

    trace: Trace | None = None

    @classmethod
    def unchecked(cls, data: list[dict[str, Any]], layout: dict[str, Any]) -> Figure:
        """A figure made without plotly's checks: checking each colour takes longer than all else.

        Tests check that our figures are valid. Later changes to the figure are checked as usual.
        """
        figure = cls(data=data, layout=layout, _validate=False)
        for part in (figure, figure.layout, *figure.data):
            part._validate = True
        return figure

    def _ipython_display_(self) -> None:
        if not front_end_draws():
            super()._ipython_display_()
            return
        from IPython.display import display

        bundle = {
            "application/vnd.plotly.v1+json": _content(self),
            "text/html": html_for_export(self),
            "text/plain": repr(self),
        }
        display(bundle, raw=True)
        display({"text/html": script_tag(), "text/plain": ""}, raw=True)

    def to_html(self, *args: Any, **kwargs: Any) -> str:
        """As plotly's ``to_html``, with our script and configuration, and a smaller plotly.js."""
        page = str(super().to_html(*args, **_with_script(kwargs)))
        if {trace.type for trace in self.data} <= PLOTLY_TRACES:  # a user may have added others
            page = page.replace(get_plotlyjs(), plotly_script())
        return page

    def write_html(self, *args: Any, **kwargs: Any) -> None:
        """As plotly's ``write_html``, with what ``to_html`` changes."""
        plain = len(args) == 1 and isinstance(args[0], str | os.PathLike)
        if not plain or kwargs.get("auto_open") or kwargs.get("include_plotlyjs", True) is not True:
            super().write_html(*args, **_with_script(kwargs))
            return
        kwargs.pop("auto_open", None)
        Path(args[0]).write_text(self.to_html(**kwargs), "utf-8")

    def __repr__(self) -> str:
        return str(self.layout.title.text or "").replace("<b>", "").replace("</b>", "")


class Drawing(NamedTuple):
    """Data and layout as plotly describes them, of which nobody has asked for a figure yet.

    To make plotly's objects of them and to turn these into JSON takes longer than all else, too
    long for a picture that follows a slider.
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]

    def figure(self) -> Figure:
        """The same as a figure."""
        return Figure.unchecked(self.data, self.layout)

    def to_json(self) -> str:
        """The same as plotly's JSON."""
        return str(to_json_plotly(self._asdict()))


def front_end_draws() -> bool:
    """Whether plotly would leave it to the front end to draw a figure, as it does in JupyterLab.

    To ask plotly brings in nbformat, which takes some two seconds of a processor before the first
    picture. So it is not asked in a kernel where nothing can have chosen another way.
    """
    is_asked = "plotly.io._renderers" in sys.modules  # somebody may have set it
    if not (is_asked or OTHERWISE & {*os.environ} or OF_KAGGLE.exists()) and _is_kernel():
        return True
    import plotly.io as pio

    return not MIMETYPE_RENDERERS.isdisjoint(str(pio.renderers.default).split("+"))


def _is_kernel() -> bool:
    """Whether this is a kernel of ipykernel's: its cells are run by a shell of its own."""
    from IPython import get_ipython

    shell = type(get_ipython())
    return shell.__name__ == "ZMQInteractiveShell" and shell.__module__.startswith("ipykernel.")


def html_for_export(figure: go.Figure) -> str:
    """The figure as HTML for a page made from the notebook: nbconvert cannot draw plotly figures.

    ``figure_script`` draws it there. Where no script runs, as on a code host, the page shows the
    figure's title and subtitle as text.
    """
    content = _content(figure)
    packed = base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    plotly_url = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
    height = content["layout"].get("height", 450)
    return (
        f"<div class='loaderviz-saved' style='height: {height}px' "
        f"data-plotly='{plotly_url}' data-figure='{packed}'>{title_html(figure)}</div>"
    )


def title_html(figure: go.Figure) -> str:
    """The title and subtitle of a figure, as a paragraph without plotly's markup."""
    title = figure.layout.title
    verdict, numbers = (_plain(text or "") for text in (title.text, title.subtitle.text))
    return f"<p><b>{verdict}</b><br>{numbers}</p>"


def _plain(text: str) -> str:
    """The text without plotly's markup, escaped for a page."""
    return html.escape(html.unescape(re.sub("<[^>]*>", " ", text))).strip()


def _content(figure: go.Figure) -> dict[str, Any]:
    """The figure as plotly.js takes it: data, layout and configuration."""
    return {**json.loads(figure.to_json()), "config": CONFIG}


def _with_script(options: dict[str, Any]) -> dict[str, Any]:
    post_script = options.get("post_script") or []
    scripts = [post_script] if isinstance(post_script, str) else list(post_script)
    return {"config": CONFIG, **options, "post_script": [figure_script(), *scripts]}
