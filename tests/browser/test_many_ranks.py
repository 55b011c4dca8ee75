"""Notebook 09 as its reader uses it: run from the top, then every control of it."""

from playwright.sync_api import Page, expect

from browser.reader import open_notebook, run_all


def test_its_figures_follow_ranks_ways_to_share_and_workers(page: Page):
    open_notebook(page, "09_many_ranks.ipynb")
    assert run_all(page) == []

    dealing, _, sharing, ending, in_step = page.locator(".loaderviz-vary").all()
    expect(dealing.locator(".gtitle")).to_contain_text("3 of 17 samples came more than once")
    ranks = dealing.locator(".widget-slider").filter(has=page.get_by_text("ranks", exact=True))
    ranks.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    expect(dealing.locator(".ytick text")).to_have_count(5)

    expect(sharing.locator(".gtitle")).to_contain_text("Every sample came twice")
    sharing.locator("select").select_option("by both")
    expect(sharing.locator(".gtitle")).to_contain_text("Every sample came exactly once")
    expect(sharing.locator(".gtitle-subtitle")).to_contain_text("simulated")

    expect(ending).to_contain_text("hangs in the last batch")
    size = ending.locator(".widget-slider").filter(has=page.get_by_text("batch size", exact=True))
    size.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowLeft")
    expect(ending).not_to_contain_text("hangs")

    expect(in_step.locator(".gtitle")).to_contain_text("Rank 1 waits")
    expect(in_step.locator(".gtitle-subtitle")).to_contain_text("simulated")
    workers = in_step.locator(".widget-slider").filter(has=page.get_by_text("workers", exact=True))
    workers.locator(".noUi-handle").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(in_step.locator(".gtitle")).to_contain_text("the ranks never wait")
    expect(in_step.locator(".ytick text").filter(has_text="worker")).to_have_count(6)
