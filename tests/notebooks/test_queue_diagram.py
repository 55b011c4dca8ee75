"""The diagram of the queues is what its script draws, and calls things what the notebook does."""

import re
import runpy
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "notebooks" / "images"


def test_the_committed_diagram_is_the_one_that_the_script_draws():
    drawn = runpy.run_path(str(IMAGES / "queue_diagram.py"))["svg"]()
    assert (IMAGES / "queues.svg").read_text() == drawn


def test_it_names_the_places_in_the_glossarys_words():
    words = re.findall(">([^<>]+)</text>", (IMAGES / "queues.svg").read_text())
    for place in ("sampler", "index queues", "workers", "result queue", "buffer", "consumer"):
        assert place in words
