"""A widget on a page without a kernel: what it shows at each position of its controls.

``make site`` asks for these frames: its kernels find ``LOADERVIZ_FRAMES`` in their environment, how
many bytes they may take for a widget. ``page_frames.js`` moves through them. Python in the browser
was the other way: pyodide has no torch, which loaderviz imports, and takes 13 MB before pandas.
"""

from __future__ import annotations

import base64
import html
import itertools
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go

from loaderviz.figures.display import CONFIG, html_for_export
from loaderviz.loaders.random_state import global_states
from loaderviz.widgets.html_controls import FOR_REAL, is_slider, positions, stops

ASKED_FOR = "LOADERVIZ_FRAMES"
MOST_FRAMES = 240
MOST_S = 20.0  # to draw the frames of one widget
NEEDS_LAB = "A real run needs JupyterLab (<code>make lab</code>)."
DIGITS = 5  # of a number in a figure: less than a pixel

Parts = Sequence["go.Figure | str"]  # one below the other: figures and HTML


def frames_wanted() -> int:
    """How many bytes the frames of a widget may take; 0 where nobody asks for frames."""
    return int(os.environ.get(ASKED_FOR, "0"))


def frames_html(
    controls: Mapping[str, Any],
    draw: Callable[..., Parts],
    *,
    most_bytes: int,
    stopping_at: Mapping[str, list[Any]] | None = None,
    note: str = "",
) -> str:
    """Controls that need no kernel, and under them what ``draw`` returns for each position.

    Args:
        controls: the widget's own, by the names of the arguments of ``draw``. One called
            ``for_real`` starts a real run, so it stays where it is.
        draw: called for each position, with the global random generators as they are now.
        most_bytes: with more, the sliders stop at fewer positions.
        stopping_at: the positions of some sliders; of the others they are chosen.
        note: a sentence in HTML about what else is missing.
    """
    moved = {name: each for name, each in controls.items() if name != FOR_REAL}
    now = {name: each.value for name, each in controls.items()}  # drawing may move them
    states = list(global_states())
    try:
        began = time.monotonic()
        first = draw(**now)
        one_s = time.monotonic() - began
        most = int(min(MOST_FRAMES, max(2, MOST_S / max(one_s, 1e-6))))
        drawn: dict[tuple[Any, ...], Any] = {}
        while True:
            chosen = _chosen(moved, now, most, stopping_at or {})
            for values in itertools.product(*chosen.values()):
                if values not in drawn:
                    shown = draw(**{**now, **dict(zip(chosen, values, strict=True))})
                    drawn[values] = list(map(_tree, shown))
            packed = pack([drawn[values] for values in itertools.product(*chosen.values())])
            if len(packed) <= most_bytes or most <= 2 or stopping_at:
                break
            most = max(2, min(most - 1, int(0.9 * most * most_bytes / len(packed))))
    finally:
        for state in states:
            state.restore(state.value)
    idle = _idle(chosen, drawn)
    rows = "".join(
        _control_html(each, chosen.get(name, [now[name]]), now[name])
        for name, each in controls.items()
    )
    parts = "".join(f"<div class='loaderviz-part'>{_part_html(part)}</div>" for part in first)
    held = "" if len(moved) == len(controls) else NEEDS_LAB
    notes = " ".join(filter(None, [_coarse(moved, chosen), held, note]))
    return (
        f"<div class='loaderviz-frames' data-idle='{' '.join(idle)}' data-frames='{packed}'>"
        f"<div class='loaderviz-moved'>{rows}</div><p class='loaderviz-note'>{notes}</p>"
        f"<div class='loaderviz-parts'>{parts}</div></div>"
    )


def _chosen(
    moved: Mapping[str, Any], now: Mapping[str, Any], most: int, given: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    """At which values the controls stop."""
    free = {name: each for name, each in moved.items() if name not in given}
    others = stops(free, now, most // math.prod(map(len, given.values())))
    return {name: given[name] if name in given else others[name] for name in moved}


def _idle(chosen: Mapping[str, list[Any]], drawn: Mapping[tuple[Any, ...], Any]) -> list[str]:
    """The controls that change nothing at all."""
    idle = []
    for at, (name, values) in enumerate(chosen.items()):
        meetings = itertools.product(*chosen.values())
        moves = (
            drawn[meeting] != drawn[(*meeting[:at], values[0], *meeting[at + 1 :])]
            for meeting in meetings
        )
        if len(values) > 1 and not any(moves):
            idle.append(name)
    return idle


def pack(frames: list[Any]) -> str:
    """Frames, each of JSON's types, as base64 of compressed JSON; what is equal is there once.

    Within ``pool`` a dictionary or a list refers to its values by their places; a list without a
    dictionary in it stands there as it is.
    """
    pool: list[Any] = []
    places: dict[str, int] = {}

    def place(value: Any) -> int:
        if isinstance(value, dict):
            value = {key: place(each) for key, each in value.items()}
        elif _holds_dicts(value):
            value = {"": [place(each) for each in value]}
        key = json.dumps(value, separators=(",", ":"))
        if key not in places:
            places[key] = len(pool)
            pool.append(value)
        return places[key]

    roots = [[place(part) for part in frame] for frame in frames]
    text = json.dumps({"pool": pool, "frames": roots}, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _holds_dicts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(x, dict) or _holds_dicts(x) for x in value)


def _tree(part: go.Figure | str) -> Any:
    if isinstance(part, str):
        return part
    return {**_short(json.loads(part.to_json())), "config": CONFIG}


def _short(value: Any) -> Any:
    """With arrays as lists, and no more digits than can be seen."""
    if isinstance(value, dict):
        if "bdata" in value:
            numbers = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
            shape = [int(n) for n in str(value.get("shape", len(numbers))).split(",")]
            return _short(numbers.reshape(shape).tolist())
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _part_html(part: go.Figure | str) -> str:
    return part if isinstance(part, str) else html_for_export(part)


def _control_html(control: Any, values: list[Any], now: Any) -> str:
    """A control that the page brings to life; one with a single value stays where it is."""
    label = f"<span>{html.escape(control.description)}</span>"
    texts, at = [value_text(value) for value in values], values.index(now)
    own = (
        f"data-stops='{html.escape(json.dumps(texts))}' disabled" if len(values) > 1 else "disabled"
    )
    if isinstance(control, widgets.Checkbox):
        return f"<label><input type='checkbox' {own}{' checked' if now else ''}>{label}</label>"
    if is_slider(control):
        return (
            f"<label>{label}<input type='range' min='0' max='{len(values) - 1}' value='{at}' "
            f"aria-valuetext='{html.escape(texts[at])}' {own}>"
            f"<output>{html.escape(texts[at])}</output></label>"
        )
    options = "".join(
        f"<option{' selected' if i == at else ''}>{html.escape(text)}</option>"
        for i, text in enumerate(texts)
    )
    return f"<label>{label}<select {own}>{options}</select></label>"


def value_text(value: Any) -> str:
    """A control's value as a reader would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _coarse(controls: Mapping[str, Any], chosen: Mapping[str, list[Any]]) -> str:
    coarse = [
        html.escape(each.description)
        for name, each in controls.items()
        if name in chosen and len(chosen[name]) < len(positions(each))
    ]
    if not coarse:
        return ""
    names = " and ".join(filter(None, [", ".join(coarse[:-1]), coarse[-1]]))
    stop = "stops" if len(coarse) == 1 else "stop"
    return f"On this page <em>{names}</em> {stop} at fewer values than in JupyterLab."
