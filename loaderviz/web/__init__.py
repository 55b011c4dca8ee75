"""The scripts and styles that run in the browser. Each script says at its top what it does.

Who loads which:

- Every figure (``figures/display.py``): all of ``FIGURE_SCRIPTS``, in one scope, once a page.
- The widgets' figures (``widgets/figure_view.py``): ``sizes`` and ``figure_view`` for each;
  ``widget_scripts``, after ``find_plotly`` and the figure scripts, once a page.
- The line of code under an explorer (``widgets/code_line.py``): ``code_line``.
- ``play`` (``widgets/play.py``), and its still picture: ``play_scene``.
- The page of ``loaderviz report`` (``report/render_page.py``): the figure scripts, ``report_page``.
"""

from importlib.resources import files

FIGURE_SCRIPTS = (
    "sizes",
    "titles",
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


def script(name: str) -> str:
    """The text of the script ``name``, which is given without its ``.js``."""
    return _text(f"{name}.js")


def style(name: str) -> str:
    """The text of the style sheet ``name``, which is given without its ``.css``."""
    return _text(f"{name}.css")


def _text(file_name: str) -> str:
    return files("loaderviz.web").joinpath(file_name).read_text("utf-8")
