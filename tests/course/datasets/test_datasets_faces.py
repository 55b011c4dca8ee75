"""The faces: pictures and points that belong together, transforms that keep them so, batches."""

import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz.course.datasets import (
    FaceLandmarks,
    RandomCrop,
    Rescale,
    WordArray,
    WordList,
    pad_faces,
)
from loaderviz.course.datasets.faces import faces_folder, with_landmarks
from loaderviz.errors import LoaderVizError


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADERVIZ_CACHE", str(folder))
        yield folder


def test_a_sample_is_a_picture_and_its_points():
    faces = FaceLandmarks(8)
    assert faces[-8]["image"].shape == (3, 480, 640)
    for sample in map(faces.__getitem__, range(8)):
        image, landmarks = sample["image"], sample["landmarks"]
        assert (image.dtype, landmarks.dtype) == (torch.uint8, torch.float32)
        assert landmarks.shape == (34, 2)
        assert (landmarks >= 0).all()
        assert (landmarks < torch.tensor([image.shape[2], image.shape[1]])).all()
        x, y = landmarks[-3].long().tolist()  # the middle of the mouth, where the table says
        red, green, blue = image[:, y, x].tolist()
        assert red > 1.5 * max(green, blue)


def test_a_face_is_the_same_whatever_their_number_is():
    few, more = faces_folder(4), faces_folder(8)
    assert few != more
    assert (few / "00003.jpg").read_bytes() == (more / "00003.jpg").read_bytes()
    assert torch.equal(FaceLandmarks(4).landmarks, FaceLandmarks(8).landmarks[:4])


def test_rescaling_moves_points_with_the_picture():
    before, after = FaceLandmarks(4)[0], FaceLandmarks(4, [Rescale(240)])[0]
    assert after["image"].shape == (3, 240, 320)
    torch.testing.assert_close(after["landmarks"], before["landmarks"] / 2)


def test_cropping_moves_points_with_the_picture():
    sample = FaceLandmarks(4)[1]
    cut = RandomCrop(200)(sample)
    assert cut["image"].shape == (3, 200, 200)
    left, top = (sample["landmarks"] - cut["landmarks"])[0].long().tolist()
    torch.testing.assert_close(
        sample["image"][:, top : top + 200, left : left + 200], cut["image"], rtol=0, atol=0
    )


def test_a_crop_larger_than_the_picture_is_refused():
    with pytest.raises(LoaderVizError, match=r"480 x 640 pixels is smaller; rescale it first"):
        RandomCrop(500)(FaceLandmarks(4)[0])


@pytest.mark.parametrize("side", [0, 2.5])
def test_a_side_that_is_none_is_refused(side):
    for transform in (Rescale, RandomCrop):
        with pytest.raises(LoaderVizError, match="side="):
            transform(side)


def test_pictures_of_several_sizes_do_not_stack_and_padded_ones_do():
    faces = FaceLandmarks(4)
    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(DataLoader(faces, batch_size=4)))
    batch = next(iter(DataLoader(faces, batch_size=4, collate_fn=pad_faces)))
    assert batch["image"].shape == (4, 3, 720, 800)
    for index, (height, width) in enumerate(batch["size"].tolist()):
        assert torch.equal(batch["image"][index, :, :height, :width], faces[index]["image"])
        assert not batch["image"][index, :, height:].any()


def test_a_picture_with_its_landmarks_is_as_large_and_another():
    sample = FaceLandmarks(4)[0]
    picture = with_landmarks(sample)
    assert picture.size == (640, 480)
    x, y = sample["landmarks"][0].long().tolist()
    assert picture.getpixel((x, y)) == (230, 159, 0)


def test_a_list_and_an_array_hold_the_same_words():
    listed, in_array = WordList(20), WordArray(20)
    assert [word.decode() for word in in_array.words] == listed.words
    assert listed[7] == in_array[7] == 16
    with pytest.raises(IndexError):
        listed[20]
    with pytest.raises(LoaderVizError, match="n=-1"):
        WordList(-1)
