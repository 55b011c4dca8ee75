"""The legend of a timeline's marks, as an SVG: drawn from the styles of the figures themselves.

`make pictures ARGS=marks` writes it to `marks.svg`. A white card: it reads on any page.
"""

from html import escape
from pathlib import Path

from loaderviz.figures import style

PICTURE = Path(__file__).with_suffix(".svg")
HEIGHT, TOP_PX, SIZE_PX = 64, 8, 13
TEXT_LEFT, LETTER_PX, GAP_PX = 70, 7, 12
TALL = 30  # of a consumer's step; a worker's boxes are a little lower, as in the figures
LOW = TALL * 0.66 / 0.8


def box(
    x: float, width: float, fill: str, tall: float = LOW, middle: float = 20, **more: object
) -> str:
    """A box of the figures, without the light edge: the gap beside it shows the background."""
    options = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return (
        f'<rect x="{x:g}" y="{middle - tall / 2:g}" width="{width:g}" height="{tall:g}" '
        f'fill="{fill}"{options}/>'
    )


def number(batch: int, x: float, anchor: str = "start") -> str:
    """A batch's number in its box."""
    return (
        f'<text x="{x:g}" y="24.5" text-anchor="{anchor}" fill="{style.text_on(batch)}">'
        f"{batch}</text>"
    )


def samples(batch: int, x: float, width: float, n: int = 4) -> str:
    """The boxes of a batch's samples, in two shades in turn."""
    shades = style.colour(batch), style.COLOURS[len(style.PALETTE) + batch % len(style.PALETTE)]
    each = width / n
    return "".join(box(x + i * each, each - 1, shades[i % 2]) for i in range(n))


def step(batch: int, x: float, width: float) -> str:
    """The consumer's step on a batch."""
    return box(x, width, style.colour(batch), TALL) + number(batch, x + width / 2, "middle")


def wait(x: float, width: float) -> str:
    """The consumer waits."""
    return box(x, width, "url(#hatch)", 20, stroke=style.WAIT_LINE)


def ready() -> str:
    """The strip above the lanes."""
    heights = [0, 1, 2, 1, 2, 3, 2, 1]
    points = [
        (i * 7.6 + side, 36 - 9 * height) for i, height in enumerate(heights) for side in (0, 7.6)
    ]
    line = " ".join(f"{x:g},{y}" for x, y in points)
    return (
        f'<polygon points="0,36 {line} 60.8,36" fill="{style.READY_FILL}"/>'
        f'<polyline points="{line}" fill="none" stroke="{style.READY_LINE}" stroke-width="1.4"/>'
    )


# The picture of each mark, its name, and what it means, in one or two lines. No more than these:
# what else a timeline may hold says what it is when the mouse is on it.
MARKS = (
    (step(3, 2, 58), "step", "your loop works on", "batch 3"),
    (wait(2, 58), "wait", "your loop is inside next():", "it has no batch"),
    (ready(), "ready", "batches that are made and", "not yet taken by your loop"),
    (
        samples(0, 0, 54, 3) + box(54, 8, style.QUIET) + number(0, 4),
        "batch", "a box for each sample; the", "grey end puts them together",
    ),
    (
        box(0, 36, style.QUIET, 4) + samples(1, 36, 26, 2),
        "start-up", "until the worker gets", "its first task",
    ),
)  # fmt: skip


def svg() -> str:
    """The whole picture."""
    width, cells = 4, []
    for picture, name, *lines in MARKS:
        words = "".join(f'<tspan x="{TEXT_LEFT}" dy="16">{escape(line)}</tspan>' for line in lines)
        cells.append(
            f'<g transform="translate({width} {TOP_PX})">{picture}'
            f'<text x="{TEXT_LEFT}" y="10" fill="{style.theme("light").text}">'
            f'<tspan font-weight="bold">{escape(name)}</tspan>{words}</text></g>'
        )
        width += TEXT_LEFT + LETTER_PX * max(map(len, lines)) + GAP_PX
    hatch = (
        '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="7" height="7" fill="{style.WAIT_FILL}"/>'
        f'<rect width="1.8" height="7" fill="{style.WAIT}"/></pattern>'
    )
    font = style.FONT.replace("'", "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
        f'width="{width}" height="{HEIGHT}" font-family="{font}" font-size="{SIZE_PX}">\n'
        f"<title>The marks of a timeline</title>\n<defs>{hatch}</defs>\n"
        f'<rect width="{width}" height="{HEIGHT}" rx="6" fill="white"/>\n'
        + "\n".join(cells)
        + "\n</svg>\n"
    )
