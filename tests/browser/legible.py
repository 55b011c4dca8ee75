"""What must be so of whatever a reader sees of our figures, at each stop: drawn, whole, legible."""

from pathlib import Path

from playwright.sync_api import Page

FAULTS = Path(__file__).with_suffix(".js").read_text("utf-8")


def faults(page: Page, *, patience_ms: int = 3000) -> tuple[int, list[str]]:
    """The number of figures in view, and what is wrong with them once they had time to be drawn."""
    found = page.evaluate(FAULTS)
    for _ in range(patience_ms // 100):
        if not found["faults"]:
            break
        page.wait_for_timeout(100)
        found = page.evaluate(FAULTS)
    return found["n"], found["faults"]
