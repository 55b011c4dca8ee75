"""What was set otherwise in two recordings: of the loaders, the versions, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_FACTS = ("torch", "python", "platform", "host", "cpu_count", "cpu_allowance", "world_size")


def differences(a: Trace, b: Trace) -> dict[str, tuple[Any, Any]]:
    """By name, what it was in each; None where it is not known."""
    several = any(len(each.meta.get("loaders") or ()) > 1 for each in (a, b))
    settings = _settings(a, several=several), _settings(b, several=several)
    names = dict.fromkeys([*settings[0], *settings[1]])
    pairs = {name: (settings[0].get(name), settings[1].get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _settings(trace: Trace, *, several: bool) -> dict[str, Any]:
    meta = trace.meta
    loaders = list(meta.get("loaders") or ())
    found: dict[str, Any] = {"loaders": len(loaders)}
    for number, loader in enumerate(loaders):
        where = f" of loader {number}" if several else ""
        found |= {f"{name}{where}": value for name, value in loader.items()}
    ranks = trace.batches["rank"].nunique()
    found["simulated"] = bool(meta.get("simulated"))
    return {**found, "ranks": ranks, **{name: meta.get(name) for name in _FACTS}}
