"""Notebook 04 as its reader uses it: run from the top, then move a control."""

from playwright.sync_api import Page, expect

from browser.reader import open_notebook, run_all


def test_another_worker_is_another_lane_and_another_copy(page: Page):
    open_notebook(page, "04_duplicates_and_losses.ipynb")
    assert run_all(page) == []
    pictures = page.locator(".jp-RenderedMarkdown img")
    assert pictures.evaluate_all("(all) => all.filter((each) => !each.naturalWidth).length") == 0

    copies = page.locator(".loaderviz-vary").first
    expect(copies.locator(".gtitle")).to_contain_text("Every sample came 3 times")
    expect(copies.locator(".ytick text")).to_have_count(3)
    workers = copies.locator(".widget-slider").filter(has=page.get_by_text("workers", exact=True))
    workers.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    expect(copies.locator(".gtitle")).to_contain_text("Every sample came 4 times")
    expect(copies.locator(".ytick text")).to_have_text([f"worker {n}" for n in range(4)])
    expect(copies.locator(".gtitle-subtitle")).to_contain_text("simulated · 64 samples")
