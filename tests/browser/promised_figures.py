"""What a notebook's text says of its figures: is it so of those that the reader sees?

A cell says it in its metadata, under "loaderviz". "compared_with": the cells, itself maybe among
them, whose time axis its own shares. "title_says": what each title must say one of, and
"title_never_says": what would contradict the text beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

PROMISES = {"compared_with", "title_says", "title_never_says"}
# Of a recording only: somebody else's processes may have the CPUs just then, and the title says so.
CPUS_ARE_FULL = "the CPUs are full"
APART_PX = 2.0

_IN_VIEW = Path(__file__).with_suffix(".js").read_text("utf-8")


@dataclass(frozen=True)
class Shown:
    """A figure as it is on the page: its title, the subtitle, and where its time axis has what."""

    title: str
    numbers: str
    ticks_px: dict[str, float]


Figures = dict[tuple[int, int], Shown]  # by the cell's place in the notebook, and theirs in it


def in_view(page: Page) -> Figures:
    return {(cell, place): Shown(*rest) for cell, place, *rest in page.evaluate(_IN_VIEW)}


def look_for_the_rest(page: Page, cells: list[Any], figures: Figures) -> bool:
    """Add the figures of which something is promised, and which were not drawn in passing.

    It tells whether there were any, and the page is now elsewhere.
    """
    n_before = len(figures)
    for number, cell in enumerate(cells):
        n_seen = sum(at == number for at, _ in figures)
        of_cell = page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".js-plotly-plot")
        if promises(cell) and n_seen < max(1, of_cell.count()):
            page.locator(".jp-Notebook .jp-Cell").nth(number).scroll_into_view_if_needed()
            of_cell.first.wait_for()
            for figure in of_cell.all():
                figure.scroll_into_view_if_needed()
                figure.locator(".gtitle").wait_for()
                figures.update(in_view(page))
    return len(figures) > n_before


def promises(cell: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = cell.metadata.get("loaderviz", {})
    return found


def broken_promises(cells: list[Any], figures: Figures) -> list[str]:
    """What the metadata of a notebook's cells promises, and its figures do not keep."""
    broken = []
    by_id = {
        cell.id: [shown for (at, _), shown in sorted(figures.items()) if at == number]
        for number, cell in enumerate(cells)
    }
    for cell in cells:
        promised = promises(cell)
        compares_its_own = cell.id in promised.get("compared_with", ())
        if promised and len(by_id[cell.id]) < 1 + compares_its_own:
            broken.append(f"{cell.id}: it has {len(by_id[cell.id])} figures")
        for shown in by_id[cell.id]:
            broken += [f"{cell.id}: {each}" for each in _wrong_title(promised, shown)]
            for other in promised.get("compared_with", ()):
                broken += [
                    f"{cell.id} and {other}: {each}"
                    for compared in by_id[other]
                    for each in _unlike_axes(shown.ticks_px, compared.ticks_px)
                ]
    return broken


def _wrong_title(promised: dict[str, list[str]], shown: Shown) -> list[str]:
    if shown.numbers.startswith("measured") and CPUS_ARE_FULL in shown.title:
        return []
    says, never = promised.get("title_says"), promised.get("title_never_says", ())
    wrong = [f'"{shown.title}" says {each!r}' for each in never if each in shown.title]
    if says and not any(each in shown.title for each in says):
        wrong.append(f'"{shown.title}" says none of {says}')
    return wrong


def _unlike_axes(one: dict[str, float], other: dict[str, float]) -> list[str]:
    if one.keys() != other.keys():
        return [f"the axes have {list(one)} and {list(other)}"]
    return [
        f"{label} is at {one[label]:.0f} and at {other[label]:.0f} px"
        for label in one
        if abs(one[label] - other[label]) > APART_PX
    ]
