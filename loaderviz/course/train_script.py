"""The stand-in of notebooks 10 and 16: a small training script on a folder of pictures.

``python -m loaderviz.course.train_script`` trains for two epochs, and evaluates after each. It is
as short as such scripts are, to be read as well as run, wrong in common ways, and does nothing to
be recorded. ``dies`` as an argument lets it fail at a picture that has gone.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from loaderviz.course.datasets.images import cached_folder, pillow

Sample = tuple[torch.Tensor, int]  # a picture, and 1 by night


class Photos(Dataset[Sample]):
    """A folder of pictures, each made a little brighter or darker at random."""

    def __init__(self, folder: Path, request_s: float = 0.001) -> None:
        self.files = sorted(folder.glob("*/*.png"))
        self.request_s = request_s
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> Sample:
        time.sleep(self.request_s)  # until the store answers
        picture, is_night = read(self.files[number])
        return picture * self.rng.normal(1, 0.1), is_night


class TwoOfEach(Sampler[list[int]]):
    """Batches of two pictures by day and two by night, in a new order in each epoch."""

    def __init__(self, photos: Photos) -> None:
        self.is_night = torch.tensor([file.parent.name == "night" for file in photos.files])

    def __iter__(self) -> Iterator[list[int]]:
        for day, night in zip(in_twos(~self.is_night), in_twos(self.is_night), strict=False):
            yield day + night


class CuredPhotos(Photos):
    """The brightness is drawn by torch's generator, which torch seeds anew in each worker."""

    def __getitem__(self, number: int) -> Sample:
        time.sleep(self.request_s)
        picture, is_night = read(self.files[number])
        return picture * (1 + 0.1 * torch.randn(())), is_night


class HeldOut(Photos):
    """The same, as they are: to evaluate on."""

    def __getitem__(self, number: int) -> Sample:
        time.sleep(self.request_s)
        return read(self.files[number])


def make_loader() -> DataLoader[Sample]:
    """The script's loader."""
    photos = Photos(folder())
    return DataLoader(photos, batch_sampler=TwoOfEach(photos), num_workers=2)


def make_cured(num_workers: int = 2, request_s: float = 0.001) -> DataLoader[Sample]:
    """The same pictures, right: in batches as they come."""
    photos = CuredPhotos(folder(), request_s)
    return DataLoader(photos, batch_size=4, shuffle=True, num_workers=num_workers)


def in_twos(chosen: torch.Tensor) -> list[list[int]]:
    """The numbers of the chosen, shuffled, two by two."""
    numbers = chosen.nonzero().flatten()
    return numbers[torch.randperm(len(numbers))].view(-1, 2).tolist()


def read(file: Path) -> Sample:
    """The pixels, from 0 to 1, of shape (32, 32, 3), and whether the picture was taken by night."""
    with pillow().open(file) as picture:
        return torch.from_numpy(np.array(picture)).float() / 255, int(file.parent.name == "night")


def folder(n_day: int = 80, n_night: int = 40) -> Path:
    """A folder with so many pictures in ``day`` and in ``night``; made once."""
    n = {"day": n_day, "night": n_night}
    return cached_folder(f"photos-v1-{n_day}-{n_night}", lambda folder: _draw(folder, n))


def _draw(folder: Path, n: dict[str, int]) -> None:
    for kind, light in (("day", 150), ("night", 10)):
        (folder / kind).mkdir()
        for number in range(n[kind]):
            colour = (light + number % 100, light, 240 - light)
            pillow().new("RGB", (32, 32), colour).save(folder / kind / f"{number:04d}.png")


def train(model: torch.nn.Module, loader: DataLoader[Sample], step_s: float = 0.01) -> None:
    """An epoch: tell pictures by day from those by night.

    Plain gradient descent, as ``torch.optim`` takes seconds to import.
    """
    weights = [*model.parameters()]
    for pictures, is_night in loader:
        loss = torch.nn.functional.cross_entropy(model(pictures.flatten(1)), is_night)
        for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= 1e-4 * slope
        time.sleep(step_s)  # a larger model


@torch.no_grad()
def evaluate(model: torch.nn.Module, photos: HeldOut, step_s: float = 0.005) -> float:
    """The share of pictures that the model tells rightly."""
    n_right = 0
    for pictures, is_night in DataLoader(photos, batch_size=4):
        n_right += int((model(pictures.flatten(1)).argmax(1) == is_night).sum())
        time.sleep(step_s)
    return n_right / len(photos)


def main() -> None:
    """Two epochs."""
    torch.manual_seed(0)
    model = torch.nn.Linear(32 * 32 * 3, 2)
    held_out = HeldOut(folder(10, 10))
    if "dies" in sys.argv[1:]:
        held_out.files[13] = held_out.files[13].with_suffix(".jpg")  # was renamed meanwhile
    loader = make_loader()
    for epoch in range(2):
        train(model, loader)
        print(f"epoch {epoch}: {evaluate(model, held_out):.0%} right")


if __name__ == "__main__":
    main()
