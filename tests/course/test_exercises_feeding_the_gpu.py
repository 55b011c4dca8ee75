"""The exercises of notebook 08: unsolved, solved, and with answers that only look right."""

import pytest

from loaderviz.course import feeding_the_gpu
from loaderviz.course.pinning import Part


def pins_and_forgets(batch):
    batch.images.pin_memory()
    batch.labels.pin_memory()
    return batch


def pins_the_images_only(batch):
    batch.images = batch.images.pin_memory()
    return batch


def pins_and_returns_nothing(batch):
    batch.images = batch.images.pin_memory()
    batch.labels = batch.labels.pin_memory()


def pins_the_wrong_way_round(batch):
    batch.images, batch.labels = batch.labels.pin_memory(), batch.images.pin_memory()
    return batch


def pins_what_is_not_there(batch):
    return batch.pixels.pin_memory()


def pins_all(batch):
    batch.images = batch.images.pin_memory()
    batch.labels = batch.labels.pin_memory()
    return batch


def pins_a_new_one(batch):
    return type(batch)(batch.images.pin_memory(), batch.labels.pin_memory())


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (pins_and_forgets, False, "batch.images is not pinned"),
        (pins_the_images_only, False, "batch.labels is not pinned"),
        (pins_and_returns_nothing, False, "NoneType instead of the batch"),
        (pins_the_wrong_way_round, False, "batch.images is not what it was"),
        (pins_what_is_not_there, False, "raised AttributeError"),
        (pins_all, True, "each fully pinned"),
        (pins_a_new_one, True, "each fully pinned"),
    ],
)
def test_pins(answer, passed, says):
    check = feeding_the_gpu.pins(answer)
    assert check.passed is passed
    assert says in check.message
    if passed:
        assert "pin thread" in check.figure.layout.yaxis.ticktext


def test_a_part_is_as_a_tensor_is():
    part = Part([1])
    pinned = part.pin_memory()
    assert (part.is_pinned(), pinned.is_pinned(), pinned.values) == (False, True, [1])


def one_by_one(loader, copy):
    for batch in loader:
        yield copy(batch).result()


def loses_the_last(loader, copy):
    before = None
    for batch in loader:
        begun = copy(batch)
        if before is not None:
            yield before.result()
        before = begun


def begins_after_the_step(loader, copy):
    before = None
    for batch in loader:
        if before is not None:
            yield before.result()
        before = copy(batch)
    if before is not None:
        yield before.result()


def copies_all_at_once(loader, copy):
    for begun in [copy(batch) for batch in loader]:
        yield begun.result()


def yields_the_future(loader, copy):
    for batch in loader:
        yield copy(batch)


def fails_without_batches(loader, copy):
    before = None
    for batch in loader:
        begun = copy(batch)
        if before is not None:
            yield before.result()
        before = begun
    yield before and before.result()


def ahead(loader, copy):
    before = None
    for batch in loader:
        begun = copy(batch)
        if before is not None:
            yield before.result()
        before = begun
    if before is not None:
        yield before.result()


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (one_by_one, False, "only when the step before it is done"),
        (begins_after_the_step, False, "only when the step before it is done"),
        (loses_the_last, False, "Batch 7 never came"),
        (copies_all_at_once, False, "8 batches were on the device at once"),
        (yields_the_future, False, ".result()"),
        (fails_without_batches, False, "Something came from an empty loader"),
        (lambda loader, copy: [], False, "No batch came"),
        (lambda loader, copy: loader.batches, False, "ahead raised AttributeError: "),
        (ahead, True, "the next one is copied"),
    ],
)
def test_copies_ahead(answer, passed, says):
    check = feeding_the_gpu.copies_ahead(answer)
    assert check.passed is passed
    assert says in check.message


@pytest.mark.parametrize(
    ("way", "workers", "passed", "says"),
    [
        ("pageable", 2, False, "Not yet"),
        ("pinned, non_blocking", 3, False, "steps take 80 %"),
        ("copied ahead", 2, False, "steps take 73 %"),
        ("copied ahead", 4, False, "fewer workers would do"),
        ("copied ahead", 3, True, "steps take 100 %"),
        ("by post", 3, False, "none of pageable"),
        ("pinned", 0, False, "1 to 8"),
        ("pinned", "many", False, "1 to 8"),
    ],
)
def test_cheapest(way, workers, passed, says):
    check = feeding_the_gpu.cheapest(way, workers)
    assert check.passed is passed
    assert says in check.message
