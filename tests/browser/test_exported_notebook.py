"""A notebook that was run and exported to a page: its figures need no kernel and no network."""

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Page, expect
from plotly.offline import get_plotlyjs

from browser.legible import faults
from browser.test_lab import METADATA

pytestmark = pytest.mark.slow

CODE = """
from loaderviz import Costs, simulate, timeline
def what_if(n_batches):
    costs = Costs(sample_s=0.01, step_s=0.05)
    return timeline(simulate(costs, num_workers=2, batch_size=4, n_batches=n_batches))
"""


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    cells = [new_code_cell(text) for text in (CODE, "what_if(12)", "what_if(2000)")]
    notebook = new_notebook(cells=cells, metadata=METADATA)
    ExecutePreprocessor(timeout=120).preprocess(notebook, {})
    return notebook


@pytest.fixture(scope="module")
def with_widgets() -> nbformat.NotebookNode:
    cells = [f"{CODE}from loaderviz.widgets import play, vary\nvary(what_if, n_batches=(4, 12, 6))"]
    cells += ["play(what_if(6).trace)"]
    notebook = new_notebook(cells=[new_code_cell(text) for text in cells], metadata=METADATA)
    ExecutePreprocessor(timeout=120).preprocess(notebook, {})
    return notebook


@pytest.fixture(scope="module")
def exported(executed) -> dict[str, str]:
    """The page in either theme."""
    return {
        theme: HTMLExporter(theme=theme).from_notebook_node(executed)[0]
        for theme in ("light", "dark")
    }


@pytest.fixture
def opened(browser: Browser, exported, tmp_path):
    """Opens the page of the notebook, with plotly.js beside it if so told; no network."""
    contexts = []

    def open_(theme: str, *, beside: bool = True, scripts: bool = True) -> Page:
        (tmp_path / "page.html").write_text(exported[theme])
        if beside:
            (tmp_path / "plotly.min.js").write_text(get_plotlyjs())
        size = {"width": 1200, "height": 900}
        context = browser.new_context(viewport=size, java_script_enabled=scripts)
        contexts.append(context)
        context.route("http*://**", lambda route: route.abort())
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        expect(page.locator(".loaderviz-saved")).to_have_count(2)
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize("missing", ["beside", "scripts"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_plotly_or_scripts_its_figures_say_what_they_show(opened, theme, missing):
    page = opened(theme, **{missing: False})
    place = page.locator(".loaderviz-saved").first
    expect(place).to_contain_text("After the first batch the model never waits")
    expect(place).to_contain_text("simulated · 12 batches")
    if missing == "beside":
        expect(place).to_contain_text("needs plotly.js", timeout=20_000)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_figures_are_drawn(opened, theme):
    page = opened(theme)
    places = page.locator(".loaderviz-saved")
    expect(page.locator(".js-plotly-plot.loaderviz")).to_have_count(2, timeout=20_000)
    n, wrong = faults(page)
    assert n == 2
    assert wrong == []
    small, large = places.nth(0), places.nth(1)
    assert small.locator(".bars .point").count() > 12 * 4
    expect(large).to_have_attribute("data-level", "bands")
    small.locator(".bars").nth(2).locator(".point path").nth(20).hover(force=True)
    expect(small).to_have_attribute("data-batch", "5")


def test_widgets_stand_still_where_their_scripts_cannot_be_fetched(
    browser: Browser, with_widgets, tmp_path
):
    (tmp_path / "page.html").write_text(HTMLExporter().from_notebook_node(with_widgets)[0])
    (tmp_path / "plotly.min.js").write_text(get_plotlyjs())
    with browser.new_context(viewport={"width": 1200, "height": 1600}) as context:
        context.route("http*://**", lambda route: route.abort())
        page = context.new_page()
        page.clock.install()
        page.goto((tmp_path / "page.html").as_uri())
        expect(page.locator(".js-plotly-plot")).to_have_count(0)
        page.clock.fast_forward(11_000)  # longer than the scripts may take
        expect(page.locator(".js-plotly-plot.loaderviz")).to_have_count(2, timeout=20_000)
        expect(page.get_by_text("This widget cannot be shown here.")).to_have_count(2)
        expect(page.locator(".loaderviz-needs-lab")).to_contain_text("n batches = 6")
        page.get_by_role("button", name="One step on").click()  # of the queues, without a kernel


def test_what_it_adds_to_the_notebook_is_small(executed):
    output = executed.cells[1].outputs[0].data
    assert len(output["text/html"]) < len(str(output["application/vnd.plotly.v1+json"])) / 2
