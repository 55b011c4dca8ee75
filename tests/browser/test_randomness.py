"""Notebook 05 as its reader uses it: run from the top, then enlarge the buffer."""

from playwright.sync_api import Page, expect

from browser.reader import open_notebook, run_all


def test_a_larger_buffer_shuffles_better(page: Page):
    open_notebook(page, "05_randomness.ipynb")
    assert run_all(page) == []
    pictures = page.locator(".jp-RenderedMarkdown img")
    assert pictures.evaluate_all("(all) => all.filter((each) => !each.naturalWidth).length") == 0

    mix = page.locator(".loaderviz-vary")
    expect(mix.locator(".loaderviz-text")).to_contain_text("4.5 of 10 classes")
    buffer = mix.locator(".widget-slider").filter(has=page.get_by_text("buffer size", exact=True))
    buffer.locator(".noUi-handle").focus()
    page.keyboard.press("End")
    expect(mix.locator(".loaderviz-text")).to_contain_text("10.0 of 10 classes")
    expect(mix.locator(".gtitle")).to_contain_text("of a full shuffle")
