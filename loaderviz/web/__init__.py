"""What runs in the browser: scripts and styles. Each script says at its top what it does.

Who loads which:

- Every figure (``figures/display.py``): all of ``OF_FIGURES``, in one scope, once a page.
- The widgets' figures (``widgets/figure_view.py``): ``sizes`` and ``figure_view`` for each;
  ``widget_scripts``, after ``find_plotly`` and those of figures, once a page.
- The line of code under an explorer (``widgets/code_line.py``): ``code_line``.
- ``play`` (``widgets/play.py``), and its still picture: ``play_scene``.
- The page of ``loaderviz report`` (``report/render_page.py``): those of figures, ``report_page``.
"""

from importlib.resources import files

OF_FIGURES = (
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
    """The text of one script."""
    return _text(f"{name}.js")


def style(name: str) -> str:
    """The text of one style sheet."""
    return _text(f"{name}.css")


def _text(file: str) -> str:
    return files("loaderviz.web").joinpath(file).read_text("utf-8")
