"""What a reader does: opens a notebook in JupyterLab, runs all of it, looks at a figure."""

from playwright.sync_api import Locator, Page

OPEN_MS = 60_000
RUN_MS = 180_000

CURRENT = "window.jupyterapp?.shell?.currentWidget"


def open_notebook(page: Page, name: str) -> None:
    """Open the notebook in JupyterLab and wait until its kernel can run cells."""
    page.goto(f"/lab/tree/{name}?reset")
    page.wait_for_function(f"{CURRENT}?.sessionContext?.isReady", timeout=OPEN_MS)
    wait_until_idle(page)


def run_all(page: Page) -> list[str]:
    """Run all cells up to the first error; return every error output, as `name: value`."""
    # Settles when the last cell has run.
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    wait_until_idle(page)
    # From the notebook's model: in the page an error looks like any text on stderr.
    return page.evaluate(
        f"""{CURRENT}.content.model.toJSON().cells
            .flatMap(cell => cell.outputs ?? [])
            .filter(output => output.output_type === 'error')
            .map(output => `${{output.ename}}: ${{output.evalue}}`)"""
    )


def wait_until_idle(page: Page) -> None:
    page.wait_for_function(
        f"{CURRENT}.sessionContext.session?.kernel?.status === 'idle'", timeout=RUN_MS
    )


def bars(plot: Locator, kind: str) -> Locator:
    """The boxes of one kind, as drawn."""
    number = plot.evaluate("(gd, kind) => gd.data.findIndex((t) => t.name === kind)", kind)
    return plot.locator(".bars").nth(number).locator(".point path")
