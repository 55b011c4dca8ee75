"""Every notebook as a reader has it: run, read to its end and back; some saved and opened again."""

from collections.abc import Callable, Iterator

import nbformat
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from browser import reader
from browser.closer_looks import LOOKS
from browser.conftest import NOTEBOOKS, Lab, visit
from browser.legible import faults
from browser.promised_figures import Figures, broken_promises, in_view, look_for_the_rest

# The later are the longer ones, and begin first: nothing else is left to run beside the last.
NAMES = sorted((path.name for path in NOTEBOOKS.glob("*.ipynb")), reverse=True)
# Of a kernel that is gone ipywidgets says so there; what it puts into the page, we replace.
# JupyterLab drops what it had asked that kernel, and says so.
LOST = ("widget model not found", "Canceled future for create_subshell_request message")

# Charts, lanes of samples, how well a buffer mixes: each with its sliders, and quick to run. The
# explorer and timelines have tests of their own.
SOME = ("14_mixing_a_stream.ipynb", "04_duplicates_and_losses.ipynb", "01_map_and_iterable.ipynb")
# Timelines with sliders, questions, queues that play. The explorer is closed in its own tests.
CLOSED = ("17_lost_samples.ipynb", "03_workers_on_a_timeline.ipynb")


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    return []


@pytest.fixture(scope="module")
def opened(profile: BrowserContext, lab: Lab, complaints: list[str]) -> Iterator[Page]:
    with visit(profile, lab, complaints) as page:
        yield page


@pytest.fixture
def page(opened: Page, complaints: list[str]) -> Iterator[Page]:
    """That of a reader who goes from one notebook to the next."""
    yield opened
    take_out_what_is_lost(complaints)  # since the notebook was closed
    heard = complaints[:]
    complaints.clear()
    assert heard == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in NAMES],
)
def test_each_runs_and_shows_what_its_text_says(page: Page, name: str, complaints: list[str]):
    run_and_read(page, name)
    controls_respond(page)
    assert complaints == []
    if name in CLOSED:
        close_in_the_dark_and_open_again(page, name)
        take_out_what_is_lost(complaints)
        assert complaints == []
    reader.close_for_good(page)


def close_in_the_dark_and_open_again(page: Page, name: str) -> None:
    """While its kernel lives, the controls go on; and what is there can be read when it is gone."""
    assert_legible(page, "Dark")
    reader.save(page)
    reader.close_and_reopen(page, name)
    controls_respond(page)
    reader.end_kernel(page)
    reader.close_and_reopen(page, name)
    assert_legible(page, "Light")


def take_out_what_is_lost(complaints: list[str]) -> None:
    """What is said of widgets whose kernel has ended or, of an open one, that are not back yet."""
    complaints[:] = [each for each in complaints if not any(said in each for said in LOST)]


def assert_legible(page: Page, theme: str) -> None:
    reader.set_theme(page, theme)
    wrong: dict[str, list[str]] = {}
    assert reader.scroll_through(page, looking(page, wrong, theme)) > 0
    assert wrong == {}


def run_and_read(page: Page, name: str) -> None:
    """Run all, answer what is asked, read it, and look closer at what its text speaks of."""
    reader.open_notebook(page, name)
    assert reader.run_all(page) == []
    wrong: dict[str, list[str]] = {}
    figures: Figures = {}
    reader.scroll_through(page, lambda: reader.answer(page), up=True)
    n = reader.scroll_through(page, looking(page, wrong, "light", figures))
    assert n > 0
    assert wrong == {}
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    if look_for_the_rest(page, cells, figures):
        reader.scroll_to_the_top(page)
    assert broken_promises(cells, figures) == []
    if name in LOOKS:
        LOOKS[name](page)
        reader.scroll_to_the_top(page)


def looking(
    page: Page, wrong: dict[str, list[str]], when: str, seen: Figures | None = None
) -> Callable[[], int]:
    """Adds to ``wrong`` what is wrong with the figures in view, to ``seen`` these; counts them."""

    def look() -> int:
        n, found = faults(page)
        found += reader.red_outputs(page)
        if seen is not None:
            seen.update(in_view(page))
        if found:
            kept = wrong.setdefault(when, [])
            kept += [each for each in found if each not in kept]
        return n

    return look


def controls_respond(page: Page) -> None:
    """Move one slider of each widget, by a key; its number follows, and nothing fails."""
    widgets = page.locator(".loaderviz-vary, .loaderviz-explore")
    for number in range(widgets.count()):
        widget = widgets.nth(number)
        slider = widget.locator(".widget-slider:visible").first
        if slider.count() == 0:
            continue
        slider.scroll_into_view_if_needed()
        shown = slider.locator(".widget-readout")
        before = shown.inner_text()
        slider.locator(".noUi-handle").focus()
        page.keyboard.press("ArrowRight")
        if shown.inner_text() == before:  # at its end
            page.keyboard.press("ArrowLeft")
        expect(shown).not_to_have_text(before)
        reader.wait_until_idle(page)
        # Told in place, and on purpose, or not at all.
        errors = widget.locator(".loaderviz-error").all_inner_texts()
        assert [each for each in errors if not each.startswith("LoaderVizError")] == []
