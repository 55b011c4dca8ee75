"""The browser fixtures: what runs in JupyterLab is seen in the page, errors included."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from browser.reader import open_notebook, run_all, scroll_through

# Without it JupyterLab asks which kernel to use.
METADATA = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}


def test_an_error_is_returned_and_the_reader_comes_by_every_cell(page: Page, lab):
    cells = [new_code_cell(f"print({n})") for n in range(60)] + [new_code_cell("1 / 0")]
    nbformat.write(new_notebook(cells=cells, metadata=METADATA), lab.folder / "error.ipynb")

    open_notebook(page, "error.ipynb")

    (error,) = run_all(page)
    assert "ZeroDivisionError: division by zero" in error
    seen = set()
    outputs = page.locator(".jp-OutputArea-output")
    scroll_through(page, lambda: len(seen.update(outputs.all_inner_texts()) or ()), up=True)
    assert {str(n) for n in range(60)} <= {each.strip() for each in seen}


def test_what_a_page_complains_of_is_written_down(page: Page, complaints):
    page.goto("about:blank")
    with page.expect_event("pageerror"):
        page.evaluate("console.error('said'); setTimeout(() => { throw Error('thrown') })")
    assert complaints[0] == "said"
    assert "thrown" in complaints[1]
    complaints.clear()
