"""Interactive controls: ipywidgets lives here and nowhere else."""

from importlib.util import find_spec

from loaderviz.errors import LoaderVizError

for _name in ("ipywidgets", "anywidget"):
    if find_spec(_name) is None:
        raise LoaderVizError(
            f"controls need {_name}, which is not installed: pip install 'loaderviz[notebook]'"
        )

from loaderviz.widgets.explorer import Explorer, explore  # noqa: E402
from loaderviz.widgets.play import play  # noqa: E402
from loaderviz.widgets.predict import Predict, predict  # noqa: E402
from loaderviz.widgets.vary import Vary, vary  # noqa: E402

__all__ = ["Explorer", "Predict", "Vary", "explore", "play", "predict", "vary"]
