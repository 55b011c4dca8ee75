"""Sliders, choices and check boxes that look alike: a label, the control, a number to type."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from loaderviz.errors import LoaderVizError

LABEL = "120px"
WIDTH = "388px"


def slider(label: str, value: float, least: float, most: float, step: float | None = None) -> Any:
    """A slider from ``least`` to ``most``: of whole numbers, unless one argument is a float."""
    whole = not any(isinstance(number, float) for number in (value, least, most))
    options: dict[str, Any] = {"step": step or (1 if whole else (most - least) / 100)}
    if not whole:
        options["readout_format"] = ".3f"
    slider_type = widgets.IntSlider if whole else widgets.FloatSlider
    return slider_type(
        value=value, min=least, max=most, description=label, **options, **_style_and_layout()
    )


def choice(label: str, options: Any, value: Any = None) -> Any:
    """A choice among ``options``; the first of them where ``value`` is None."""
    options = list(options)
    value = options[0] if value is None else value
    return widgets.Dropdown(options=options, value=value, description=label, **_style_and_layout())


def check_box(label: str, value: bool) -> Any:
    """A check box that begins as ``value``."""
    return widgets.Checkbox(value=value, description=label, **_style_and_layout())


def control(name: str, spec: Any) -> Any:
    """The control that ``spec`` asks for.

    Args:
        name: the label; underscores become spaces.
        spec: ``(least, most, first value)``, with a step as fourth where it matters, for a slider;
            a list for a choice; a bool for a check box.

    Raises:
        LoaderVizError: for anything else, and for a slider whose ends or first value do not fit.
    """
    label = name.replace("_", " ")
    if isinstance(spec, bool):
        return check_box(label, spec)
    if isinstance(spec, list) and spec:
        return choice(label, spec)
    if isinstance(spec, tuple) and len(spec) in (3, 4) and all(map(_is_number, spec)):
        least, most, value, *step = spec
        if least <= value <= most and least < most and all(number > 0 for number in step):
            return slider(label, value, least, most, *step)
    raise LoaderVizError(
        f"{name}={spec!r} is no control: give (least, most, first value), with a step as fourth "
        "if it matters; a list to choose from; or True or False"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _style_and_layout() -> dict[str, Any]:
    return {"style": {"description_width": LABEL}, "layout": widgets.Layout(width=WIDTH)}
