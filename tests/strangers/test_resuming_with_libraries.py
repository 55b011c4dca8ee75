"""What libraries do when training resumes in mid-epoch: as docs say and doctor finds."""

import copy
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv

BATCHES = 8  # of an epoch


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Noisy(Dataset):
    """Each sample with a draw of the generator of its process."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, key: int) -> float:
        return key + torch.rand(()).item()


def plain(dataset: Any = None) -> DataLoader:
    return DataLoader(dataset or list(range(32)), batch_size=4, shuffle=True)


def stateful(dataset: Any = None, **options: Any) -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    return module.StatefulDataLoader(
        dataset or list(range(32)), batch_size=4, shuffle=True, **options
    )


def numbers(loader: Any) -> list[list[float]]:
    return [batch.tolist() for batch in loader]


def resumed(make: Callable[[], Any], seed: int = 2, n: int = 3) -> tuple[Any, Any]:
    """What should follow after so many batches, and what follows in a new loader from the state."""
    torch.manual_seed(1)
    whole = numbers(make())
    torch.manual_seed(1)
    loader = make()
    for number, _ in enumerate(loader, 1):
        if number == n:
            state = copy.deepcopy(loader.state_dict())
            break
    torch.manual_seed(seed)
    other = make()
    other.load_state_dict(state)
    return whole[n:], numbers(other)


class TestTorchdata:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_its_order_is_exact(self, num_workers):
        expected, came = resumed(lambda: stateful(num_workers=num_workers))
        assert came == expected

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_draws_are_others_in_the_main_process_and_in_workers(self, num_workers):
        expected, came = resumed(lambda: stateful(Noisy(), num_workers=num_workers))
        assert came != expected
        assert np.floor(came).tolist() == np.floor(expected).tolist()

    def test_the_doctor_says_both(self):
        assert "LV109" in lv.doctor(stateful(num_workers=1)).clear
        assert "LV111" in lv.doctor(stateful(Noisy(), num_workers=1)).codes

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_after_the_end_of_an_epoch_comes_a_whole_one(self, num_workers):
        loader, other = (stateful(num_workers=num_workers) for _ in range(2))
        list(loader)
        other.load_state_dict(loader.state_dict())
        assert len(numbers(other)) == BATCHES

    def test_a_state_of_another_number_of_workers_is_refused(self):
        loader = stateful(num_workers=2)
        next(iter(loader))
        with pytest.raises(lv.LoaderVizError, match="num_workers=2, not 1"):
            lv.doctor(stateful(num_workers=1), resume=loader.state_dict())


class TestAccelerate:
    @staticmethod
    def prepared(**options: Any) -> Any:
        accelerate = pytest.importorskip("accelerate")
        configuration = accelerate.DataLoaderConfiguration(**options)
        return accelerate.Accelerator(cpu=True, dataloader_config=configuration).prepare(plain())

    def test_skipping_goes_on_in_the_first_order_whatever_the_epoch(self):
        skip_first_batches = pytest.importorskip("accelerate").skip_first_batches
        torch.manual_seed(1)
        loader = self.prepared()
        first, second = numbers(loader), numbers(loader)
        torch.manual_seed(1)  # the script begins as before
        rest = numbers(skip_first_batches(self.prepared(), 3))
        assert rest == first[3:]
        assert rest != second[3:]

    def test_the_state_of_a_shuffled_loader_holds_its_place_but_not_its_order(self):
        expected, came = resumed(lambda: self.prepared(use_stateful_dataloader=True))
        assert len(came) == len(expected)
        assert {*chain.from_iterable(came)} != {*chain.from_iterable(expected)}

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_an_order_by_seed_and_epoch_is_exact(self, epoch):
        skip_first_batches = pytest.importorskip("accelerate").skip_first_batches
        torch.manual_seed(1)
        loader = self.prepared(use_seedable_sampler=True)
        whole = [numbers(loader) for _ in range(epoch + 1)][-1]
        torch.manual_seed(1)
        other = self.prepared(use_seedable_sampler=True)
        other.set_epoch(epoch)
        assert numbers(skip_first_batches(other, 3)) == whole[3:]

    def test_the_doctor_finds_it(self):
        assert "LV110" in lv.doctor(self.prepared(), resume=True).codes
        assert "LV109" in lv.doctor(self.prepared(use_stateful_dataloader=True)).codes


class TestLightning:
    @staticmethod
    def fit(loader: Any, folder: Path, stop: int | None = None, resume: bool = False) -> Any:
        pl = pytest.importorskip("lightning.pytorch")

        class Model(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)
                self.seen: list[list[int]] = []

            def training_step(self, batch: Any, index: int) -> Any:
                if self.trainer.global_step == stop:
                    raise KeyboardInterrupt
                self.seen.append(batch.tolist())
                return self.layer(batch.float()[:, None]).mean()

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), 0.1)

        saved = pl.callbacks.ModelCheckpoint(
            folder, "at", every_n_train_steps=stop or 99, enable_version_counter=False
        )
        trainer = pl.Trainer(
            max_epochs=2,
            logger=False,
            callbacks=[saved],
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
        )
        model = Model()
        try:
            trainer.fit(model, loader, ckpt_path=folder / "at.ckpt" if resume else None)
        except (KeyboardInterrupt, SystemExit):
            assert stop is not None
        return model.seen

    def run(self, make: Callable[[], Any], folder: Path, stop: int) -> tuple[Any, Any]:
        torch.manual_seed(1)
        whole = self.fit(make(), folder / "whole")
        torch.manual_seed(1)
        assert self.fit(make(), folder, stop) == whole[:stop]
        torch.manual_seed(2)
        return whole[stop:], self.fit(make(), folder, resume=True)

    @pytest.mark.parametrize("stop", [5, 13])
    def test_with_a_plain_loader_it_takes_the_first_batches_of_an_epoch_begun_anew(
        self, tmp_path, stop
    ):
        expected, came = self.run(lambda: DataLoader(list(range(32)), batch_size=4), tmp_path, stop)
        n_left = -stop % BATCHES
        assert len(came) == len(expected)  # it counts its steps on
        assert came[:n_left] == [list(range(at, at + 4)) for at in range(0, 4 * n_left, 4)]

    @pytest.mark.parametrize("stop", [5, 13])
    def test_with_a_stateful_loader_it_is_exact(self, tmp_path, stop):
        expected, came = self.run(stateful, tmp_path, stop)
        assert came == expected
