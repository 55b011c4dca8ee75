"""Numbers as a report writes them."""

from __future__ import annotations

import math

_MiB = 1 << 20


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-4:
        return f"{1000 * seconds:.3g} ms"
    return f"{1e6 * seconds:.2g} µs"


def share(part: float) -> str:
    if not math.isfinite(part):
        return "–"
    return "< 1 %" if 0 < part < 0.005 else f"{100 * part:.0f} %"


def size(n_bytes: float) -> str:
    mib = n_bytes / _MiB
    return "–" if not n_bytes > 0 else f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:,.0f} MiB"


def rate(per_s: float) -> str:
    if not math.isfinite(per_s):
        return "–"
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
