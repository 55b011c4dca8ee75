"""The colours of figures: waiting has its own, in scripts, pages and the legend of marks too."""

import colorsys
import re
import runpy
from pathlib import Path

import pytest

from loaderviz.figures import style
from loaderviz.figures.results import delivery_strip
from loaderviz.web import script
from loaderviz.web import style as style_sheet

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "notebooks" / "images"
BATCHES = [fill for fill, _ in style.PALETTE]


def channels(colour):
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def hue(colour):
    """In degrees."""
    return 360 * colorsys.rgb_to_hsv(*channels(colour))[0]


def contrast(one, other):
    """As WCAG 2 defines it."""

    def luminance(colour):
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(colour)
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_no_batch_has_a_colour_near_that_of_waiting_or_of_what_is_wrong():
    for trouble in (style.WAIT, style.AMBER, style.FAILED, delivery_strip.NEVER):
        for batch in BATCHES:
            apart = abs(hue(trouble) - hue(batch)) % 360
            assert min(apart, 360 - apart) > 20, (trouble, batch)


@pytest.mark.parametrize("paper", [theme.paper for theme in style.THEMES.values()])
def test_marks_stand_out_on_both_papers(paper):
    """3 to 1 is what WCAG asks of graphics; boxes with a number in dark have edges besides."""
    assert contrast(style.WAIT, paper) > 3
    assert contrast(delivery_strip.NEVER, paper) > 3
    assert all(contrast(style.series(i), paper) > 3 for i in range(4))
    assert all(contrast(fill, paper) > 2.2 for fill in BATCHES)


def test_numbers_are_legible_on_their_boxes():
    assert all(contrast(fill, ink) > 3.3 for fill, ink in style.PALETTE)


def test_scripts_and_pages_have_the_same_colours():
    canvas = script("draw_canvas")
    (palette,) = re.findall(r"const PALETTE = \[(.*)\]", canvas)
    assert re.findall(r'"(#.*?)"', palette) == BATCHES
    (dark,) = re.findall(r"\[([\d, ]+)\]\.includes\(batch % (\d)\)", canvas)
    dark_ink = [i for i in range(len(BATCHES)) if style.text_on(i) != "#ffffff"]
    assert [*map(int, dark[0].split(", "))] == dark_ink
    assert int(dark[1]) == len(BATCHES)
    assert style.WAIT in canvas
    assert f"--wait: {style.WAIT}" in style_sheet("report_page")
    assert f".waits {{ fill: {style.WAIT}" in style_sheet("play_scene")


def test_the_legend_of_marks_is_drawn_with_the_styles_of_today():
    """`make pictures ARGS=marks` draws it anew."""
    picture = (IMAGES / "marks.svg").read_text("utf-8")
    assert picture == runpy.run_path(str(IMAGES / "marks.py"))["svg"]()
    assert f'fill="{style.theme("light").text}"' in picture
    assert style.WAIT in picture
