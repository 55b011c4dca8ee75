"""The explorer's controls: the settings of a loader, those that matter most first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.loader_settings import PREFETCH_FACTOR, LoaderSettings
from loaderviz.machine import cpu_allowance
from loaderviz.text import count
from loaderviz.widgets.explorer_settings import (
    KINDS,
    MOST_WORKERS,
    ExplorerSettings,
    has_batch_size,
    settings_of,
)
from loaderviz.widgets.html_controls import check_box, choice, slider

MAIN = ("num_workers", "batch_size", "prefetch_factor", "kind", "sample_s", "step_s")
TEACHING = ("sample_s", "spread", "cpu_share", "sample_bytes")  # another dataset has its own


class Panel(widgets.Box):  # type: ignore[misc]  # ipywidgets has no types
    """One control for each setting; ``moved`` is called after every change."""

    def __init__(self, own: DataLoader[Any] | None, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._silent = False
        begin = ExplorerSettings() if own is None else settings_of(own)
        self._allowed = max(1, round(cpu_allowance()))
        self.controls = _controls(begin, self._allowed)
        if own is not None:
            self._fit_to(own)
        for each in self.controls.values():
            each.observe(self._on_change, names="value")
        self._show_meaning()
        main = [self.controls[name] for name in MAIN]
        main[0] = widgets.VBox([main[0], widgets.HTML(_mark(self._allowed))])
        rest = [each for name, each in self.controls.items() if name not in MAIN]
        more = widgets.Box(rest).add_class("loaderviz-more")
        accordion = widgets.Accordion([more], titles=("more settings",), selected_index=None)
        super().__init__([*main, accordion.add_class("loaderviz-accordion")])
        self.add_class("loaderviz-settings")

    @property
    def settings(self) -> ExplorerSettings:
        """Where the controls stand."""
        values = {name: each.value for name, each in self.controls.items()}
        values["sample_bytes"] = 1000 * values.pop("sample_kb")
        if values["cores"] == self._allowed:
            values["cores"] = None
        loader = LoaderSettings.of(values)
        for name in loader.options():
            del values[name]
        return ExplorerSettings(loader, **values)

    def set(self, **values: Any) -> None:
        """Move several controls at once."""
        self._silent = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._silent = False
        self._on_change(None)

    def _on_change(self, _: Any) -> None:
        if not self._silent:
            self._show_meaning()
            self._moved()

    def _show_meaning(self) -> None:
        """Controls that mean nothing at the present position say so."""
        without_workers = self.controls["num_workers"].value == 0
        for name in ("prefetch_factor", "persistent_workers", "in_order"):
            self.controls[name].disabled = without_workers

    def _fit_to(self, own: DataLoader[Any]) -> None:
        """What the reader's own loader decides by itself is not to be chosen."""
        hidden = [name.replace("sample_bytes", "sample_kb") for name in TEACHING]
        if isinstance(own.dataset, IterableDataset):
            self.controls["kind"].options = KINDS[1:]
        else:
            hidden.append("kind")
        for name in hidden:
            self.controls[name].layout.display = "none"
        self.controls["batch_size"].disabled = not has_batch_size(own)


def _controls(begin: ExplorerSettings, allowed: int) -> dict[str, Any]:
    n_samples, step_s, batch_size = begin.n_samples, begin.step_s, begin.batch_size
    loader = begin.loader
    workers, prefetch = loader.num_workers, loader.prefetch_factor or PREFETCH_FACTOR
    return {
        "num_workers": slider("workers", workers, 0, max(MOST_WORKERS, workers)),
        "batch_size": slider("batch size", batch_size, 1, max(32, 2 * batch_size)),
        "prefetch_factor": slider("prefetch factor", prefetch, 1, max(8, prefetch)),
        "kind": choice("dataset", KINDS, begin.kind),
        "sample_s": slider("s per sample", begin.sample_s, 0.0, 0.2, 0.005),
        "step_s": slider("s per model step", step_s, 0.0, 0.5, 0.01),
        "spread": slider("spread of these", begin.spread, 0.0, 2.0, 0.1),
        "cpu_share": slider("share on the CPU", begin.cpu_share, 0.0, 1.0, 0.05),
        "sample_kb": slider("kB per sample", begin.sample_bytes // 1000, 0, 1000, 10),
        "cores": slider("CPUs", allowed, 1, max(MOST_WORKERS, allowed)),
        "n_samples": slider("samples", n_samples, 1, max(400, 2 * n_samples)),
        "epochs": slider("epochs", begin.epochs, 1, 3),
        "in_order": check_box("in order", loader.in_order),
        "persistent_workers": check_box("persistent workers", loader.persistent_workers),
        "pin_memory": check_box("pin memory", loader.pin_memory),
    }


def _mark(allowed: int) -> str:
    """A mark under the workers' slider: where the CPUs that this process may use end."""
    share = min(allowed / MOST_WORKERS, 1.0)
    cpus = count(allowed, "CPU")
    return (
        f"<div class='loaderviz-allowance'><span style='left: {share:.1%}' title='The CPUs that "
        f"this process may use: workers that compute gain little beyond.'>▲ {cpus}</span></div>"
    )
