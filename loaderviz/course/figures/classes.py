"""The figure of shuffled classes: a strip for each order, a line in it for each sample's class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure

TITLE_PX, AXIS_PX, LANE_PX = 86, 56, 56
SHARE = 0.78  # of a lane's height that its strip takes


def classes(
    orders: Mapping[str, Sequence[int]],
    *,
    title: str,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw which classes come one after another: a strip for each order, all on one axis.

    Args:
        orders: by name, from top to bottom, the class (from 0) of each sample in the order in
            which the samples come; equally many of each.
        title: what the figure shows, in one line.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, no order, an empty one, or orders of unequal length.
    """
    table = [np.asarray(order, int) for order in orders.values()]
    if len({len(order) for order in table}) != 1 or not len(table[0]):
        raise LoaderVizError("classes() takes orders of equally many samples, at least one")
    n, n_classes = len(table[0]), 1 + max(int(order.max()) for order in table)
    colours = style.theme(theme)
    layout = style.layout(
        colours,
        title=title,
        numbers=f"{n:,} samples of {n_classes} classes · a colour is a class",
        height=TITLE_PX + AXIS_PX + len(orders) * LANE_PX,
        margins=(axes.labels_px(list(orders)), 22, TITLE_PX, AXIS_PX),
        lanes=list(orders),
    )
    layout |= {
        "xaxis": axes.axis(
            colours, "samples, in the order in which they come", range=[-0.5, n - 0.5],
            showgrid=False, tickformat=",d",
        ),
        "yaxis": axes.lane_axis(colours, list(orders)),
    }  # fmt: skip
    strips = [
        {
            "type": "heatmap", "name": name, "z": order[None, :], "x0": 0, "dx": 1, "y0": lane,
            "dy": SHARE, "zmin": 0, "zmax": max(n_classes - 1, 1), "colorscale": "Cividis",
            "showscale": False,
            "hovertemplate": f"{name}<br>sample %{{x}}: class %{{z}}<extra></extra>",
        }
        for lane, (name, order) in enumerate(zip(orders, table, strict=True))
    ]  # fmt: skip
    return Figure(data=strips, layout=layout)
