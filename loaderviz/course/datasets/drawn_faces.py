"""Faces drawn from a number, with their landmarks. Imports numpy and Pillow only."""

from typing import Any

import numpy as np
import numpy.typing as npt

from loaderviz.course.datasets.images import pillow

# Part of the cache folder's name: add 1 with any change to what is drawn or how it is saved.
VERSION = 1
SMOOTH = 2  # faces are drawn this many times larger, then scaled down: that makes edges soft
SIZES = ((480, 640), (600, 480), (720, 540), (600, 800))  # (height, width) in pixels

Points = npt.NDArray[np.float64]


def draw(index: int) -> tuple[Any, Points]:
    """Face number `index`: a Pillow picture and its landmarks, which depend on the index alone.

    The landmarks have shape (LANDMARKS, 2), x and y in pixels. Pictures differ in size.
    """
    random = np.random.default_rng([VERSION, index])
    height, width = SIZES[index % len(SIZES)]
    parts = _parts(random)
    # The parts are of a face around 0 with a radius of about 1; here they move into the picture.
    radius = min(height, width) * random.uniform(0.26, 0.38)
    tilt = random.uniform(-0.3, 0.3)
    rotation = np.array([[np.cos(tilt), np.sin(tilt)], [-np.sin(tilt), np.cos(tilt)]])
    centre = np.array([width, height]) * random.uniform(0.44, 0.56, 2)
    placed = {name: radius * points @ rotation + centre for name, points in parts.items()}
    picture = _paint(placed, (height, width), radius, random)
    return picture, np.concatenate(list(placed.values()))


def _parts(random: np.random.Generator) -> dict[str, Points]:
    """The landmarks of each part, in the order of the table; 0 is the middle of the face."""
    jaw_width, smile = random.uniform(0.72, 0.9), random.uniform(-0.06, 0.16)
    eye_height = 0.05 * random.uniform(1, 2)
    jaw_angles = np.linspace(-0.1, np.pi + 0.1, 11)
    eye = np.array([[-0.13, 0], [0, -eye_height], [0.13, 0], [0, eye_height]])
    brow = np.array([[-0.17, 0.03], [0, -0.04], [0.17, 0.03]])
    lips = np.linspace(-1, 1, 5)
    return {
        "jaw": np.stack([-jaw_width * np.cos(jaw_angles), 1.05 * np.sin(jaw_angles)], axis=1),
        "left brow": brow + np.array([-0.34, -0.36]),
        "right brow": brow + np.array([0.34, -0.36]),
        "left eye": eye + np.array([-0.34, -0.16]),
        "right eye": eye + np.array([0.34, -0.16]),
        "nose": np.array([[0, -0.1], [-0.1, 0.2], [0, 0.24], [0.1, 0.2]]),
        "mouth": np.stack([0.3 * lips, 0.5 + smile * (1 - lips**2)], axis=1),
    }


LANDMARKS = sum(len(points) for points in _parts(np.random.default_rng(0)).values())


def _paint(
    parts: dict[str, Points], size: tuple[int, int], radius: float, random: np.random.Generator
) -> Any:
    from PIL import ImageDraw

    image = pillow()
    height, width = size
    shade = np.linspace(0, 1, height)[:, None, None] * random.uniform(-60, 60, 3)
    background = random.uniform(90, 190, 3) + shade + np.zeros((height, width, 3))
    canvas = image.fromarray(background.clip(0, 255).astype(np.uint8))
    canvas = canvas.resize((SMOOTH * width, SMOOTH * height))
    pen, line_width = ImageDraw.Draw(canvas), max(2, round(0.05 * radius * SMOOTH))
    skin, hair = _skin(random), tuple(int(channel) for channel in random.integers(20, 110, 3))

    def on_canvas(points: Points) -> list[tuple[float, float]]:
        return [(x, y) for x, y in (SMOOTH * points).tolist()]

    jaw, brows = parts["jaw"], (parts["left brow"] + parts["right brow"]) / 2
    middle = (jaw[0] + jaw[-1]) / 2
    across, up = (jaw[-1] - jaw[0]) / 2, 2.6 * (brows.mean(axis=0) - middle)
    arc = np.linspace(0, np.pi, 40)[:, None]
    top = middle + across * np.cos(arc) + up * np.sin(arc)
    pen.polygon(on_canvas(middle + 1.13 * (top - middle)), fill=hair)
    pen.polygon(on_canvas(np.concatenate([_smooth(jaw), top])), fill=skin)
    for name in ("left eye", "right eye"):
        outline = _smooth(np.concatenate([parts[name], parts[name][:1]]))
        pen.polygon(on_canvas(outline), fill="white")
        x, y = on_canvas(parts[name].mean(axis=0, keepdims=True))[0]
        iris = 0.05 * radius * SMOOTH
        pen.ellipse([x - iris, y - iris, x + iris, y + iris], fill=(40, 50, 70))
    for name, colour in (("left brow", hair), ("right brow", hair), ("mouth", (165, 60, 70))):
        pen.line(on_canvas(_smooth(parts[name])), fill=colour, width=line_width, joint="curve")
    shadow = tuple(int(0.8 * channel) for channel in skin)
    pen.line(on_canvas(parts["nose"]), fill=shadow, width=line_width * 2 // 3, joint="curve")
    pixels = np.asarray(canvas.resize((width, height), image.Resampling.BOX), dtype=np.float32)
    # Grain, as a photograph has it: an even area would make a small file that is cheap to decode.
    grainy = pixels + random.normal(0, 5, (height, width))[:, :, None]
    return image.fromarray(grainy.clip(0, 255).astype(np.uint8))


def _skin(random: np.random.Generator) -> tuple[int, ...]:
    dark, light = np.array([120, 78, 52]), np.array([246, 214, 188])
    return tuple(int(channel) for channel in dark + (light - dark) * random.uniform())


def _smooth(points: Points) -> Points:
    """A curve through the points: a parabola around each, blended from one to the next."""
    padded = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    steps = np.linspace(0, 1, 8, endpoint=False)[:, None]
    pieces = []
    for i in range(1, len(points)):
        before, first, last, after = padded[i - 1 : i + 3]
        pieces.append(
            first
            + steps * (last - before) / 2
            + steps**2 * (before - 2.5 * first + 2 * last - after / 2)
            + steps**3 * (1.5 * (first - last) + (after - before) / 2)
        )
    return np.concatenate([*pieces, points[-1:]])
