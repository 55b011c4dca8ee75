"""An exercise of notebook 12: a dataset that sends little to its workers."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from loaderviz.course.datasets import WordArray
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.text import size

N_WORDS, MOST_BYTES = 100_000, 2_000

hint = Hints(
    "what is sent is pickle.dumps(dataset), and that holds vars(dataset): the path, and the words.",
    "`__getstate__` returns what is sent in their place: a dict with the path alone will do.",
    "`__setstate__` gets this dict in the worker, on an empty object: call `__init__` with it.",
)


@explains_errors
def sends_little(dataset_class: type) -> Check:
    """Whether a dataset of a file's words is sent in few bytes, and reads the words where it came.

    ``dataset_class(path)`` opens an array of words that was saved with ``np.save``.
    """
    words = WordArray(N_WORDS).words
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "words.npy")
        np.save(path, words)
        dataset = dataset_class(path)
        sent = pickle.dumps(dataset)
        if len(sent) > MOST_BYTES:
            return Check(False, f"Not yet: {size(len(sent))} are sent to each worker.")
        there = pickle.loads(sent)
        wrong = [i for i in (0, N_WORDS // 2, N_WORDS - 1) if there[i] != words[i]]
        if wrong or len(there) != N_WORDS:
            return Check(False, "Not yet: little is sent, but the worker reads other words.")
    return Check(True, f"{len(sent)} bytes are sent to each worker, and it reads the same words.")
