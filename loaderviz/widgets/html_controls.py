"""Sliders, choices and check boxes with one look: a label, the control, a number to type."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from loaderviz.errors import LoaderVizError

LABEL = "120px"
WIDTH = "388px"


def slider(label: str, value: float, least: float, most: float, step: float | None = None) -> Any:
    """For whole numbers, or for any where ``value`` is a float."""
    whole = not any(isinstance(each, float) for each in (value, least, most))
    options: dict[str, Any] = {"step": step or (1 if whole else (most - least) / 100)}
    if not whole:
        options["readout_format"] = ".3f"
    kind = widgets.IntSlider if whole else widgets.FloatSlider
    return kind(value=value, min=least, max=most, description=label, **options, **_look())


def choice(label: str, options: Any, value: Any = None) -> Any:
    """One of a few."""
    options = list(options)
    value = options[0] if value is None else value
    return widgets.Dropdown(options=options, value=value, description=label, **_look())


def check_box(label: str, value: bool) -> Any:
    return widgets.Checkbox(value=value, description=label, **_look())


def control(name: str, given: Any) -> Any:
    """What ``given`` stands for: ``(least, most, first[, step])``, a list to choose from, a bool.

    Raises:
        LoaderVizError: for anything else, and for a slider whose ends or first value do not fit.
    """
    label = name.replace("_", " ")
    if isinstance(given, bool):
        return check_box(label, given)
    if isinstance(given, list) and given:
        return choice(label, given)
    if isinstance(given, tuple) and len(given) in (3, 4) and all(map(_is_number, given)):
        least, most, value, *step = given
        if least <= value <= most and least < most and all(each > 0 for each in step):
            return slider(label, value, least, most, *step)
    raise LoaderVizError(
        f"{name}={given!r} is no control: give (least, most, first value), with a step as fourth "
        "where it matters, a list to choose from, or True or False"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _look() -> dict[str, Any]:
    return {"style": {"description_width": LABEL}, "layout": widgets.Layout(width=WIDTH)}
