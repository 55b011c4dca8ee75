"""The settings in which two recordings differ: of the loaders, the versions, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loaderviz.trace.described_loaders import UNDERLYING
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.why.loader_share import short_names

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_META_NAMES = ("torch", "python", "platform", "host", "cpu_count", "cpu_allowance", "world_size")
_NO_SETTINGS = (
    "iterated_at",
    "one_by_one",
    "sampler",
    "draws",
    UNDERLYING,
)  # in a loader's description


def changed_settings(a: Trace, b: Trace) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by name: their values in ``a`` and in ``b``, None if not known."""
    a, b = as_one(a), as_one(b)
    settings_a, settings_b = (_settings(trace, _loader_names(a, b)) for trace in (a, b))
    names = dict.fromkeys([*settings_a, *settings_b])
    pairs = {name: (settings_a.get(name), settings_b.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _loader_names(a: Trace, b: Trace) -> dict[int, str]:
    """What each loader is called in both; empty where each run has one loader alone."""
    n_loaders = max(len(trace.meta.get("loaders") or ()) for trace in (a, b))
    if n_loaders < 2:
        return {}
    in_a, in_b = short_names(a), short_names(b)
    return {
        number: in_a[number]
        if number in in_a and in_a[number] == in_b.get(number)
        else f"loader {number}"
        for number in range(n_loaders)
    }


def _settings(trace: Trace, loader_names: dict[int, str]) -> dict[str, Any]:
    """All settings by name; a loader's say which loader they are of, where it has a name."""
    meta = trace.meta
    loaders = list(meta.get("loaders") or ())
    settings: dict[str, Any] = {"loaders": sum(map(bool, loaders))}
    for number, loader in enumerate(loaders):
        suffix = f" of {loader_names[number]}" if loader_names else ""
        settings |= {
            f"{name}{suffix}": value for name, value in loader.items() if name not in _NO_SETTINGS
        }
    ranks = trace.batches["rank"].nunique()
    settings["simulated"] = bool(meta.get("simulated"))
    return {**settings, "ranks": ranks, **{name: meta.get(name) for name in _META_NAMES}}
