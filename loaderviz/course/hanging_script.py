"""A training script of notebook 16 that does not go on: a server leaves one request unanswered.

``python -m loaderviz.course.hanging_script`` trains, until then. ``hung_run`` has it recorded,
and holds it while ``loaderviz stuck`` looks at it.
"""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz.course.run_in_shell import kill_with_all_below, start_python
from loaderviz.errors import LoaderVizError

LONGEST_S = 60.0  # until the run stands still


class Server:
    """A store of numbers on this machine, which never answers the first request for number 21."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = self._listening.getsockname()
        self._left_unanswered: list[socket.socket] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            number = connection.recv(1)
            if number == bytes([21]) and not self._left_unanswered:
                self._left_unanswered.append(connection)
            else:
                connection.sendall(number)
                connection.close()


class Numbers(Dataset[torch.Tensor]):
    """Asks the server for each sample. With a ``timeout_s`` it asks again in time."""

    def __init__(self, address: tuple[str, int], timeout_s: float | None = None) -> None:
        self.address, self.timeout_s = address, timeout_s

    def __len__(self) -> int:
        return 80

    def __getitem__(self, number: int) -> torch.Tensor:
        while True:
            with socket.create_connection(self.address, self.timeout_s) as connection:
                connection.sendall(bytes([number]))
                try:
                    return torch.tensor(connection.recv(1)[0])
                except TimeoutError:
                    continue


def make_loader(timeout_s: float | None = None) -> DataLoader[torch.Tensor]:
    """The script's loader, with a server of its own."""
    return DataLoader(Numbers(Server().address, timeout_s), batch_size=4, num_workers=2)


def train(loader: DataLoader[torch.Tensor]) -> None:
    """Go through the data once."""
    for batch in loader:
        batch.float().mean()


@contextmanager
def hung_run(folder: Path) -> Iterator[None]:
    """``loaderviz run`` of this script, in the background: from when it hangs to the block's end.

    Raises:
        LoaderVizError: if it does not hang within a minute.
    """
    run = start_python(
        ["-m", "loaderviz", "run", "--out", str(folder), "-m", __name__],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + LONGEST_S
        while not _hangs(folder):
            if time.monotonic() > end or run.poll() is not None:
                raise LoaderVizError(f"the run in {str(folder)!r} does not hang: run it again")
            time.sleep(0.2)
        yield
    finally:
        kill_with_all_below(run)


def _hangs(folder: Path) -> bool:
    from loaderviz._stuck.examine_run import examine_run  # the script has no use for it

    with suppress(LoaderVizError):  # until something is recorded
        return any(rank.stuck for rank in examine_run(folder))
    return False


if __name__ == "__main__":
    train(make_loader())
