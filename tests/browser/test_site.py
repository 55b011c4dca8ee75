"""What `make site` makes of a notebook, in a browser without a kernel and without a network."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Browser, Page, expect

from browser.reader import bars
from browser.test_lab import METADATA

pytestmark = pytest.mark.xdist_group("site")

BUILD = Path(__file__).parents[2] / "pages" / "build.py"
CELLS = [
    new_markdown_cell("# 00 First look: what is it?\n\nOn to [01](01_map_and_iterable.ipynb)."),
    new_code_cell("""
import loaderviz
from loaderviz.widgets import play, vary
def what_if(workers):
    costs = loaderviz.Costs(sample_s=0.01, step_s=0.02)
    trace = loaderviz.simulate(costs, num_workers=workers, batch_size=2, n_batches=6)
    return [trace, f"{workers} workers"]
loaderviz.timeline(what_if(1)[0])"""),
    new_code_cell("vary(what_if, workers=(0, 8, 2))"),
    new_code_cell("play(what_if(2)[0])"),
    new_code_cell("loaderviz.explore()"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    notebook = folder / "00_first_look.ipynb"
    nbformat.write(new_notebook(cells=CELLS, metadata=METADATA), notebook)
    subprocess.run([sys.executable, BUILD, notebook, "--into", folder / "site"], check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def first(browser: Browser, site: Path) -> Page:
    """The first notebook's page, reached from the index."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    asked = []
    context.route("http*://**", lambda route: (asked.append(route.request.url), route.abort()))
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="00 First look").click()
    yield page
    assert asked == []
    context.close()


def test_its_figures_are_drawn_and_answer_to_the_mouse(first: Page):
    figures = first.locator(".loaderviz-saved.js-plotly-plot.loaderviz")
    expect(figures).to_have_count(4, timeout=20_000)
    bars(figures.first, "step").first.hover(force=True)
    expect(figures.first).to_have_attribute("data-batch", "0")


def test_a_widget_is_shown_as_it_was_at_first_and_says_where_its_controls_are(first: Page):
    said = first.locator(".loaderviz-needs-lab")
    expect(said).to_have_count(2)
    expect(said.first).to_contain_text("workers = 2")
    expect(said.last).to_contain_text("make lab")
    expect(first.get_by_text("2 workers", exact=True)).to_be_visible()
    expect(first.locator(".loaderviz-numbers")).to_contain_text("predicted")


def test_the_queues_move_without_a_kernel(first: Page):
    player = first.locator(".loaderviz-player")
    words = player.get_by_role("status")
    before = words.inner_text()
    player.get_by_role("button", name="One step on").click()
    expect(words).not_to_have_text(before)
    expect(player.locator(".loaderviz-cursor")).to_be_visible()


def test_its_links_lead_to_pages(first: Page):
    expect(first.get_by_role("link", name="01")).to_have_attribute(
        "href", "01_map_and_iterable.html"
    )
    first.get_by_role("link", name="All notebooks").click()
    expect(first.locator("table")).to_contain_text("twice as long")
    pictures = first.locator("img")
    assert pictures.evaluate_all("(all) => all.map((each) => each.naturalWidth > 0)") == [True]
