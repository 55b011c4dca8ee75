"""Every page that `make site` has made: each control that is simulated changes its picture.

To make the site takes as long as to run all notebooks; where there is none, all of this skips.
"""

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from browser.conftest import listen
from browser.legible import faults

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("LOADERVIZ_SITE", ROOT / "site"))
PAGES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
if not SITE.is_dir():
    pytest.skip(f"{SITE} is not there: make site", allow_module_level=True)

DRAWN = """(box) => box.querySelector(".loaderviz-parts").textContent
  + [...box.querySelectorAll(".loaderviz-parts :is(path, rect, canvas, span)")]
    .map((each) => each.getAttribute("d") + each.getAttribute("style")).join()"""
MOVE = """(input) => {
  const n = JSON.parse(input.dataset.stops).length;
  if (input.type === "checkbox") input.checked = !input.checked;
  else if (input.type === "range") input.value = (Number(input.value) + 1) % n;
  else input.selectedIndex = (input.selectedIndex + 1) % n;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.mark.parametrize("name", PAGES)
def test_every_control_changes_its_picture(browser: Browser, name: str):
    path = SITE / f"{name}.html"
    asked: list[str] = []
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.route("http*://**", lambda route: (asked.append(route.request.url), route.abort()))
    page = context.new_page()
    listen(page, complaints)
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for box in page.locator(".loaderviz-frames").all():
        look_at(page, box)
    assert complaints == []
    assert asked == []
    context.close()


def look_at(page: Page, box: Locator) -> None:
    """Move each control, to all of its stops if need be; a grey one has nothing to change here."""
    box.scroll_into_view_if_needed()
    for place in box.locator(".loaderviz-saved").all():
        place.locator(".main-svg").first.wait_for(timeout=20_000)
    for control in box.locator("[data-stops]").all():
        grey = control.get_attribute("title")
        n_stops = len(json.loads(control.get_attribute("data-stops") or "[]"))
        assert n_stops > 1
        assert grey or any(changes(page, box, control) for _ in range(n_stops - 1)), (
            control.locator("xpath=..").inner_text()
        )
    assert faults(page)[1] == []


def changes(page: Page, box: Locator, control: Locator) -> bool:
    """Whether the picture is another with the control at its next stop."""
    before, shown = box.evaluate(DRAWN), box.get_attribute("data-shown")
    control.evaluate(MOVE)
    page.wait_for_function(
        "([box, shown]) => box.dataset.shown && box.dataset.shown !== shown",
        arg=[box.element_handle(), shown],
        timeout=20_000,
    )
    return bool(box.evaluate(DRAWN) != before)
