"""A notebook that was run and exported to a page: its figures need no kernel and no network."""

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, expect
from plotly.offline import get_plotlyjs

from browser.test_lab import METADATA

CODE = """
from loaderviz import Costs, simulate, timeline
def what_if(n_batches):
    costs = Costs(sample_s=0.01, step_s=0.05)
    return timeline(simulate(costs, num_workers=2, batch_size=4, n_batches=n_batches))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[nbformat.NotebookNode, str]:
    cells = [new_code_cell(text) for text in (CODE, "what_if(12)", "what_if(2000)")]
    notebook = new_notebook(cells=cells, metadata=METADATA)
    ExecutePreprocessor(timeout=120).preprocess(notebook, {})
    return notebook, HTMLExporter().from_notebook_node(notebook)[0]


@pytest.mark.parametrize("beside", [True, False], ids=["plotly.js beside it", "no plotly.js"])
def test_its_figures_are_drawn(browser: Browser, exported, tmp_path, beside):
    (tmp_path / "page.html").write_text(exported[1])
    if beside:
        (tmp_path / "plotly.min.js").write_text(get_plotlyjs())
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.route("http*://**", lambda route: route.abort())
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    places = page.locator(".loaderviz-saved")
    expect(places).to_have_count(2)
    if not beside:
        expect(places.first).to_contain_text("needs plotly.js", timeout=20_000)
        context.close()
        return
    expect(page.locator(".js-plotly-plot.loaderviz")).to_have_count(2, timeout=20_000)
    small, large = places.nth(0), places.nth(1)
    assert small.locator(".bars .point").count() > 12 * 4
    expect(large).to_have_attribute("data-level", "bands")
    small.locator(".bars").nth(2).locator(".point path").nth(20).hover(force=True)
    expect(small).to_have_attribute("data-batch", "5")
    context.close()


def test_what_it_adds_to_the_notebook_is_small(exported):
    output = exported[0].cells[1].outputs[0].data
    assert len(output["text/html"]) < len(str(output["application/vnd.plotly.v1+json"])) / 2
