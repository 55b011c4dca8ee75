"""``explore``: controls for a loader's settings, and the timeline that they lead to."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import ipywidgets as widgets
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.machine import cpu_allowance
from loaderviz.text import count, duration, percent
from loaderviz.trace import Trace
from loaderviz.web import style
from loaderviz.widgets.explorer_controls import MAIN_CONTROLS, ControlPanel
from loaderviz.widgets.explorer_picture import begin_of, end_of, picture, steady_span
from loaderviz.widgets.explorer_settings import ExplorerSettings
from loaderviz.widgets.figure_view import CodeLine, FigureView, figure_scripts
from loaderviz.widgets.html_without_kernel import StaticFallback, control_values_html, static_html
from loaderviz.widgets.play import Scene
from loaderviz.widgets.prediction import (
    MeasuredLoader,
    StartCosts,
    cpus_are_full,
    measured_loader,
    measured_start_costs,
    predict,
)
from loaderviz.widgets.real_runs import Failure, Progress, RealRuns
from loaderviz.widgets.run_numbers import RunNumbers, cause_bar, numbers_table

FIRST_RUN_S = 30.0  # how long explore(loader) waits for its first run, to open with a picture


def explore(loader: DataLoader[Any] | None = None) -> Explorer:
    """Show controls for the settings of a loader; the simulated timeline follows as they move.

    *Run for real* runs a real loader with the same settings, and shows its timeline under the
    predicted one, and says which took longer. *Pin* keeps the present run, to compare others with:
    its numbers, and its steps in grey. The time axis stays while controls move, as long as the runs
    fit it.

    Args:
        loader: the ``DataLoader`` to vary. First a short run of it is recorded, in a process of its
            own, and the simulation is fitted to that; the loader itself is not touched. Without
            one, a teaching dataset that waits and computes as the controls say shows how the
            settings work together.

    Raises:
        LoaderVizError: if ``loader`` is not a ``DataLoader``.
    """
    if loader is not None and not isinstance(loader, DataLoader):
        raise LoaderVizError(
            f"explore() takes a torch DataLoader, or nothing, but got {type(loader).__name__} "
            f"{loader!r:.60}"
        )
    return Explorer(loader)


class Explorer(StaticFallback):
    """The controls, the simulation of their settings, and the real runs that are asked for."""

    def __init__(self, loader: DataLoader[Any] | None = None) -> None:
        self._user_loader = loader
        self._measured_loader: MeasuredLoader | None = None  # the user's, once it was recorded
        self._start_costs: StartCosts | None = None  # of workers here, once measured
        self._predicted: Trace | None = None
        self._measured: Trace | None = None  # recorded by the latest run
        self._measured_for: ExplorerSettings | None = None
        self._numbers: dict[str, RunNumbers | None] = {}
        self._pinned: RunNumbers | None = None
        self._pinned_trace: Trace | None = None  # drawn as a ghost
        self._span_s = 0.0  # of the time axis
        self._error: LoaderVizError | None = None
        self._panel = ControlPanel(loader, self.preview)
        self._real_runs = RealRuns(loader, self._on_progress)
        self._run_button = _button("Run for real", "play", self.start)
        self._cancel_button = _button("Cancel", "stop", self.cancel, disabled=True)
        self._pin_button = _button("Pin", "thumb-tack", self.pin)
        self._progress = widgets.IntProgress(layout=widgets.Layout(width="auto", height="10px"))
        self._status = widgets.HTML()
        self._view, self._measured_view = FigureView(), FigureView()
        self._causes = widgets.HTML()
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

    # What the user does.

    @property
    def settings(self) -> ExplorerSettings:
        """The settings that the controls stand for."""
        return self._panel.settings

    def set(self, **settings: Any) -> None:
        """Move controls to these values, as by hand: ``set(num_workers=4)``.

        Raises:
            KeyError: for a name that no control has.
            traitlets.TraitError: for a value of the wrong type, or that is not among the choices; a
                number out of range becomes the nearest one in it.
        """
        self._panel.set(**settings)

    def preview(self) -> None:
        """Simulate the present settings and draw the timeline that they lead to."""
        settings = self.settings
        self._code.text = settings.code(self._user_loader)
        self._measured_view.stale = settings != self._measured_for
        if self._measured_view.stale and self._cancel_button.disabled:
            self._status.value = ""  # it is of a run with other settings
        if self._user_loader is not None and self._measured_loader is None:
            return  # nothing has been measured yet to predict from
        try:
            self._predicted = predict(settings, self._measured_loader, self._start_costs)
            self._draw()
        except Exception as error:  # shown in place: nobody sees what a callback raises
            self._show_status(html.escape(f"{type(error).__name__}: {error}"), failed=True)

    def start(self, *, wait_s: float = 0.0) -> None:
        """Run the real loader with the present settings, in the background.

        Args:
            wait_s: how many seconds to wait for the run to end before this returns.
        """
        self._error = self._measured = None
        self._numbers.pop("measured", None)  # of the run before
        self._show_numbers()
        self._real_runs.start(self.settings, wait_s=wait_s)

    def measure(self, **settings: Any) -> Trace:
        """Move controls, run the real loader with these settings, and wait until it has ended.

        Returns:
            The recorded trace, as ``result`` does.

        Raises:
            LoaderVizError: as ``result`` does.
        """
        self.set(**settings)
        self.start(wait_s=float("inf"))
        return self.result()

    def cancel(self) -> None:
        """End the run that goes on, if one does; what it recorded until then stays shown."""
        self._real_runs.cancel()

    def pin(self) -> None:
        """Keep the present run to compare with, the measured one if there is one; or unpin."""
        if self._pinned is None:
            measured = self._measured_numbers
            self._pinned = measured or self._numbers.get("predicted")
            self._pinned_trace = self._measured if measured else self._predicted
        else:
            self._pinned = self._pinned_trace = None
        self._pin_button.description = "Unpin" if self._pinned else "Pin"
        self._draw()

    def result(self) -> Trace:
        """The trace of the latest real run.

        Raises:
            LoaderVizError: if it failed, with the last line of its traceback, or if nothing has
                been recorded yet.
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
            LoaderVizError: before the user's own loader has been recorded.
        """
        if self._predicted is None:
            raise LoaderVizError("nothing is predicted yet: the loader has not been recorded")
        return self._predicted

    # What the page shows.

    def _draw(self) -> None:
        """Show both timelines on one time axis, the simulated causes and the numbers."""
        predicted = self._predicted
        measured = self._measured if self._measured_for == self.settings else None
        self._fit_axis(predicted, measured)
        if predicted is not None:
            summary = predicted.summary()
            self._view.show(picture(predicted, summary, self._span_s, self._pinned_trace))
            self._causes.value = cause_bar(summary, cpus_full=cpus_are_full(predicted))
            n_repeated = self._n_repeated(predicted, self.settings)
            self._numbers["predicted"] = RunNumbers.of(predicted, summary, n_repeated=n_repeated)
            self._show_scene()
        if measured is not None:
            self._show_measured(measured)
        self._show_numbers()

    def _show_measured(self, trace: Trace) -> None:
        """Draw a real run; of one that goes on, no verdict."""
        drawing = picture(trace, trace.summary(), self._span_s)
        if not self._cancel_button.disabled:
            drawing.layout["title"]["text"] = "<b>Running ...</b>"
        self._measured_view.show(drawing)

    def _fit_axis(self, *traces: Trace | None) -> None:
        """Give room to these runs and to the pinned one.

        The first axis has room for a run without workers, too, and none becomes too short for it.
        """
        runs = [trace for trace in (*traces, self._pinned_trace) if trace is not None]
        longest_s = max((end_of(run) - begin_of(run) for run in runs), default=0.0)
        shrinks = steady_span(self._span_s, longest_s) < self._span_s
        if (shrinks or not self._span_s) and self._predicted is not None:
            settings = replace(self.settings, loader=LoaderSettings(0))
            alone = predict(settings, self._measured_loader, self._start_costs)
            longest_s = max(longest_s, end_of(alone) - begin_of(alone))
        self._span_s = steady_span(self._span_s, longest_s)

    def _show_scene(self) -> None:
        """Show the queues only while they are seen, because they take longest to send."""
        if self._playing.selected_index == 0 and self._predicted is not None:
            self._scene.show(self._predicted)
        else:
            self._scene.clear()

    def _show_numbers(self) -> None:
        rows = {"predicted": self._numbers.get("predicted"), "measured": self._measured_numbers}
        self._table.value = numbers_table({**rows, "pinned": self._pinned})

    @property
    def _measured_numbers(self) -> RunNumbers | None:
        """Of the last real run, where it had the present settings."""
        return None if self._measured_view.stale else self._numbers.get("measured")

    def _on_progress(self, progress: Progress) -> None:
        try:
            self._show_progress(progress)
        except Exception as error:  # shown in place: it would be lost in the event loop
            text = f"{type(error).__name__}: {error}"
            self._show_failure(Failure(text, text))

    def _show_progress(self, progress: Progress) -> None:
        settings, trace, delivered = progress.settings, progress.trace, progress.delivered
        self._cancel_button.disabled = progress.state != "running"
        if trace is not None:
            self._measured, self._measured_for = trace, settings
            self._measured_view.stale = settings != self.settings  # controls were moved meanwhile
        self._progress.max = max(1, self._n_expected_batches(settings))
        self._progress.value = delivered
        self._progress.bar_style = {"done": "success", "failed": "danger"}.get(progress.state, "")
        so_far = f"{delivered} of {self._progress.max} batches"
        if progress.state == "running":
            self._show_status(f"Running: {so_far}" if delivered else "Starting the workers ...")
        elif progress.state == "cancelled":
            self._show_status(f"Cancelled after {so_far}")
        elif progress.state == "failed":
            self._show_failure(progress.failure or Failure("the run failed", ""))
        elif trace is not None:
            self._finish(settings, trace)
        if trace is not None and settings != self.settings:
            self._fit_axis(trace)
            self._show_measured(trace)
        elif trace is not None and progress.state != "done":
            self._draw()

    def _finish(self, settings: ExplorerSettings, trace: Trace) -> None:
        n_batches = trace.summary().n_batches
        # A small dataset has fewer batches than were expected.
        self._progress.max = self._progress.value = n_batches
        if self._user_loader is None:
            self._start_costs = measured_start_costs(trace) or self._start_costs
        else:
            self._measured_loader = measured_loader(trace, self._user_loader)
            if self._predicted is None and settings == self.settings:
                self._predicted = predict(settings, self._measured_loader)
        n_repeated = self._n_repeated(trace, settings)
        self._numbers["measured"] = RunNumbers.of(trace, trace.summary(), n_repeated=n_repeated)
        if settings != self.settings:
            del self._numbers["measured"]
        self._show_status(f"Done: {n_batches} batches{self._comparison(settings, trace)}")
        self._draw()

    def _comparison(self, settings: ExplorerSettings, trace: Trace) -> str:
        """Which took longer, run or prediction, and what this machine could not follow."""
        sentences = ""
        if self._predicted is not None and settings == self.settings:
            predicted, measured = self._predicted.summary(), trace.summary()
            if predicted.n_batches == measured.n_batches:
                took, said = measured.elapsed_s, predicted.elapsed_s
                off = took / said - 1
                longer = "longer" if off > 0 else "shorter"
                sentences = f" in {duration(took)}, {percent(abs(off))} {longer} than predicted"
        if settings.cores is not None and settings.cores > round(cpu_allowance()):
            sentences += f". This machine has only {count(cpu_allowance(), 'CPU')}"
        if settings.loader.pin_memory and not any(
            loader["pinned"] for loader in trace.meta["loaders"]
        ):
            sentences += ". Without a GPU torch pins nothing"
        return sentences

    def _show_failure(self, failure: Failure) -> None:
        self._error = LoaderVizError(failure.last_line)
        self._show_status(
            f"<code>{html.escape(failure.last_line)}</code>{_hint(failure)}<details><summary>"
            f"traceback</summary><pre>{html.escape(failure.traceback)}</pre></details>",
            failed=True,
        )

    def _show_status(self, status: str, *, failed: bool = False) -> None:
        css_class = "loaderviz-error" if failed else "loaderviz-status"
        self._status.value = f"<div class='{css_class}'>{status}</div>"

    def _n_expected_batches(self, settings: ExplorerSettings) -> int:
        """How many batches a run will deliver, as predicted or else as asked for."""
        if self._predicted is not None and settings == self.settings:
            return self._predicted.summary().n_batches
        return settings.n_batches * settings.epochs

    def _n_repeated(self, trace: Trace, settings: ExplorerSettings) -> int | None:
        """Samples that came more than once in an epoch; None if that cannot be known.

        They are counted by their keys, or by how many more came than the teaching dataset holds.
        """
        if settings.kind == "map":
            keys = trace.samples[["epoch", "key"]].astype(str)
            return int(keys.duplicated().sum())
        if self._user_loader is not None:
            return None
        n_surplus = trace.summary().n_samples - settings.n_samples * settings.epochs
        return max(0, n_surplus)

    def _static_html(self) -> str:
        parts = map(static_html, (self._table, self._view, self._causes, self._measured_view))
        code = f"<p><code>{html.escape(self._code.text)}</code></p>"
        main_controls = [self._panel.controls[name] for name in MAIN_CONTROLS]
        sheet = f"<style>{style('explorer')}</style>"
        return "".join([control_values_html(main_controls), *parts, code, sheet])

    def _page_html(self, most_bytes: int) -> str:
        frames = self._panel.page_html(self._frame, most_bytes)
        return f"<div class='loaderviz-explore'><style>{style('explorer')}</style>{frames}</div>"

    def _frame(self, **values: Any) -> list[Any]:
        """What the page shows for these values, on the axis that a run without workers needs."""
        self._span_s = 0.0
        self.set(**values)
        code = f"<p><code>{html.escape(self._code.text)}</code></p>"
        figure = self._view.plotly_figure
        view = [] if figure is None else [figure]
        return [self._table.value, *view, self._causes.value, code]

    def _page(self) -> list[widgets.Widget]:
        """The settings beside the pictures where there is room, else above them."""
        buttons = widgets.HBox([self._run_button, self._cancel_button, self._pin_button])
        *controls, more = self._panel.children
        self._panel.children = [*controls, buttons, more]
        side = widgets.Box([self._panel, self._progress, self._status])
        main = [self._table, self._view, self._causes, self._measured_view, self._code]
        columns = [
            side.add_class("loaderviz-side"),
            widgets.VBox([*main, self._playing]).add_class("loaderviz-main"),
        ]
        page = widgets.Box(columns).add_class("loaderviz-columns")
        sheet = f"<style>{style('explorer')}</style>"
        return [page, widgets.HTML(sheet, layout=widgets.Layout(display="none")), figure_scripts()]


def _button(label: str, icon: str, on_click: Any, **options: Any) -> widgets.Button:
    button = widgets.Button(description=label, icon=icon, layout={"width": "122px"}, **options)
    button.on_click(lambda _: on_click())
    return button


def _hint(failure: Failure) -> str:
    """What to do, where torch's message does not say."""
    if "exited unexpectedly" not in failure.last_line:
        return ""
    return (
        "<p>A worker could not start, or was killed. A class or function of a notebook cell cannot "
        "be sent to workers that spawn or forkserver starts: put it into a module.</p>"
    )
