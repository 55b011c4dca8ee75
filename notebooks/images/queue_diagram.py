"""Draws `queues.svg`: the queues between a sampler and a loop, at one moment.

Its colours can be read on a light and on a dark page. Run by `make pictures`.
"""

from pathlib import Path

from loaderviz.figures import style

HERE = Path(__file__).parent
WIDTH, HEIGHT, ROW, TOP = 804, 226, 58, 42
INK = "#4a525b"
FAINT = "rgba(125, 133, 144, 0.18)"
# The columns: name, x, width, and whether there is a row for each worker.
COLUMNS = {
    "keys": ("sampler", 4, 88, False),
    "index": ("index queues", 124, 118, True),
    "workers": ("workers", 278, 140, True),
    "result": ("result queue", 454, 104, False),
    "buffer": ("buffer", 590, 76, False),
    "consumer": ("consumer", 702, 84, False),
}
# 5 was made before 4; 3 is in its step, 6 is being read, the task of 7 was just sent.
TASKS = {7: ("index", 1)}
READ = {6: ("workers", 0)}
MADE = {4: ("result", None), 5: ("buffer", None), 3: ("consumer", None)}
ARROWS = [
    ("keys", None, "index", 0), ("keys", None, "index", 1), ("index", 0, "workers", 0),
    ("index", 1, "workers", 1), ("workers", 0, "result", None), ("workers", 1, "result", None),
    ("result", None, "buffer", None), ("buffer", None, "consumer", None),
]  # fmt: skip
NOTES = [
    ("keys", "main process"), ("index", "tasks"),
    ("workers", "processes that read"), ("result", "batches"), ("buffer", "early ones"),
    ("consumer", "your loop"),
]  # fmt: skip
LEGEND = "An outlined box is a task, a filled one a batch. Batch 5 came before 4, and waits for it."


def svg() -> str:
    parts = [*map(column, COLUMNS), *(arrow(*each) for each in ARROWS)]
    parts += [text(centre(name), TOP + 2 * ROW + 20, note, 14.5) for name, note in NOTES]
    parts += [box(n, *place, made=False) for n, place in (TASKS | READ).items()]
    parts += [box(n, *place, made=True) for n, place in MADE.items()]
    parts.append(text(4, HEIGHT - 8, LEGEND, 14.5, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-6 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="{style.FONT.replace(chr(39), "")}">\n'
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>\n'
        f'<rect x="-6" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def column(name: str) -> str:
    """The title of a column and its one place, or one for each worker."""
    title, x, width, by_worker = COLUMNS[name]
    drawn = [text(centre(name), TOP - 18, title, 17, weight=600)]
    is_process = name in ("workers", "consumer", "keys")
    stroke = f'stroke="{INK}" stroke-width="1.5"' if is_process else ""
    for row in (0, 1) if by_worker else (None,):
        y = TOP + (row or 0) * ROW
        height = ROW - 8 if by_worker else 2 * ROW - 8
        drawn.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
            f'fill="{FAINT}" {stroke}/>'
        )
        if name == "workers":
            drawn.append(text(x + 98, y + 30, f"worker {row}", 15))
    if name == "keys":
        keys = ["0 1 2 3", "4 5 6 7", "8 9 ..."]
        drawn += [text(centre(name), TOP + 32 + 26 * i, each, 15) for i, each in enumerate(keys)]
    return "\n".join(drawn)


def arrow(start: str, start_row: int | None, end: str, end_row: int | None) -> str:
    x0, x1 = COLUMNS[start][1] + COLUMNS[start][2] + 4, COLUMNS[end][1] - 4
    # Where only one end has rows, the arrow stays level with that row.
    rows = [row for row in (start_row, end_row) if row is not None] or [0.5]
    y = TOP + rows[0] * ROW + (ROW - 8) / 2
    return (
        f'<line x1="{x0}" y1="{y}" x2="{x1}" y2="{y}" stroke="{INK}" stroke-width="1.8" '
        'marker-end="url(#tip)"/>'
    )


def box(number: int, name: str, row: int | None, *, made: bool) -> str:
    """A task or a batch, with its number, in its batch's colour."""
    _, x, width, _ = COLUMNS[name]
    y = TOP + (row or 0) * ROW + (ROW - 8) / 2 - 15 + (0 if row is not None else ROW / 2)
    left = {"index": x + width - 50, "workers": x + 10}.get(name, x + width / 2 - 22)
    colour = style.colour(number)
    fill, ink = (colour, style.text_on(number)) if made else ("none", INK)
    dashes = "" if made else ' stroke-dasharray="4 3"'
    return (
        f'<rect x="{left}" y="{y}" width="44" height="30" rx="5" fill="{fill}" stroke="{colour}" '
        f'stroke-width="2.2"{dashes}/>\n'
        + text(left + 22, y + 21, str(number), 16, weight=600, fill=ink)
    )


def centre(name: str) -> float:
    _, x, width, _ = COLUMNS[name]
    return x + width / 2


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    anchor: str = "middle",
    weight: int = 400,
    fill: str = INK,
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{fill}">{words}</text>'
    )


def draw() -> None:
    (HERE / "queues.svg").write_text(svg())


if __name__ == "__main__":
    draw()
