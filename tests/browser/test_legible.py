"""Figures in places that are bad for them: narrow, hidden, dark, without scripts or a kernel."""

import base64
import io

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from browser import reader
from browser.conftest import Lab, listen
from browser.legible import faults
from browser.test_lab import METADATA
from loaderviz import Costs, simulate, timeline

pytestmark = pytest.mark.slow

CELLS = (
    """
import loaderviz
from loaderviz.widgets import vary
def what_if(workers):
    costs = loaderviz.Costs(sample_s=0.01, step_s=0.02)
    trace = loaderviz.simulate(costs, num_workers=workers, batch_size=2, n_batches=6)
    return loaderviz.timeline(trace)
what_if(1)""",
    "vary(what_if, workers=(0, 8, 2))",
)


@pytest.fixture(scope="module")
def saved_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "timeline.html"
    costs = Costs(sample_s=0.01, step_s=0.05)
    figure = timeline(simulate(costs, num_workers=2, batch_size=4, n_batches=12))
    figure.write_html(path)
    return path


@pytest.mark.parametrize("width", [1440, 600, 390, 320])
def test_a_saved_page_is_legible_at_any_width_in_an_old_browser_too(
    browser: Browser, saved_page, width
):
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 700})
    context.add_init_script("delete Element.prototype.checkVisibility")
    page = context.new_page()
    listen(page, complaints)
    page.goto(saved_page.as_uri())
    title = page.locator(".js-plotly-plot.loaderviz .gtitle")

    def looks_well(n_lines: int) -> None:
        expect(title).to_be_visible()
        assert faults(page) == (1, [])
        words = "After the first batch the model never waits: two workers keep up"
        assert title.text_content() == words
        assert len(set(_tops(title))) == n_lines

    for background in ("#ffffff", "#111111"):
        set_background(page, background)
        looks_well(n_lines=2 if width < 600 else 1)
    page.set_viewport_size({"width": 1200, "height": 700})
    page.wait_for_function("document.querySelector('.main-svg').clientWidth > 1000")
    for background in ("#111111", "#ffffff"):
        set_background(page, background)
        looks_well(n_lines=1)
    assert complaints == []
    context.close()


def set_background(page: Page, colour: str) -> None:
    page.evaluate(f"document.body.style.background = '{colour}'")


def _tops(title) -> list[float]:
    """Where its lines begin."""
    lines = (
        "(text) => [...text.querySelectorAll('tspan')].map((each) => each.getClientRects()[0].top)"
    )
    return title.evaluate(lines)


@pytest.fixture
def notebook(page: Page, lab: Lab) -> Page:
    cells = [*map(new_code_cell, CELLS)]
    path = lab.folder / "legible.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=METADATA), path)
    reader.open_notebook(page, path.name)
    return page


def test_figures_of_a_notebook_that_runs_behind_another_tab_are_whole(notebook: Page):
    reader.choose(notebook, "Run", "Run All Cells")
    reader.choose(notebook, "File", "New Launcher")
    expect(notebook.locator(".jp-Launcher")).to_be_visible()
    expect(notebook.locator(".jp-Notebook .js-plotly-plot.loaderviz")).to_have_count(
        2, timeout=60_000
    )
    notebook.locator(".lm-TabBar-tabLabel", has_text="legible.ipynb").click()
    reader.wait_until_idle(notebook)
    looked = []
    reader.scroll_through(notebook, lambda: looked.append(faults(notebook)) or 1, up=True)
    assert sum(n for n, _ in looked) >= 2
    assert [wrong for _, wrong in looked if wrong] == []


def test_what_somebody_else_has_saved_is_legible_before_it_is_trusted(notebook: Page, lab: Lab):
    """JupyterLab runs no script of it: figures are the pictures that it kept of them."""
    assert reader.run_all(notebook) == []
    kept = "() => document.querySelector('.jp-RenderedPlotly .main-svg')"
    notebook.wait_for_function(kept)
    notebook.wait_for_timeout(1000)
    reader.save(notebook)
    saved = nbformat.read(lab.folder / "legible.ipynb", as_version=4)
    (shown,) = [each for each in saved.cells[0].outputs if "image/png" in each.data]
    picture = Image.open(io.BytesIO(base64.b64decode(shown.data["image/png"]))).convert("RGBA")
    assert picture.getpixel((2, 2)) == (255, 255, 255, 255)  # brings the background that it needs

    saved.cells.append(new_markdown_cell("Its signature is another."))
    nbformat.write(saved, lab.folder / "of_others.ipynb")
    reader.open_notebook(notebook, "of_others.ipynb")
    reader.set_theme(notebook, "Dark")
    expect(notebook.locator(".jp-RenderedPlotly img.plot-img")).to_be_visible()
    assert notebook.locator("script.loaderviz-look").count() == 0
    # In place of the widget its words.
    output = notebook.locator(".jp-Cell").nth(1).locator(".jp-OutputArea")
    expect(output).to_contain_text("workers = 2")
    expect(output).to_contain_text("simulated")
