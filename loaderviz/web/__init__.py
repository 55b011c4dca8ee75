"""The scripts and styles that run in the browser. Each script says at its top what it does.

Who loads which:

- Every figure (``figures/display.py``): all of ``FIGURE_SCRIPTS``, in one scope, once a page.
- Every widget of our own (``widgets/relayed.py``): ``relayed``, before its script.
- The widgets' figures (``widgets/figure_view.py``): ``sizes`` and ``figure_view`` for each;
  ``widget_scripts``, after ``find_plotly`` and the figure scripts, once a page.
- The line of code under an explorer (``widgets/figure_view.py``): ``code_line``.
- ``play`` (``widgets/play.py``), and its still picture: ``play_scene``.
- The page of ``loaderviz report`` (``report/render_page.py``): ``plotly_script()``, the figure
  scripts, ``report_page``.
- The pages of ``make site`` (``pages/build.py``): ``plotly_script()``, and ``page_script()``.
"""

import gzip
from importlib.resources import files

FIGURE_SCRIPTS = (
    "sizes",
    "titles",
    "covers",
    "packed_rows",
    "draw_canvas",
    "hover_text",
    "large_timeline",
    "waits_figure",
    "find_plotly",
    "exported_figures",
    "reopened_notebook",
    "adopt_figures",
)


# What ``plotly_script()`` can draw, of the kinds of traces that we may use.
PLOTLY_TRACES = frozenset({"bar", "box", "heatmap", "histogram", "image", "scatter"})


def script(name: str) -> str:
    """The text of the script ``name``, which is given without its ``.js``."""
    return _text(f"{name}.js")


def style(name: str) -> str:
    """The text of the style sheet ``name``, which is given without its ``.css``."""
    return _text(f"{name}.css")


def plotly_script() -> str:
    """plotly.js for a page of our own figures: charts of two axes alone, a third of the whole.

    ``make plotly`` fetched it. Where plotly.py was installed in another version, whose figures may
    need another plotly.js, the whole of that is returned.
    """
    from plotly.offline import get_plotlyjs, get_plotlyjs_version  # slow to import

    bundle = files("loaderviz.web").joinpath(f"plotly-{get_plotlyjs_version()}.min.js.gz")
    if not bundle.is_file():
        return str(get_plotlyjs())
    return gzip.decompress(bundle.read_bytes()).decode("utf-8")


def page_script() -> str:
    """The script of a page that was made from a notebook; its figures need no other."""
    names = (*FIGURE_SCRIPTS, "page_frames", "page_search")
    begin = (
        "look();",
        'document.querySelectorAll(".loaderviz-frames").forEach(tendFrames);',
        'document.querySelectorAll(".loaderviz-search").forEach(tendSearch);',
    )
    return "\n".join(["(() => {", *map(script, names), *begin, "})();"])


def _text(file_name: str) -> str:
    return files("loaderviz.web").joinpath(file_name).read_text("utf-8")
