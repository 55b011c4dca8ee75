"""The part of plotly.js that pages of ours carry."""

import re
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs, get_plotlyjs_version

import loaderviz
from loaderviz import timeline, web
from traces import made

ROOT = Path(loaderviz.__file__).parent
TRACE_TYPE = re.compile(r'"?type"?\s*[=:]\s*"(\w+)"|\bgo\.([A-Z]\w+)\(')
DRAWN_BY = re.compile(r'moduleType:"trace",name:"(\w+)"')


def test_it_is_of_the_version_that_the_installed_plotly_draws_with():
    assert f"plotly.js (cartesian - minified) v{get_plotlyjs_version()}" in web.plotly_script()
    assert (ROOT / "web" / "plotly-LICENSE.txt").read_text().count("MIT")


def test_it_draws_every_kind_of_trace_that_our_figures_use():
    known = {name for name in vars(go.Figure) if name.startswith("add_")}
    sources = [path.read_text("utf-8") for path in ROOT.rglob("*.[pj][ys]")]
    named = {one or two.lower() for text in sources for one, two in TRACE_TYPE.findall(text)}
    used = {name for name in named if f"add_{name}" in known}
    assert used >= {"bar", "heatmap", "scatter"}
    assert used <= web.PLOTLY_TRACES <= {*DRAWN_BY.findall(web.plotly_script())}


def test_a_page_of_one_figure_has_no_more_of_it_than_it_needs(tmp_path):
    figure = timeline(made())
    figure.write_html(tmp_path / "small.html")
    assert (tmp_path / "small.html").stat().st_size < 2_000_000
    assert web.plotly_script() in figure.to_html()
    figure.add_trace(go.Scatter3d(x=[0], y=[0], z=[0]))
    assert get_plotlyjs() in figure.to_html()


def test_with_another_plotly_all_of_its_script_is_used(monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs_version", lambda: "99.0.0")
    assert web.plotly_script() == get_plotlyjs()
