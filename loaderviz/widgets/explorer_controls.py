"""The explorer's controls, one for each setting; those that matter most come first."""

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
    samples_of,
    settings_of,
)
from loaderviz.widgets.html_controls import check_box, choice, slider
from loaderviz.widgets.page_frames import Parts, frames_html

MAIN_CONTROLS = ("num_workers", "batch_size", "prefetch_factor", "kind", "sample_s", "step_s")
TEACHING_CONTROLS = ("sample_s", "spread", "cpu_share", "sample_kb")  # of the teaching dataset
# On a page without a kernel. Everything that these can be together is drawn when it is made.
STOPS: dict[str, list[float]] = {
    "num_workers": [0, 1, 2, 3, 4, 6, 8, 12],
    "sample_s": [0.005, 0.02, 0.05, 0.1],
    "step_s": [0.01, 0.05, 0.1, 0.2],
}
NEEDS_LAB = (
    "The other settings, <em>Run for real</em> and <em>Pin</em> need JupyterLab "
    "(<code>make lab</code>)."
)


class ControlPanel(widgets.Box):  # type: ignore[misc]  # ipywidgets has no types
    """One control for each setting; ``on_change`` is called after every change.

    Attributes:
        controls: the controls by the names of their settings.
    """

    def __init__(self, user_loader: DataLoader[Any] | None, on_change: Callable[[], None]) -> None:
        self._call_on_change = on_change
        self._silent = False
        initial = ExplorerSettings() if user_loader is None else settings_of(user_loader)
        self._n_cpus = max(1, round(cpu_allowance()))
        self.controls = _controls(initial, self._n_cpus)
        if user_loader is not None:
            self._restrict_to(user_loader)
        for control in self.controls.values():
            control.observe(self._on_change, names="value")
        self._update_disabled()
        main = [self.controls[name] for name in MAIN_CONTROLS]
        main[0] = widgets.VBox([main[0], widgets.HTML(_cpu_mark(self._n_cpus))])
        others = [control for name, control in self.controls.items() if name not in MAIN_CONTROLS]
        more = widgets.Box(others).add_class("loaderviz-more")
        accordion = widgets.Accordion([more], titles=("more settings",), selected_index=None)
        super().__init__([*main, accordion.add_class("loaderviz-accordion")])
        self.add_class("loaderviz-settings")

    @property
    def settings(self) -> ExplorerSettings:
        """The settings that the controls stand for."""
        values = {name: control.value for name, control in self.controls.items()}
        values["sample_bytes"] = 1000 * values.pop("sample_kb")
        if values["cores"] == self._n_cpus:
            values["cores"] = None
        loader = LoaderSettings.of(values)
        for name in loader.options():
            del values[name]
        return ExplorerSettings(loader, **values)

    def set(self, **values: Any) -> None:
        """Move several controls at once; ``on_change`` is called once.

        Raises:
            KeyError: for a name that no control has.
            traitlets.TraitError: for a value of the wrong type, or that is not among the choices.
        """
        self._silent = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._silent = False
        self._on_change(None)

    def page_html(self, draw: Callable[..., Parts], most_bytes: int) -> str:
        """For a page without a kernel: the controls that say most about workers, which move.

        And what ``draw`` makes of their values.
        """
        before = {name: each.value for name, each in self.controls.items()}
        moved = {
            name: self.controls[name]
            for name in STOPS
            if self.controls[name].layout.display != "none" and not self.controls[name].disabled
        }
        stops = {
            name: sorted({*(stop for stop in STOPS[name] if stop <= each.max), each.value})
            for name, each in moved.items()
        }
        try:
            return frames_html(
                moved, draw, most_bytes=most_bytes, stopping_at=stops, note=NEEDS_LAB
            )
        finally:
            self.set(**before)

    def _on_change(self, _: Any) -> None:
        if not self._silent:
            self._update_disabled()
            self._call_on_change()

    def _update_disabled(self) -> None:
        """Without workers, disable the controls that mean nothing then."""
        without_workers = self.controls["num_workers"].value == 0
        for name in ("prefetch_factor", "persistent_workers", "in_order"):
            self.controls[name].disabled = without_workers

    def _restrict_to(self, user_loader: DataLoader[Any]) -> None:
        """Hide or disable the controls of what the user's own loader decides by itself."""
        hidden = [*TEACHING_CONTROLS]
        if isinstance(user_loader.dataset, IterableDataset):
            kind = self.controls["kind"]
            chosen, kind.options = kind.value, KINDS[1:]
            kind.value = chosen  # new options choose the first of them
        else:
            hidden.append("kind")
        for name in hidden:
            self.controls[name].layout.display = "none"
        self.controls["batch_size"].disabled = not has_batch_size(user_loader)
        samples = self.controls["n_samples"]
        samples.max = max(1, min(samples.max, samples_of(user_loader) or samples.max))


def _controls(initial: ExplorerSettings, n_cpus: int) -> dict[str, Any]:
    n_samples, step_s, batch_size = initial.n_samples, initial.step_s, initial.batch_size
    loader = initial.loader
    workers, prefetch = loader.num_workers, loader.prefetch_factor or PREFETCH_FACTOR
    return {
        "num_workers": slider("workers", workers, 0, max(MOST_WORKERS, workers)),
        "batch_size": slider("batch size", batch_size, 1, max(32, 2 * batch_size)),
        "prefetch_factor": slider("prefetch factor", prefetch, 1, max(8, prefetch)),
        "kind": choice("dataset", KINDS, initial.kind),
        "sample_s": slider("s per sample", initial.sample_s, 0.0, 0.2, 0.005),
        "step_s": slider("s per model step", step_s, 0.0, 0.5, 0.01),
        "spread": slider("spread of these", initial.spread, 0.0, 2.0, 0.1),
        "cpu_share": slider("share on the CPU", initial.cpu_share, 0.0, 1.0, 0.05),
        "sample_kb": slider("kB per sample", initial.sample_bytes // 1000, 0, 1000, 10),
        "cores": slider("CPUs", n_cpus, 1, max(MOST_WORKERS, n_cpus)),
        "n_samples": slider("samples", n_samples, 1, max(400, 2 * n_samples)),
        "epochs": slider("epochs", initial.epochs, 1, 3),
        "in_order": check_box("in order", loader.in_order),
        "persistent_workers": check_box("persistent workers", loader.persistent_workers),
        "pin_memory": check_box("pin memory", loader.pin_memory),
    }


def _cpu_mark(n_cpus: int) -> str:
    """A mark under the workers' slider, at as many workers as this process may use CPUs."""
    share = min(n_cpus / MOST_WORKERS, 1.0)
    cpus = count(n_cpus, "CPU")
    return (
        f"<div class='loaderviz-allowance'><span style='left: {share:.1%}' title='The CPUs that "
        f"this process may use: workers that compute gain little beyond.'>▲ {cpus}</span></div>"
    )
