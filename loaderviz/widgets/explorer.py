"""``explore``: controls for a loader's settings, and the timeline of what they lead to."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as widgets
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.machine import cpu_allowance
from loaderviz.text import change, count
from loaderviz.trace import Trace
from loaderviz.web import style
from loaderviz.widgets.code_line import CodeLine
from loaderviz.widgets.explorer_controls import MAIN, Panel
from loaderviz.widgets.explorer_settings import ExplorerSettings
from loaderviz.widgets.figure_view import FigureView, scripts
from loaderviz.widgets.html_without_kernel import Still, needs_lab, still
from loaderviz.widgets.numbers_table import Numbers, table
from loaderviz.widgets.play import Scene
from loaderviz.widgets.prediction import Known, Start, known_of, predict, start_of
from loaderviz.widgets.real_runs import Measuring, Progress
from loaderviz.widgets.run_process import Failure

FIRST_RUN_S = 30.0  # the picture is there before anyone touches a control, unless it takes longer


def explore(loader: DataLoader[Any] | None = None) -> Explorer:
    """Controls for the settings of a loader: the simulated timeline follows the thumb.

    *Run for real* runs a real loader with the same settings, and shows its timeline under the
    predicted one, with the error of the prediction. *Pin* keeps the numbers to compare others with.

    Args:
        loader: the ``DataLoader`` to vary. A short recording of it, in a process of its own, comes
            first, and the simulation is fitted to that; the loader itself is not touched. Without
            one, a dataset that waits and computes as the controls say shows how the settings play
            together.

    Raises:
        LoaderVizError: for what is no ``DataLoader``.
    """
    if loader is not None and not isinstance(loader, DataLoader):
        raise LoaderVizError(
            f"explore() takes a torch DataLoader, or nothing, but got {type(loader).__name__} "
            f"{loader!r:.60}"
        )
    return Explorer(loader)


class Explorer(Still):
    """The controls, what a simulation says of them, and the real runs that are asked for."""

    def __init__(self, loader: DataLoader[Any] | None = None) -> None:
        self._own = loader
        self._known: Known | None = None  # of the reader's own loader, once it was recorded
        self._start: Start | None = None  # of workers, here, once it was measured
        self._predicted: Trace | None = None
        self._measured: Trace | None = None  # by the latest run
        self._measured_for: ExplorerSettings | None = None
        self._numbers: dict[str, Numbers | None] = {}
        self._pinned: Numbers | None = None
        self._error: LoaderVizError | None = None
        self._panel = Panel(loader, self.preview)
        self._measuring = Measuring(loader, self._on_progress)
        self._run_button = _button("Run for real", "play", self.start)
        self._cancel_button = _button("Cancel", "stop", self.cancel, disabled=True)
        self._pin_button = _button("Pin", "thumb-tack", self.pin)
        self._progress = widgets.IntProgress(layout=widgets.Layout(width="auto", height="10px"))
        self._status = widgets.HTML()
        self._view, self._measured_view = FigureView(), FigureView()
        self._table = widgets.HTML()
        self._code = CodeLine()
        self._scene = Scene()
        self._playing = widgets.Accordion([self._scene], titles=("Play: watch the queues",))
        self._playing.selected_index = None
        self._playing.observe(lambda _: self._show_scene(), names="selected_index")
        super().__init__(self._page())
        self.add_class("loaderviz-explore")
        self._code.text = self.settings.code(loader)
        if loader is None:
            self.preview()
        else:
            self.start(wait_s=FIRST_RUN_S)

    # What the reader does.

    @property
    def settings(self) -> ExplorerSettings:
        """Where the controls stand."""
        return self._panel.settings

    def set(self, **settings: Any) -> None:
        """Move controls, as by hand: ``set(num_workers=4)``.

        Raises:
            LoaderVizError: for a name that no control has, or a value out of its range.
        """
        self._panel.set(**settings)

    def preview(self) -> None:
        """Draw what a simulation says of the present settings."""
        settings = self.settings
        self._code.text = settings.code(self._own)
        if settings != self._measured_for:
            self._measured_view.stale = True
            self._numbers.pop("measured", None)
        if self._own is not None and self._known is None:
            return  # nothing is known yet that a prediction could start from
        try:
            self._predicted = predict(settings, self._known, self._start)
            self._draw()
        except Exception as error:  # shown in place: nobody sees what a callback raises
            self._tell(html.escape(f"{type(error).__name__}: {error}"), failed=True)

    def start(self, *, wait_s: float = 0.0) -> None:
        """Run the real loader with the present settings, in the background."""
        self._error = self._measured = None
        self._measuring.start(self.settings, wait_s=wait_s)

    def measure(self, **settings: Any) -> Trace:
        """Move controls, run the real loader, wait for it: for cells that go on from there.

        Returns:
            The recorded trace, as ``result`` does; raises what that raises.
        """
        self.set(**settings)
        self.start(wait_s=float("inf"))
        return self.result()

    def cancel(self) -> None:
        """End the run that goes on; what it recorded until then stays in the picture."""
        self._measuring.cancel()

    def pin(self) -> None:
        """Keep the present numbers, the measured ones if there are any, to compare with."""
        if self._pinned is None:
            self._pinned = self._numbers.get("measured") or self._numbers.get("predicted")
        else:
            self._pinned = None
        self._pin_button.description = "Unpin" if self._pinned else "Pin"
        self._show_numbers()

    def result(self) -> Trace:
        """The trace of the latest real run.

        Raises:
            LoaderVizError: where it failed, with the last line of the traceback, or has not
                recorded anything yet.
        """
        if self._error is not None:
            raise self._error
        if self._measured is None:
            raise LoaderVizError("nothing is measured yet: press Run for real, or call measure()")
        return self._measured

    @property
    def predicted(self) -> Trace:
        """The trace of the simulation that is shown.

        Raises:
            LoaderVizError: before the reader's own loader was recorded.
        """
        if self._predicted is None:
            raise LoaderVizError("nothing is predicted yet: the loader has not been recorded")
        return self._predicted

    # What is shown.

    def _draw(self) -> None:
        """Both timelines on one time axis, and the numbers."""
        predicted, measured = self._predicted, self._measured
        current = measured if self._measured_for == self.settings else None
        ends = [_end_s(trace) for trace in (predicted, current) if trace is not None]
        seconds = max(ends) if len(ends) > 1 else None
        if predicted is not None:
            self._view.show(timeline(predicted, seconds=seconds))
            self._numbers["predicted"] = Numbers.of(predicted, twice=self._twice(predicted))
            self._show_scene()
        if current is not None:
            self._measured_view.show(timeline(current, seconds=seconds))
        self._show_numbers()

    def _show_scene(self) -> None:
        """Only where it is seen: it takes longer to send than all else."""
        if self._playing.selected_index == 0 and self._predicted is not None:
            self._scene.show(self._predicted)
        else:
            self._scene.clear()

    def _show_numbers(self) -> None:
        rows = {name: self._numbers.get(name) for name in ("predicted", "measured")}
        self._table.value = table({**rows, "pinned": self._pinned})

    def _on_progress(self, progress: Progress) -> None:
        try:
            self._follow(progress)
        except Exception as error:  # shown in place: it would be lost in the event loop
            text = f"{type(error).__name__}: {error}"
            self._fail(Failure(text, text))

    def _follow(self, progress: Progress) -> None:
        settings, trace, delivered = progress.settings, progress.trace, progress.delivered
        self._cancel_button.disabled = progress.state != "running"
        if trace is not None:
            self._measured, self._measured_for = trace, settings
            self._measured_view.stale = settings != self.settings  # moved while it goes on
        self._progress.max = max(1, self._n_expected(settings))
        self._progress.value = delivered
        self._progress.bar_style = {"done": "success", "failed": "danger"}.get(progress.state, "")
        so_far = f"{delivered} of {self._progress.max} batches"
        if progress.state == "running":
            self._tell(f"Running: {so_far}" if delivered else "Starting the workers ...")
        elif progress.state == "cancelled":
            self._tell(f"Cancelled after {so_far}")
        elif progress.state == "failed":
            self._fail(progress.failure or Failure("the run failed", ""))
        elif trace is not None:
            self._finish(settings, trace, progress.repeated)
        if trace is not None and settings != self.settings:
            self._measured_view.show(timeline(trace))
        elif trace is not None and progress.state != "done":
            self._draw()

    def _finish(self, settings: ExplorerSettings, trace: Trace, repeated: int | None) -> None:
        n_batches = trace.summary().n_batches
        self._progress.max = self._progress.value = n_batches  # a small dataset has fewer
        if self._own is None:
            self._start = start_of(trace) or self._start
        else:
            self._known = known_of(trace, self._own)
            if self._predicted is None and settings == self.settings:
                self._predicted = predict(settings, self._known)
        twice = self._twice(trace) if repeated is None else repeated
        self._numbers["measured"] = Numbers.of(trace, twice=twice)
        if settings != self.settings:
            del self._numbers["measured"]
        self._tell(f"Done: {n_batches} batches{self._compared(settings, trace)}")
        self._draw()

    def _compared(self, settings: ExplorerSettings, trace: Trace) -> str:
        """How far off the prediction was, and what it was not measured with."""
        words = ""
        if self._predicted is not None and settings == self.settings:
            predicted, measured = self._predicted.summary(), trace.summary()
            if predicted.n_batches == measured.n_batches:
                error = predicted.elapsed_s / measured.elapsed_s - 1
                words = f". The prediction is off by {change(error)}"
        if settings.cores is not None and settings.cores > round(cpu_allowance()):
            words += f". This machine has {count(cpu_allowance(), 'CPU')} only"
        if settings.loader.pin_memory and not any(each["pinned"] for each in trace.meta["loaders"]):
            words += ". Without a GPU torch pins nothing"
        return words

    def _fail(self, failure: Failure) -> None:
        self._error = LoaderVizError(failure.last_line)
        self._tell(
            f"<code>{html.escape(failure.last_line)}</code>{_hint(failure)}<details><summary>"
            f"traceback</summary><pre>{html.escape(failure.traceback)}</pre></details>",
            failed=True,
        )

    def _tell(self, status: str, *, failed: bool = False) -> None:
        look = "loaderviz-error" if failed else "loaderviz-status"
        self._status.value = f"<div class='{look}'>{status}</div>"

    def _n_expected(self, settings: ExplorerSettings) -> int:
        """How many batches a run will deliver, as far as anyone knows."""
        if self._predicted is not None and settings == self.settings:
            return self._predicted.summary().n_batches
        return settings.n_batches * settings.epochs

    def _twice(self, trace: Trace) -> int | None:
        """Samples that came more than once in an epoch: by their keys, or by their number."""
        if self.settings.kind == "map":
            keys = trace.samples[["epoch", "key"]].astype(str)
            return int(keys.duplicated().sum())
        if self._own is not None:
            return None
        each = trace.summary().n_samples - self.settings.n_samples * self.settings.epochs
        return max(0, each)

    def _still(self) -> str:
        parts = map(still, (self._view, self._measured_view, self._table))
        code = f"<p><code>{html.escape(self._code.text)}</code></p>"
        main = [self._panel.controls[name] for name in MAIN]
        sheet = f"<style>{style('explorer')}</style>"
        return "".join([needs_lab(main), *parts, code, sheet])

    def _page(self) -> list[widgets.Widget]:
        """Beside each other where there is room, else the settings on top."""
        buttons = widgets.HBox([self._run_button, self._cancel_button, self._pin_button])
        side = widgets.Box([self._panel, buttons, self._progress, self._status])
        main = [self._view, self._measured_view, self._table, self._code]
        columns = [
            side.add_class("loaderviz-side"),
            widgets.VBox([*main, self._playing]).add_class("loaderviz-main"),
        ]
        page = widgets.Box(columns).add_class("loaderviz-columns")
        sheet = f"<style>{style('explorer')}</style>"
        return [page, widgets.HTML(sheet, layout=widgets.Layout(display="none")), scripts()]


def _button(label: str, icon: str, act: Any, **options: Any) -> widgets.Button:
    button = widgets.Button(description=label, icon=icon, layout={"width": "122px"}, **options)
    button.on_click(lambda _: act())
    return button


def _end_s(trace: Trace) -> float:
    return float(trace.batches[["ready_s", "delivered_s", "released_s"]].max().max())


def _hint(failure: Failure) -> str:
    """The way out, where torch's message has none."""
    if "exited unexpectedly" not in failure.last_line:
        return ""
    return (
        "<p>A worker could not start, or was killed. A class or function of a notebook cell cannot "
        "be sent to workers that spawn or forkserver starts: put it into a module.</p>"
    )
