"""The base of our own widgets, which a page hears of however late it has run their script."""

from __future__ import annotations

from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from loaderviz.web import script


class Relayed(anywidget.AnyWidget):
    """A widget whose traits that are tagged ``relayed`` reach its page by a core ipywidget each.

    anywidget 0.11 drops every message to a widget whose script took a page more than two seconds to
    load (``Runtime.ready`` in its front end), and on a busy machine many do. ipywidgets' own models
    wait, so a slider never moves above a figure that stands still.
    """

    _relays = traitlets.Dict().tag(sync=True, **widgets.widget_serialization)

    def __init__(self, **values: Any) -> None:
        kinds = {traitlets.Unicode: widgets.Label, traitlets.Bool: widgets.Checkbox}
        relays = {
            name: kinds[type(trait)](value=values.get(name, trait.default_value))
            for name, trait in self.traits(relayed=True).items()
        }
        super().__init__(_relays=relays, **values)
        for name, relay in relays.items():
            traitlets.dlink((self, name), (relay, "value"))

    def close(self) -> None:
        """As of any widget, and what it is heard by with it."""
        for relay in self._relays.values():
            relay.close()
        super().close()


def relayed_script(*names: str) -> str:
    """The scripts, of which the last is a widget's, as a module for ``_esm``."""
    body = "\n".join(script(name) for name in ("relayed", *names))
    return f"{body.replace('export default', 'const widget =')}\nexport default relayed(widget);"
