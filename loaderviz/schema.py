"""The data model: what each table of a trace holds, column by column.

Times in tables are float64 seconds since the start of the recording (NaN: it did not happen).
Every row begins with ``rank`` (of a distributed run, else 0) and ``loader`` (its position among
the recorded loaders). ``worker`` is -1 where the main process itself loads.
"""

from typing import Final

Columns = dict[str, str]

BATCHES: Final[Columns] = {
    "rank": "int64",
    "loader": "int64",
    "epoch": "int64",
    "batch": "int64",  # torch's own task number: counts from 0 in the order of dispatch
    "worker": "int64",
    "n_samples": "int64",
    "drawing_s": "float64",  # when the main process began to ask the sampler for its keys
    "dispatched_s": "float64",
    "started_s": "float64",
    "collate_s": "float64",
    "ready_s": "float64",
    "pinned_s": "float64",
    "requested_s": "float64",
    "delivered_s": "float64",
    "released_s": "float64",
    "cpu_s": "float64",  # CPU time of the fetch, to 20 us, of the thread that made it
    # CPU time of its whole process meanwhile, and of child processes that this has waited for, such
    # as a decoder that a sample starts; NaN: unknown.
    "process_cpu_s": "float64",
    "children_cpu_s": "float64",  # the part of it that is the children's; NaN: unknown
    "queued_s": "float64",  # ready to run meanwhile, and waiting for a CPU; NaN: unknown
    "throttled_s": "float64",  # a CPU quota stopped its container meanwhile; NaN: none, or unknown
    # What its worker process has read, and children that it has waited for, since the last batch of
    # which this is known: by read(2) and the like, from files, pipes and the page cache. What comes
    # by a memory map is not in it. NaN: unknown, as where the main process loads, and off Linux.
    "read_bytes": "float64",
    "disk_bytes": "float64",  # ... and what a disk had to give for it, also for memory maps
    "rss_bytes": "int64",  # resident memory of the process that made it, as last read; 0: unknown
    # Of its tensors, arrays and texts. From a worker, of a tensor those of its storage, as all of
    # that is sent for the smallest view of it; each storage counts once. NaN: unknown.
    "n_bytes": "float64",
    # What it is made of, as {'image': float32 [8, 3, 32, 32]}: equal for batches that a model can
    # not tell apart. None: not measured, as for more than 1,000 leaves, or more than 10,000 such
    # texts of one process. Of a failed batch, the two shapes that could not be put together.
    "shapes": "object",
    "device_start_s": "float64",  # when the device began the step
    "device_end_s": "float64",  # ... and ended it
    # delivered; failed: making it raised; lost: the loop got an exception in its place for another
    # reason, such as a dead worker or a timeout; else how far it got: ready, started or dispatched
    "state": "object",
}

SAMPLES: Final[Columns] = {
    "rank": "int64",
    "loader": "int64",
    "epoch": "int64",
    "batch": "int64",
    "worker": "int64",
    "position": "int64",
    "key": "object",  # int64 where every key is an integer
    "start_s": "float64",
    "end_s": "float64",
}

WORKERS: Final[Columns] = {
    "rank": "int64",
    "loader": "int64",
    "worker": "int64",
    "pid": "int64",
    "start_method": "object",
    "asked_s": "float64",  # iter() began to make the iterator whose worker it is; NaN: unknown
    "started_s": "float64",  # forked, or sent to a new process what that needs
    "pickle_s": "float64",  # the main process pickled what it sent to it; NaN: forked, or unknown
    "pickle_bytes": "float64",  # the size of that, to 64 KiB
    "boot_s": "float64",  # from started_s until it unpickled that; a forked one, until it was up
    "unpickle_s": "float64",  # it unpickled that: the dataset and what it imports
    "init_s": "float64",  # the user's worker_init_fn; NaN: there is none, or unknown
    "first_task_s": "float64",
    "first_read_s": "float64",  # it read its first sample; with __getitems__, its first batch
    "ended_s": "float64",
    "dismissed_s": "float64",  # the loop asked for a batch after the last, or left its epoch
    "gone_s": "float64",  # ... and went on: by then torch had ended it and those beside it
    "exit": "object",  # done, failed, killed or running
    "last_key": "object",  # the sample that was being read when the worker died, else None
    "rss_peak_bytes": "int64",
    # The CPUs that it may run on as Linux lists them, "0-3,8", as last seen; None: unknown.
    "cpus_allowed": "object",
    "threads": "float64",  # in which torch computes one operation in it, as last seen; NaN: unknown
}

SPANS: Final[Columns] = {
    "rank": "int64",
    "name": "object",
    "start_s": "float64",
    "end_s": "float64",
    "device_s": "float64",
}

# Every other time is a moment.
DURATIONS: Final = (
    *("cpu_s", "process_cpu_s", "children_cpu_s", "queued_s", "throttled_s", "device_s"),
    *("pickle_s", "boot_s", "unpickle_s", "init_s", "first_read_s"),
)
