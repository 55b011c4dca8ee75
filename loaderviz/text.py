"""Numbers as text: rates, durations, bytes, shares, changes and counts; and text as it is printed.

Imports nothing of loaderviz. An unknown number, NaN, is a dash. Numbers are plain text that needs
no escaping in HTML.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

NOT_KNOWN = "–"
MAIN_PROCESS = "main process"
PRINTED_WIDTH = 72  # letters: what a notebook has room for in a window of 1024 px
_NOISE = 1e-9  # a smaller share, or fewer seconds, is a rounding error of 0


def rate(per_s: float) -> str:
    """A rate, such as samples a second, to three digits; the caller writes the unit.

    ``4000`` is "4,000", ``123.4`` "123", ``2.5`` "2.5".
    """
    return _three_digits(per_s) if math.isfinite(per_s) else NOT_KNOWN


def duration(seconds: float) -> str:
    """A time in seconds, to three digits, in the unit that suits.

    ``2.5`` is "2.5 s", ``0.201`` "201 ms", ``5e-05`` "50 µs", ``1234`` "1,230 s", ``0`` "0 s".
    """
    if not math.isfinite(seconds):
        return NOT_KNOWN
    if abs(seconds) < _NOISE:
        return "0 s"
    for in_unit, unit in ((seconds, "s"), (1e3 * seconds, "ms")):
        if abs(in_unit) >= 0.9995:
            return f"{_three_digits(in_unit)} {unit}"
    return f"{_three_digits(1e6 * seconds)} µs"


def clock_time(seconds: float) -> str:
    """When in a run something was, in hours, minutes and seconds: ``111600`` is "31:00:00"."""
    minutes, s = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{s:02}"


def durations_that_add_up(parts_s: Sequence[float]) -> tuple[str, list[str]]:
    """The sum of some times, and each of them, so rounded that the sum is right as it is written.

    To two digits of the sum, or to more where a part would vanish, or be off by more than half of
    the last digit; all in one unit.
    ``[0.484, 0.207, 0.0099]`` is "700 ms" and "480 ms", "210 ms", "10 ms".
    """
    total_s = sum(parts_s)
    if not math.isfinite(total_s) or total_s < _NOISE:
        return duration(total_s), [duration(part_s) for part_s in parts_s]
    exponent = math.floor(math.log10(total_s)) - 1
    if any(_NOISE < part_s < 0.5 * 10**exponent for part_s in parts_s):
        exponent -= 1
    whole, is_near = _wholes_that_add_up([part_s / 10**exponent for part_s in parts_s])
    if not is_near:
        exponent -= 1
        whole, _ = _wholes_that_add_up([part_s / 10**exponent for part_s in parts_s])
    power, unit = next((p, u) for p, u in ((0, "s"), (-3, "ms"), (-6, "µs")) if _fits(total_s, p))
    decimals = max(power - exponent, 0)
    while decimals and all(each % 10 ** (power - exponent - decimals + 1) == 0 for each in whole):
        decimals -= 1

    def text(units: int) -> str:
        if not units:
            return "0 s"
        return f"{units * 10.0 ** (exponent - power):,.{decimals}f} {unit}"

    return text(sum(whole)), [text(each) for each in whole]


def _wholes_that_add_up(exact: Sequence[float]) -> tuple[list[int], bool]:
    """Numbers rounded so that their sum is right, and whether each is within a half of what it was.

    Those that lose most by rounding down are rounded up, as many as the sum needs.
    """
    whole = [math.floor(each + _NOISE) for each in exact]
    by_loss = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_loss[: round(sum(exact)) - sum(whole)]:
        whole[i] += 1
    return whole, all(abs(n - each) <= 0.5 + _NOISE for n, each in zip(whole, exact, strict=True))


def _fits(seconds: float, power: int) -> bool:
    """Whether a time is at least about 1 in the unit of 10 to this power of seconds."""
    return power == -6 or seconds >= 0.9995 * 10**power


def size(n_bytes: float) -> str:
    """A number of bytes, to three digits, in the unit that suits; a KiB is 1,024 bytes.

    ``512`` is "512 B", ``1536`` "1.5 KiB", ``3 << 30`` "3 GiB".
    """
    if not math.isfinite(n_bytes):
        return NOT_KNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 999.5:
            return f"{_three_digits(n_bytes)} {unit}"
        n_bytes /= 1024
    return f"{_three_digits(n_bytes)} TiB"


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent; 1 is all.

    ``0.41`` is "41 %", with one decimal "41.0 %"; ``0.001`` is "under 1 %", ``0`` "0 %".
    """
    if not math.isfinite(share):
        return NOT_KNOWN
    if 0.5 * 10**-decimals > 100 * share > _NOISE:
        return f"under {10**-decimals:g} %"
    return f"{100 * share if abs(share) > _NOISE else 0:.{decimals}f} %"


def change(relative: float) -> str:
    """A relative change in percent, with its sign; 1 is twice as much.

    ``0.5`` is "+50 %", ``-0.12`` "−12 %".
    """  # noqa: RUF002
    if not math.isfinite(relative):
        return NOT_KNOWN
    whole = round(100 * relative)
    sign = "−" if whole < 0 else "+" * (whole > 0)  # noqa: RUF001
    return f"{sign}{abs(whole)} %"


def count(n: float, singular: str, plural: str = "") -> str:
    """A number of things with their name; without ``plural``, that is ``singular`` with an s.

    ``count(1, "worker")`` is "1 worker", ``count(4000, "batch", "batches")`` "4,000 batches",
    ``count(2.5, "CPU")`` "2.5 CPUs".
    """
    number = f"{int(n):,}" if n == int(n) else f"{n:g}"
    return f"{number} {singular if n == 1 else plural or f'{singular}s'}"


def worker_name(worker: int) -> str:
    """The name of the process that made a batch: "worker 3", or "main process" for -1."""
    return MAIN_PROCESS if worker < 0 else f"worker {worker}"


def wrapped(text: str, indent: int = 0, hanging: int = 0) -> str:
    """A text on lines of at most 72 letters, indented; those after the first ``hanging`` more.

    Notebooks break a longer line wherever it ends, within a word too. Words stay whole.
    """
    first, others = indent * " ", (indent + hanging) * " "
    return textwrap.fill(
        text, PRINTED_WIDTH, initial_indent=first, subsequent_indent=others,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def printable(text: object) -> str:
    """A text with its control characters escaped.

    Names and paths may be a stranger's: they must not send commands to the terminal.
    """
    decoded = str(text).encode("utf-8", "backslashreplace").decode()
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in decoded
    )


def _three_digits(value: float) -> str:
    """A finite number, rounded to three digits, with commas: "4,000", "123", "2.5", "0.012"."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"
