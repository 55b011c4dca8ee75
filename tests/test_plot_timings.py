"""``plot_timings``: one line from a loader to its timeline."""

import itertools

import pytest
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, plot_timings
from loaderviz.course.datasets import SleepingDataset, SleepingStream


def step_numbers(figure):
    (steps,) = [trace for trace in figure.data if trace.name == "step"]
    return list(steps.text)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_it_takes_so_many_batches_and_no_more(num_workers):
    loader = DataLoader(SleepingDataset(40, 0.001), batch_size=4, num_workers=num_workers)
    figure = plot_timings(loader, model_time=0.001, n_batches=4)
    assert step_numbers(figure) == ["0", "1", "2", "3"]
    for everything in (itertools.repeat(1, 3), DataLoader(SleepingStream(10, 0), batch_size=4)):
        assert step_numbers(plot_timings(everything)) == ["0", "1", "2"]


def test_the_figure_keeps_what_was_recorded():
    figure = plot_timings(DataLoader(SleepingDataset(8, 0), batch_size=4))
    assert list(figure.trace.samples["key"]) == list(range(8))


def test_the_axis_spans_at_least_the_seconds_that_are_asked_for_under_the_title_that_is_given():
    loader = DataLoader(SleepingDataset(8, 0), batch_size=4)
    figure = plot_timings(loader, seconds=100, title="Eight samples")
    assert list(figure.layout.xaxis.range) == pytest.approx([-1.2, 101.2])
    assert figure.layout.title.text == "<b>Eight samples</b>"


def test_an_iterable_that_uses_loaders_inside_is_recorded_loader_by_loader():
    class TwoStreams:
        def __init__(self):
            self.loaders = [DataLoader(SleepingDataset(4, 0), batch_size=2) for _ in range(2)]

        def __iter__(self):
            return zip(*self.loaders, strict=True)

    figure = plot_timings(TwoStreams())
    labels = list(figure.layout.yaxis.ticktext)
    assert labels == ["consumer", "loader 0 · main process", "loader 1 · main process"]
    assert sorted(step_numbers(figure)) == ["0", "0", "1", "1"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model_time": -1}, "model_time=-1"),
        ({"model_time": float("nan")}, "model_time=nan"),
        ({"model_time": "fast"}, "model_time='fast'"),
        ({"n_batches": 0}, "n_batches=0"),
        ({"n_batches": 2.5}, "n_batches=2.5"),
        ({"seconds": 0}, "seconds=0"),
    ],
)
def test_an_impossible_option_is_named(options, named):
    loader = DataLoader(SleepingDataset(4, 0))
    with pytest.raises(LoaderVizError, match=named):
        plot_timings(loader, **options)


@pytest.mark.parametrize(
    ("given", "named"), [(DataLoader([]), "no batch"), (iter([]), "no batch"), (42, "int 42")]
)
def test_what_is_no_loader_or_delivers_nothing_is_an_error(given, named):
    with pytest.raises(LoaderVizError, match=named):
        plot_timings(given)


def test_an_error_of_the_dataset_comes_through_unchanged():
    loader = DataLoader(SleepingDataset(8, 0, fail_at=3), batch_size=2)
    with pytest.raises(ValueError, match="sample 3 is broken on purpose"):
        plot_timings(loader)
