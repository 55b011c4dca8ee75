"""What a reader does in JupyterLab: opens a notebook, runs it, scrolls, saves, closes it.

With menus, keys and the mouse, by what the page shows; JupyterLab's insides are not asked.
"""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Response, expect

OPEN_MS = 90_000
RUN_MS = 240_000
PANEL = ".jp-NotebookPanel"
CELLS = ".jp-Notebook .jp-Cell"
FIGURES = ".jp-Notebook .js-plotly-plot"

# As the status bar tells of the notebook that is in front.
IDLE = re.compile(r"Python 3 \(ipykernel\) \| Idle")
PROMPTS = "[...document.querySelectorAll('.jp-InputPrompt')].map((each) => each.textContent)"
CLOSED_OR_ASKED = """() => !document.querySelector(".jp-NotebookPanel")
  || document.querySelector(".jp-Dialog")"""
REPLIED = "(question) => !question.isConnected || question.querySelector('.loaderviz-reply')"
# Whether a cell has been seen to wait or run since: a star may be gone before one looks.
WATCH = f"""() => {{
  window.testsSawARun = false;
  window.testsWatch?.disconnect();
  window.testsWatch = new MutationObserver(() => {{
    window.testsSawARun ||= {PROMPTS}.some((each) => each.includes('*'));
  }});
  const notebook = document.querySelector(".jp-Notebook");
  window.testsWatch.observe(notebook, {{ childList: true, characterData: true, subtree: true }});
}}"""
RAN = f"() => window.testsSawARun && !{PROMPTS}.some((each) => each.includes('*'))"


def open_notebook(page: Page, name: str) -> None:
    """Open the notebook and wait until its kernel can run cells.

    From the list of files where no other is open, and else by its address: JupyterLab starts anew.
    """
    if page.locator("#jp-main-statusbar").count() and not page.locator(PANEL).count():
        _open_from_the_list(page, name)
        return
    page.goto(f"/lab/tree/{name}?reset")  # and none that was open before
    wait_until_idle(page, OPEN_MS)
    news = page.get_by_text("Would you like to get notified about official Jupyter news?")
    if news.count():
        page.get_by_role("button", name="No", exact=True).click()


def choose(page: Page, *names: str) -> None:
    """In the menus, from the bar down."""
    bar, *below = names
    page.locator(".lm-MenuBar-itemLabel").get_by_text(bar, exact=True).click()
    for name in below:
        page.locator(".lm-Menu-itemLabel:visible").get_by_text(name, exact=True).click()


def run_all(page: Page) -> list[str]:
    """Run all cells up to the first error; return the texts on red at its end, errors and stderr.

    What is out of sight is not on the page. It leaves the notebook at its top.
    """
    page.evaluate(WATCH)
    choose(page, "Run", "Run All Cells")
    # Not at every frame, as is usual: the page would be drawn sixty times a second for that alone.
    page.wait_for_function(RAN, timeout=RUN_MS, polling=300)
    page.evaluate("window.testsWatch.disconnect()")
    wait_until_idle(page)
    _turn_the_wheel(page, lambda: 0, 1)
    found = red_outputs(page)
    scroll_to_the_top(page)
    return found


def wait_until_idle(page: Page, timeout_ms: float = RUN_MS) -> None:
    expect(page.locator("#jp-main-statusbar")).to_contain_text(IDLE, timeout=timeout_ms)


def red_outputs(page: Page) -> list[str]:
    red = page.locator(f"{CELLS} [data-mime-type='application/vnd.jupyter.stderr']")
    return red.all_text_contents()


def save(page: Page) -> None:
    # Where JupyterLab is saving by itself just then, it takes its own file for somebody else's.
    changed = page.locator(".jp-Dialog", has_text="has changed on disk since")
    page.add_locator_handler(
        changed, lambda: changed.get_by_role("button", name="Overwrite").click(), times=1
    )
    with page.expect_response(_tells_that_it_is_written):
        page.keyboard.press("Control+s")
    expect(page.locator(".lm-DockPanel .jp-mod-current.jp-mod-dirty")).to_have_count(0)


def _tells_that_it_is_written(answer: Response) -> bool:
    return answer.request.method == "PUT" and "/api/contents/" in answer.url


def close_and_reopen(page: Page, name: str) -> None:
    """By the tab's cross and the list of files; what is not saved is given up."""
    page.locator(".lm-DockPanel .jp-mod-current .lm-TabBar-tabCloseIcon").click()
    dialog = page.locator(".jp-Dialog")
    page.wait_for_function(CLOSED_OR_ASKED)
    if dialog.count():
        dialog.get_by_role("button", name=re.compile("Discard|without saving")).click()
    expect(page.locator(PANEL)).to_have_count(0)
    _open_from_the_list(page, name)


def _open_from_the_list(page: Page, name: str) -> None:
    page.get_by_role("listitem", name=re.compile(f"^Name: {re.escape(name)}")).dblclick()
    wait_until_idle(page, OPEN_MS)


def close_for_good(page: Page) -> None:
    """The notebook and its kernel; what is not saved is given up."""
    choose(page, "File", "Close and Shut Down Notebook…")
    page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()
    expect(page.locator(PANEL)).to_have_count(0)


def end_kernel(page: Page) -> None:
    choose(page, "Kernel", "Shut Down Kernel")
    page.get_by_text("No Kernel").first.wait_for()


def set_theme(page: Page, theme: str) -> None:
    """``Light`` or ``Dark``."""
    choose(page, "Settings", "Theme", f"JupyterLab {theme}")
    is_light = str(theme == "Light").lower()
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{is_light}'")


MOST_STILL = 50  # turns of the wheel that may move nothing, a tenth of a second each


def scroll_to_the_top(page: Page) -> None:
    _turn_the_wheel(page, lambda: 0, -1)


def scroll_through(page: Page, look: Callable[[], int], *, up: bool = False) -> int:
    """Turn the wheel from one end of the notebook to the other; add up what ``look`` finds.

    Wherever the notebook stands: on a busy machine *Run All* may leave it at its top.
    """
    way = -1 if up else 1
    _turn_the_wheel(page, lambda: 0, -way)
    return _turn_the_wheel(page, look, way, stride=0.75)


def answer(page: Page) -> int:
    """Choose the first answer to each question in view that has none yet; how many there were."""
    asked = page.locator(".loaderviz-predict").filter(has_not=page.locator(".loaderviz-reply"))
    n = 0
    while asked.count():
        question = asked.first.element_handle()
        asked.first.locator(".loaderviz-answers button").first.click()
        page.wait_for_function(REPLIED, arg=question)  # or the same is asked first again
        n += 1
    return n


def _turn_the_wheel(page: Page, look: Callable[[], int], way: int, *, stride: float = 100.0) -> int:
    """``stride`` is in heights of what is seen of the notebook."""
    notebook = page.locator(".jp-NotebookPanel .jp-WindowedPanel-outer")
    frame = notebook.bounding_box()
    assert frame is not None
    page.mouse.move(frame["x"] + frame["width"] - 40, frame["y"] + frame["height"] / 2)
    still, before, found = 0, None, look()
    at_end = False
    # On a busy machine the notebook may answer the wheel late.
    while still < (3 if at_end else MOST_STILL):
        page.mouse.wheel(0, way * stride * frame["height"])
        page.wait_for_timeout(100)
        at, below = notebook.evaluate(
            "(all) => [all.scrollTop, all.scrollHeight - all.clientHeight - all.scrollTop]"
        )
        at_end = (at if way < 0 else below) < 2
        still = still + 1 if at == before else 0
        before = at
        found += look() if not still else 0
    return found


def bars(plot: Locator, kind: str) -> Locator:
    """The boxes of one kind, as drawn; plotly draws no group for a kind that has none."""
    number = plot.evaluate(BARS_OF, kind)
    return plot.locator(".bars").nth(number).locator(".point path")


BARS_OF = """(gd, kind) => {
  const drawn = [...gd.querySelectorAll(".bars")];
  const found = drawn.findIndex((group) => group.__data__[0].trace.name === kind);
  return found < 0 ? drawn.length : found;
}"""
