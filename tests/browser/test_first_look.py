"""Notebook 00 as its reader uses it: run from the top, hover a batch, change the theme."""

import pytest
from playwright.sync_api import Page, expect

from browser.reader import bars, open_notebook, run_all


@pytest.fixture
def first_look(page: Page) -> Page:
    open_notebook(page, "00_first_look.ipynb")
    assert run_all(page) == []
    return page


def test_the_page_has_its_pictures_and_one_batch_stands_out_when_hovered(first_look: Page):
    # Five timelines, and the explorer's two.
    plots = first_look.locator(".jp-Notebook .js-plotly-plot.loaderviz")
    expect(plots).to_have_count(7, timeout=30_000)
    pictures = first_look.locator(".jp-RenderedMarkdown img")
    assert pictures.evaluate_all("(all) => all.filter((each) => !each.naturalWidth).length") == 0

    plot = plots.nth(1)
    all_bars = plot.locator(".bars .point")
    faint = "(bars) => bars.filter((bar) => +(bar.style.opacity || 1) < 0.5).length"
    assert all_bars.evaluate_all(faint) == 0
    box = bars(plot, "sample").nth(20)  # the sixth batch's first
    box.hover(force=True)
    expect(plot).to_have_attribute("data-batch", "5")
    n_bars = all_bars.count()
    assert n_bars / 2 < all_bars.evaluate_all(faint) < n_bars
    expect(plot.locator(".loaderviz-path")).to_have_count(1)
    hover = plot.locator(".hoverlayer .hovertext")
    expect(hover).to_contain_text("batch 5")
    expect(hover).to_contain_text("key 20")
    expect(hover).to_contain_text("ms")

    # A click keeps it, also when the mouse is elsewhere.
    box.click(force=True)
    first_look.mouse.move(5, 5)
    expect(plot).to_have_attribute("data-batch", "5")


def test_text_follows_the_theme_and_figures_keep_their_height_in_another_window(first_look: Page):
    title = first_look.locator(".js-plotly-plot.loaderviz .gtitle").first
    colour = "(title) => getComputedStyle(title).fill"
    light = title.evaluate(colour)
    first_look.evaluate(
        "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    first_look.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    expect(first_look.locator(".loaderviz-dark").first).to_be_attached()
    assert title.evaluate(colour) != light

    plots = first_look.locator(".jp-RenderedPlotly.loaderviz")
    heights = "(all) => all.map((plot) => plot.clientHeight)"
    before = plots.evaluate_all(heights)
    width = plots.first.bounding_box()["width"]
    first_look.set_viewport_size({"width": 1600, "height": 1000})
    first_look.wait_for_function(
        "(was) => document.querySelector('.jp-RenderedPlotly .main-svg').clientWidth > was + 100",
        arg=width,
    )
    assert plots.evaluate_all(heights) == before
    assert min(before) > 200
