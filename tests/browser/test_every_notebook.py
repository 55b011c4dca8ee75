"""Every notebook in a real JupyterLab: it runs, its figures are there, its controls respond."""

import pytest
from playwright.sync_api import Page, expect

from browser.closer_looks import LOOKS
from browser.conftest import NOTEBOOKS
from browser.reader import open_notebook, run_all, wait_until_idle

NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
UNDRAWN = "(all) => all.filter((gd) => !gd.querySelector('.main-svg')?.clientHeight).length"


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_responds(page: Page, name: str):
    open_notebook(page, name)
    assert run_all(page) == []
    figures = page.locator(".jp-Notebook .js-plotly-plot")
    expect(figures.first).to_be_visible(timeout=30_000)
    assert figures.evaluate_all(UNDRAWN) == 0
    pictures = page.locator(".jp-RenderedMarkdown img")
    assert pictures.evaluate_all("(all) => all.filter((each) => !each.naturalWidth).length") == 0
    if name in LOOKS:
        LOOKS[name](page)

    widgets = page.locator(".loaderviz-vary, .loaderviz-explore")
    for number in range(widgets.count()):
        widget = widgets.nth(number)
        slider = widget.locator(".widget-slider:visible").first
        if slider.count() == 0:
            continue
        shown = slider.locator(".widget-readout")
        before = shown.inner_text()
        slider.locator(".noUi-handle").focus()
        page.keyboard.press("ArrowRight")
        if shown.inner_text() == before:  # at its end
            page.keyboard.press("ArrowLeft")
        expect(shown).not_to_have_text(before)
        wait_until_idle(page)
        # Told in place, and on purpose, or not at all.
        errors = widget.locator(".loaderviz-error").all_inner_texts()
        assert [each for each in errors if not each.startswith("LoaderVizError")] == []
