"""The settings in which two recordings differ: of the loaders, the versions, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_META_NAMES = ("torch", "python", "platform", "host", "cpu_count", "cpu_allowance", "world_size")


def changed_settings(a: Trace, b: Trace) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by name: their values in ``a`` and in ``b``, None if not known."""
    several = any(len(trace.meta.get("loaders") or ()) > 1 for trace in (a, b))
    settings_a, settings_b = (_settings(trace, number_loaders=several) for trace in (a, b))
    names = dict.fromkeys([*settings_a, *settings_b])
    pairs = {name: (settings_a.get(name), settings_b.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _settings(trace: Trace, *, number_loaders: bool) -> dict[str, Any]:
    """All settings by name; with ``number_loaders``, a loader's say which loader they are of."""
    meta = trace.meta
    loaders = list(meta.get("loaders") or ())
    settings: dict[str, Any] = {"loaders": len(loaders)}
    for number, loader in enumerate(loaders):
        suffix = f" of loader {number}" if number_loaders else ""
        settings |= {f"{name}{suffix}": value for name, value in loader.items()}
    ranks = trace.batches["rank"].nunique()
    settings["simulated"] = bool(meta.get("simulated"))
    return {**settings, "ranks": ranks, **{name: meta.get(name) for name in _META_NAMES}}
