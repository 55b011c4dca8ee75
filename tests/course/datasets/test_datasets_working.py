"""Samples that compute: what they hold, and what they cost."""

import time

import pytest

from loaderviz import LoaderVizError
from loaderviz.course.datasets import PythonDataset


def test_a_python_sample_is_its_index_and_costs_its_cpu_time():
    dataset = PythonDataset(3, sample_s=0.005)
    begin = time.thread_time()
    sample = dataset[2]
    assert time.thread_time() - begin >= 0.005
    assert sample.tolist() == [2] * 100
    assert len(list(dataset)) == len(dataset) == 3
    with pytest.raises(IndexError):
        dataset[3]


@pytest.mark.parametrize(("n", "sample_s"), [(-1, 0.1), (3, -0.1), (3, float("inf"))])
def test_a_python_dataset_takes_sensible_numbers_alone(n, sample_s):
    with pytest.raises(LoaderVizError):
        PythonDataset(n, sample_s)
