"""See what a PyTorch DataLoader does: record it, and look at every worker on a timeline.

>>> import loaderviz
>>> with loaderviz.record(loader) as rec:
...     for batch in loader:
...         train_step(batch)
>>> loaderviz.timeline(rec.trace)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loaderviz import figures as figures
    from loaderviz._audit.audit import audit as audit
    from loaderviz._doctor import doctor as doctor
    from loaderviz._plot_timings import plot_timings as plot_timings
    from loaderviz._recommend.recommend import recommend as recommend
    from loaderviz.errors import LoaderVizError as LoaderVizError
    from loaderviz.figures.timelines.timeline import timeline as timeline
    from loaderviz.loaders.ideal_loader import ideal as ideal
    from loaderviz.recorder import record as record
    from loaderviz.recorder import span as span
    from loaderviz.recorder import watch as watch
    from loaderviz.sharding import shard as shard
    from loaderviz.sharding import shard_init as shard_init
    from loaderviz.simulator import Costs as Costs
    from loaderviz.simulator.simulate import simulate as simulate
    from loaderviz.trace import Trace as Trace
    from loaderviz.trace import load as load
    from loaderviz.widgets import explore as explore

__version__ = "0.1.0"

# Each name is imported when it is first used: `import loaderviz` stays as light as `import torch`.
_HOMES = {
    "Costs": "loaderviz.simulator",
    "LoaderVizError": "loaderviz.errors",
    "Trace": "loaderviz.trace",
    "audit": "loaderviz._audit",
    "doctor": "loaderviz._doctor",
    "explore": "loaderviz.widgets",
    "ideal": "loaderviz.loaders.ideal_loader",
    "load": "loaderviz.trace",
    "plot_timings": "loaderviz._plot_timings",
    "recommend": "loaderviz._recommend",
    "record": "loaderviz.recorder",
    "shard": "loaderviz.sharding",
    "shard_init": "loaderviz.sharding",
    "simulate": "loaderviz.simulator",
    "span": "loaderviz.recorder",
    "timeline": "loaderviz.figures",
    "watch": "loaderviz.recorder",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in ("figures", "lightning", "transformers"):
        return import_module(f"loaderviz.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'loaderviz' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext loaderviz``: adds ``%%loaderviz`` and ``%loaderviz_doctor`` to a notebook."""
    from loaderviz._magics import LoaderMagics

    ipython.register_magics(LoaderMagics)
