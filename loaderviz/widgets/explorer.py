"""``explore``: sliders for a loader's settings, and the timeline of what they lead to."""

from __future__ import annotations

import asyncio
import html
import time
from typing import Any

import ipywidgets as widgets
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.machine import cpu_allowance
from loaderviz.trace import Trace
from loaderviz.widgets.preview import predict
from loaderviz.widgets.run import Failure, LoaderRun
from loaderviz.widgets.settings import MOST_WORKERS, Settings, has_batch_size, settings_of
from loaderviz.widgets.view import FigureView, Look

FOLLOW_S = 0.2  # how often a running recording is looked at
REST_S = 0.4  # the real loader runs when the sliders have not been moved for so long
FIRST_RUN_S = 30.0  # the picture is there before anyone touches a control, unless it takes longer

_measuring: Explorer | None = None  # the one whose run goes on


def explore(loader: DataLoader[Any] | None = None) -> Explorer:
    """Sliders for the settings of a loader: a simulation at once, then the real loader.

    While a slider is dragged, the timeline shows what a simulation says. When it rests, the real
    loader runs in the background and its timeline takes over, with the error of the prediction.

    Args:
        loader: the ``DataLoader`` to vary. The runs use its dataset and options in a process of
            their own, so that the loader itself is not touched. Without one, a dataset that sleeps
            ``seconds per sample`` for each sample shows how the settings play together.

    Raises:
        LoaderVizError: for what is no ``DataLoader``.
    """
    if loader is not None and not isinstance(loader, DataLoader):
        raise LoaderVizError(
            f"explore() takes a torch DataLoader, or nothing, but got {type(loader).__name__} "
            f"{loader!r:.60}"
        )
    return Explorer(loader)


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The controls, the figure and the one run at a time that they ask for.

    The latest request wins: a new position of the sliders ends the run of the one before.
    """

    def __init__(self, loader: DataLoader[Any] | None = None) -> None:
        self._own = loader
        self._sliders = _sliders(loader)
        self._run_button = widgets.Button(description="Run again", icon="play")
        self._cancel_button = widgets.Button(description="Cancel", icon="stop", disabled=True)
        self._progress = widgets.IntProgress(layout=widgets.Layout(width="auto", height="10px"))
        self._status = widgets.HTML()
        self._view = FigureView()
        self._wanted: Settings | None = None
        self._run: LoaderRun | None = None
        self._following: asyncio.Task[None] | None = None
        self._trace: Trace | None = None
        self._measured: Trace | None = None  # the latest run that came to its end
        self._predicted: Trace | None = None
        self._predicted_for: Settings | None = None
        self._rest: asyncio.TimerHandle | None = None  # until the sliders are taken to rest
        self._error: LoaderVizError | None = None
        super().__init__([self._page(), widgets.HTML(f"<style>{_CSS}</style>"), Look()])
        self.add_class("loaderviz-explore")
        for slider in self._sliders.values():
            slider.observe(self._on_slider, names="value")
        self._run_button.on_click(lambda _: self.request(self.settings))
        self._cancel_button.on_click(lambda _: self.cancel())
        self._show_meaning()
        self.request(self.settings, wait_s=FIRST_RUN_S)

    # What the reader does.

    @property
    def settings(self) -> Settings:
        """Where the sliders stand."""
        return Settings(**{name: slider.value for name, slider in self._sliders.items()})

    def preview(self, settings: Settings) -> None:
        """Draw what a simulation says of these settings, in place of a run that goes on."""
        self._stop()
        self._predicted = predict(settings, self._own, self._measured)
        self._predicted_for = settings
        if self._predicted is not None:
            self.show(self._predicted)
            self._progress.value = 0
            self._status.value = f"Predicted: {_seconds(self._predicted)}"

    def request(self, settings: Settings, *, wait_s: float = 0.0) -> None:
        """Run the real loader with these settings, in the background, and follow it.

        In a notebook this returns when the run is over, or after ``wait_s`` seconds at most.
        Where no event loop runs, outside a notebook, the run is waited for.
        """
        if settings != self._predicted_for:
            self.preview(settings)
        self._wanted = settings
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        until = time.monotonic() + (wait_s if loop else float("inf"))
        while (more := self.step()) and time.monotonic() < until:
            time.sleep(FOLLOW_S)
        if more and loop and (self._following is None or self._following.done()):
            self._following = loop.create_task(self._follow())

    def cancel(self) -> None:
        """End the run that goes on; what it recorded until then stays in the picture."""
        self._wanted = None
        if self._rest is not None:
            self._rest.cancel()
        if self._run is not None:
            self._run.cancel()
            self.step()

    def result(self) -> Trace:
        """The trace of the latest run.

        Raises:
            LoaderVizError: where it failed, with the last line of the traceback, or has not
                recorded anything yet.
        """
        if self._error is not None:
            raise self._error
        if self._trace is None:
            raise LoaderVizError("no run has recorded anything yet: press Run again and wait")
        return self._trace

    # What happens meanwhile.

    def step(self) -> bool:
        """Look at the run once, and begin the one that is wanted; says whether to come again."""
        try:
            if self._wanted is not None:
                self._begin(self._wanted)
            elif self._run is not None:
                self._look(self._run)
        except Exception as error:  # shown in place: nobody sees an exception raised here
            self._end(html.escape(f"{type(error).__name__}: {error}"), failed=True)
            self._error = LoaderVizError(str(error))
        return self._run is not None

    async def _follow(self) -> None:
        while self.step():
            await asyncio.sleep(FOLLOW_S)

    def _begin(self, settings: Settings) -> None:
        global _measuring
        if _measuring is not None and _measuring is not self:
            _measuring.cancel()  # runs beside each other would measure each other
        _measuring = self
        self._wanted = self._error = self._trace = None
        if self._predicted is None:
            self._view.add_class("loaderviz-stale")  # until the first batch of this run
        self._stop()
        self._run = LoaderRun(settings, self._own)
        self._cancel_button.disabled = False
        self._progress.value, self._progress.max = 0, settings.n_batches
        self._progress.bar_style = ""
        self._status.value = "Starting the workers ..."

    def _look(self, run: LoaderRun) -> None:
        over = not run.running  # before the look: what is seen then is all there is
        trace = run.snapshot()
        delivered = 0 if trace is None else int(trace.batches["delivered_s"].notna().sum())
        if trace is not None and delivered > 0:
            self._trace = trace
            self.show(trace)
        n_batches = run.settings.n_batches
        self._progress.value = delivered
        self._status.value = f"Running: {delivered} of {n_batches} batches"
        if not over:
            return
        failure = run.failure()
        if failure is not None:
            self._error = LoaderVizError(failure.last_line)
            self._end(
                f"<code>{html.escape(failure.last_line)}</code>{_hint(failure)}<details><summary>traceback"
                f"</summary><pre>{html.escape(failure.traceback)}</pre></details>",
                failed=True,
            )
        elif run.cancelled:
            self._end(f"Cancelled after {delivered} of {n_batches} batches")
        elif delivered == 0:
            self._error = LoaderVizError("the loader delivered no batch: its dataset is empty")
            self._end("The loader delivered no batch: its dataset is empty", failed=True)
        else:
            self._progress.max = max(delivered, 1)  # a small dataset has fewer than asked for
            self._end(f"Done: {delivered} batches{self._compared(delivered)}")
            self._measured = self._trace

    def _compared(self, delivered: int) -> str:
        """How long the run took, and how far off the prediction was."""
        if self._trace is None:
            return ""
        took = f" in {_seconds(self._trace)}"
        predicted = self._predicted
        if predicted is None or len(predicted.batches) != delivered:
            return took
        error = predicted.summary().elapsed_s / self._trace.summary().elapsed_s - 1
        return f"{took}, predicted {_seconds(predicted)} ({100 * error:+.0f} %)"

    def _stop(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def _end(self, status: str, *, failed: bool = False) -> None:
        self._stop()
        look = "loaderviz-error" if failed else "loaderviz-status"
        self._status.value = f"<div class='{look}'>{status}</div>"
        self._progress.bar_style = "danger" if failed else "success"
        self._cancel_button.disabled = True

    def show(self, trace: Trace) -> None:
        """Draw a trace in place of the one before."""
        self._view.show(timeline(trace))
        self._view.remove_class("loaderviz-stale")

    def _on_slider(self, change: dict[str, Any]) -> None:
        self._show_meaning()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.request(self.settings)
            return
        self._wanted = None
        self.preview(self.settings)
        if self._rest is not None:
            self._rest.cancel()
        self._rest = loop.call_later(REST_S, lambda: self.request(self.settings))

    def _show_meaning(self) -> None:
        """Controls that mean nothing at the present position say so."""
        self._sliders["prefetch_factor"].disabled = self._sliders["num_workers"].value == 0

    def _page(self) -> widgets.Widget:
        """Beside each other where there is room, else the settings on top (see ``_CSS``)."""
        workers, *others = self._sliders.values()
        workers = widgets.VBox([workers, widgets.HTML(_mark(cpu_allowance()))])
        buttons = widgets.HBox([self._run_button, self._cancel_button])
        state = widgets.VBox([buttons, self._progress, self._status])
        settings = widgets.Box([workers, *others, state]).add_class("loaderviz-settings")
        return widgets.Box([settings, self._view]).add_class("loaderviz-columns")


def _seconds(trace: Trace) -> str:
    return f"{trace.summary().elapsed_s:.2f} s"


def _hint(failure: Failure) -> str:
    """The way out, where torch's message has none."""
    if "exited unexpectedly" not in failure.last_line:
        return ""
    return (
        "<p>A worker could not start, or was killed. A class or function of a notebook cell cannot "
        "be sent to workers that spawn or forkserver starts: put it into a module.</p>"
    )


def _sliders(own: DataLoader[Any] | None) -> dict[str, Any]:
    begin = Settings() if own is None else settings_of(own)
    batch_size, workers = begin.batch_size, begin.num_workers
    prefetch = begin.prefetch_factor
    sliders = {
        "num_workers": _slider("workers", workers, 0, max(MOST_WORKERS, workers)),
        "batch_size": _slider("batch size", batch_size, 1, max(32, 2 * batch_size)),
        "prefetch_factor": _slider("prefetch factor", prefetch, 1, max(8, prefetch)),
        "sample_s": _slider("s per sample", begin.sample_s, 0.0, 0.2, step=0.005),
        "step_s": _slider("s per model step", begin.step_s, 0.0, 0.5, step=0.01),
    }
    if own is not None:
        sliders["sample_s"].layout.display = "none"  # the reader's own dataset takes what it takes
        sliders["batch_size"].disabled = not has_batch_size(own)
    return sliders


def _slider(label: str, value: float, least: float, most: float, **options: Any) -> Any:
    kind = widgets.IntSlider
    if isinstance(value, float):
        kind = widgets.FloatSlider
        options["readout_format"] = ".3f"
    return kind(
        value=value,
        min=least,
        max=most,
        description=label,
        style={"description_width": "112px"},
        layout=widgets.Layout(width="380px"),
        **options,
    )


def _mark(allowed: float) -> str:
    """A mark under the workers' slider: where the CPUs that this process may use end."""
    share = min(allowed / MOST_WORKERS, 1.0)
    cpus = f"{allowed:g} CPU{'s' * (allowed != 1)}"
    return (
        f"<div class='loaderviz-allowance'><span style='left: {share:.1%}' title='The CPUs that "
        f"this process may use: workers that compute gain little beyond.'>▲ {cpus}</span></div>"
    )


_CSS = """
.loaderviz-columns { flex-flow: row wrap; align-items: flex-start; }
.loaderviz-settings { flex: 1 1 390px; flex-flow: row wrap; column-gap: 24px; }
.loaderviz-settings > * { flex: 0 0 380px; }
.loaderviz-figure { flex: 40 1 600px; min-width: 0; overflow: hidden; }
.loaderviz-figure > * { width: 100%; }
.loaderviz-stale { opacity: 0.35; transition: opacity 150ms; }
.loaderviz-allowance { position: relative; height: 16px; margin: -8px 66px 2px 130px; }
.loaderviz-allowance span { position: absolute; transform: translateX(-5px); font-size: 11px;
  line-height: 14px; white-space: nowrap; color: var(--jp-ui-font-color2, #59636e); }
.loaderviz-explore .loaderviz-error { border-left: 3px solid #d55e00; padding-left: 8px;
  line-height: 1.4; overflow-x: auto; }
.loaderviz-explore .loaderviz-error code { white-space: pre-wrap; color: inherit; }
"""
