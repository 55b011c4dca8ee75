"""A recorded loop that stands still, mostly at one sample: ``standstill.py HOW FOLDER``.

Without arguments it forks one for each line that it reads, ``HOW``, a tab and ``FOLDER``, and says
its process: torch is imported once for all.
"""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

import loaderviz as lv

STUCK_AT = 21
LOCK = threading.Lock()
EVENT = threading.Event()
SHARED_LOCK = []  # of this process and its workers
SERVER = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers


def hang(how):
    if how == "sleep":
        time.sleep(1000)
    elif how == "lock":
        LOCK.acquire()
    elif how == "event":  # as a client does whose thread was not forked with it
        while not EVENT.wait(1):
            pass
    elif how == "shared lock":
        SHARED_LOCK[0].acquire()
    elif how == "network":
        with socket.create_connection(SERVER.getsockname()) as connection:
            connection.recv(1)
    elif how == "network with a timeout":
        with socket.create_connection(SERVER.getsockname(), timeout=1000) as connection:
            connection.recv(1)
    elif how == "child":
        subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"], check=False)
    elif how == "pipe":
        os.read(os.pipe()[0], 1)
    elif how == "computing":
        while True:
            pass
    elif how == "stopped":
        time.sleep(1)  # its earlier batches are sent by then: it holds no lock
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "stopped while it sends":
        time.sleep(1)  # its earlier batches are sent by then, and the other worker's is not
        frame = sys._getframe()
        while frame.f_code.co_name != "_worker_loop":
            frame = frame.f_back
        frame.f_locals["data_queue"]._wlock.acquire()
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "dead":
        time.sleep(3)  # the loop has its first batch by then: see ``main``
        os.kill(os.getpid(), signal.SIGKILL)


class Samples(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 200

    def __getitem__(self, i):
        if i == STUCK_AT:
            hang(self.how)
        if i == STUCK_AT - 4 and self.how == "stopped while it sends":
            time.sleep(4)
        return torch.full((3,), i)


class AtOnce(Samples):
    def __getitems__(self, keys):
        return [self[key] for key in keys]


class Named(Samples):
    def __getitem__(self, name):
        return super().__getitem__(int(name.partition("-")[2]))


class Stream(IterableDataset):
    def __init__(self, how):
        self.how = how

    def __iter__(self):
        for i in range(200):
            if i == STUCK_AT and get_worker_info().id == 1:
                hang(self.how)
            yield torch.full((3,), i)


class OwnLoader:
    """A loader that is none of torch's."""

    def __iter__(self):
        yield from range(4)
        hang("sleep")


def hanging_start(worker):
    if worker == 1:
        time.sleep(1000)


def never_finish_a_step(n):
    if n == 5:
        while True:
            time.sleep(0.1)


def take_a_while(n):
    time.sleep(0.2)


def do_nothing(n):
    pass


def main(how, folder):
    options = {"batch_size": 4, "num_workers": 2}
    dataset, step = Samples(how), do_nothing
    if how == "at once":
        dataset = AtOnce("sleep")
    elif how == "names":
        names = [f"image-{i}" for i in range(200)]
        dataset, options["sampler"] = Named("sleep"), names
    elif how == "stream":
        dataset = Stream("sleep")
    elif how == "start":
        options["worker_init_fn"] = hanging_start
    elif how == "spawn":
        options |= {"num_workers": 1, "multiprocessing_context": "spawn"}
        dataset = Samples("sleep")
    elif how == "main":
        dataset, options["num_workers"] = Samples("sleep"), 0
    elif how == "step":
        step = never_finish_a_step
    elif how == "fine":
        step = take_a_while
    elif how == "own handler":
        dataset = Samples("sleep")
        signal.signal(signal.SIGURG, signal.default_int_handler)
    elif how == "dead":
        _MultiProcessingDataLoaderIter._try_get_data.__defaults__ = (1e6,)
    LOCK.acquire()
    SHARED_LOCK.append(multiprocessing.Lock())
    SHARED_LOCK[0].acquire()
    loader = DataLoader(dataset, **options)
    loaders = [loader]
    if how == "two loaders":
        loaders = [
            DataLoader(Samples("nothing"), batch_size=4),
            DataLoader(Samples("sleep"), **options),
        ]
    elif how == "foreign":
        loaders = [OwnLoader()]
    recorded = loaders
    if how == "unrecorded":
        first = DataLoader(Samples("nothing"), batch_size=4)
        loaders, recorded = [first, DataLoader(Samples("sleep"), **options)], [first]
    with lv.record(*recorded, path=folder):
        for loader in loaders:
            for n, _ in enumerate(loader):
                if how == "dead":  # else torch would notice
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                step(n)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        for line in sys.stdin:
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                main(*line.rstrip("\n").split("\t"))
                os._exit(0)
            print(pid, flush=True)
