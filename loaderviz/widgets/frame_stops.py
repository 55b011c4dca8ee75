"""Where the controls of a page without a kernel can stop: few enough positions to draw them all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets

GEOMETRIC = 20  # sliders from 1 to 20 or more stop at 1, 3, 9 rather than at 1, 11, 21


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
