"""Sliders, choices and check boxes that look alike, and where they stop on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from loaderviz.errors import LoaderVizError

LABEL = "120px"
WIDTH = "388px"
FOR_REAL = "for_real"  # the control of ``vary`` that starts real runs
GEOMETRIC = 20  # sliders from 1 to 20 or more stop at 1, 3, 9 rather than at 1, 11, 21


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


def positions(control: Any) -> list[Any]:
    """Every value that a control can have."""
    if isinstance(control, widgets.Checkbox):
        return [False, True]
    if isinstance(control, widgets.Dropdown):
        return list(control.options)
    n = math.floor((control.max - control.min) / control.step + 1e-6)
    return [round(control.min + i * control.step, 9) for i in range(n + 1)]


def stops(controls: Mapping[str, Any], now: Mapping[str, Any], most: int) -> dict[str, list[Any]]:
    """For each control the values at which it stops, so that all together meet ``most`` times.

    Only sliders lose positions, those with many first, and of equals the later one. Each keeps its
    ends and what it is ``now``; so there may be more than ``most`` meetings.
    """
    every = {name: positions(control) for name, control in controls.items()}
    n = {name: len(values) for name, values in every.items()}
    while math.prod(n.values()) > most:
        thinner = [name for name in reversed(n) if is_slider(controls[name]) and n[name] > 2]
        if not thinner:
            break
        name = max(thinner, key=n.__getitem__)
        n[name] -= max(1, n[name] // 8)
    return {name: spread(every[name], now[name], n[name]) for name in every}


def is_slider(control: Any) -> bool:
    """Whether a control has ends and a step."""
    return not isinstance(control, widgets.Checkbox | widgets.Dropdown)


def spread(values: Sequence[Any], first: Any, n: int) -> list[Any]:
    """About ``n`` of ``values``: both ends, ``first``, and more at equal steps or ratios."""
    if n >= len(values):
        return list(values)
    last = len(values) - 1
    least, most = values[0], values[-1]
    shares = [i / (n - 1) for i in range(n)]
    if least > 0 and most >= GEOMETRIC * least:
        wanted = [least * (most / least) ** share for share in shares]
        kept = {min(range(last + 1), key=lambda i: abs(values[i] - each)) for each in wanted}
    else:
        kept = {round(share * last) for share in shares}
    own = min(range(last + 1), key=lambda i: abs(values[i] - first))
    if own not in kept and (inner := kept - {0, last}):
        kept.remove(min(inner, key=lambda i: abs(i - own)))
    return [first if i == own else values[i] for i in sorted(kept | {own})]
