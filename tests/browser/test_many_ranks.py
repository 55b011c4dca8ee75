"""Notebook 09 as its reader uses it: run from the top, then add a rank and share in another way."""

from playwright.sync_api import Page, expect

from browser.reader import open_notebook, run_all


def test_another_rank_is_more_padding_and_another_way_to_share_more_lanes(page: Page):
    open_notebook(page, "09_many_ranks.ipynb")
    assert run_all(page) == []

    dealing, _, sharing = page.locator(".loaderviz-vary").all()
    expect(dealing.locator(".gtitle")).to_contain_text("3 of 17 samples came more than once")
    ranks = dealing.locator(".widget-slider").filter(has=page.get_by_text("ranks", exact=True))
    ranks.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    expect(dealing.locator(".ytick text")).to_have_count(5)

    expect(sharing.locator(".gtitle")).to_contain_text("Every sample came twice")
    sharing.locator("select").select_option("by both")
    expect(sharing.locator(".gtitle")).to_contain_text("Every sample came exactly once")
    expect(sharing.locator(".gtitle-subtitle")).to_contain_text("simulated")
