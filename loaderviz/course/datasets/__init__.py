"""Small datasets to learn and test data loading: nothing to download, the same on every run.

| dataset          | a sample is             | what it costs                      |
| ---------------- | ----------------------- | ---------------------------------- |
| `SleepingDataset`| its own index           | waiting only, exactly as you set it|
| `SleepingStream` | the next of 0, 1, 2 ... | the same, as an iterable           |
| `WorkingDataset` | its index, many times   | waiting, computing, as you set it  |
| `WorkingStream`  | the same, one by one    | the same, as an iterable           |
| `OneBuffer`, ... | a row, or another one   | nothing; wrong on purpose          |
| `RemoteTable`    | a row's number          | one round trip, waiting only       |
| `BulkRemoteTable`| the same                | ... for all rows of a batch        |
| `SourceFiles`    | keyword counts of a file| disk, then pure-Python work (GIL)  |
| `JpegImages`     | a picture               | disk, then decode and resize (C)   |
| `FaceLandmarks`  | a picture and its points| the same, with transforms          |
| `WordList`       | an item of a list of str| next to nothing, and memory        |
| `WordArray`      | the same, of an array   | next to nothing                    |
| `Stream`, ...    | the next of its `data`  | nothing, as an iterable            |
| `SavedStream`    | the same                | waiting only; its place can be saved|
| `Dice`, ...      | a random number         | nothing                            |
| `SlotStreams`    | a batch along sequences | waiting only                       |
| `LengthBuckets`  | a batch of like lengths | waiting only                       |
| `FileLines`      | a line of text files    | disk                               |
| `LineChunks`     | several lines of them   | disk                               |

`AnotherInstead`, `NoneInstead` and `DoubledRows` are wrong on purpose, too, as `OneBuffer` is.
`MultiStreamDataLoader` lets several workers make the batches of `SlotStreams` together.

`SplitStream`, `ShardedStream`, `CuttingStream` and `EndlessStream` share out what they yield among
workers, rightly or wrongly; `splits` holds the usual ways to split. `BufferedStream` and
`ShuffledShards` shuffle. `CopiedDice`, `DiceStream`, `EpochDice` and `SeedTeller` differ in where
their random numbers come from; `CopiedCrops` and `LazyCrops` do so on a picture.

They live in a package, not in a notebook cell, because workers started with spawn or forkserver
import the dataset's class by name. This folder depends on torch and numpy; pandas (the table of
`FaceLandmarks`) and Pillow (pictures) are imported only when they are used.
"""

from loaderviz.course.datasets import splits
from loaderviz.course.datasets.batch_streams import (
    LengthBuckets,
    LineChunks,
    MultiStreamDataLoader,
    SlotStreams,
)
from loaderviz.course.datasets.broken_rows import (
    AnotherInstead,
    BrokenRows,
    DoubledRows,
    NoneInstead,
    collate_what_is_there,
)
from loaderviz.course.datasets.dice import (
    CopiedDice,
    Dice,
    DiceStream,
    EpochDice,
    SeedTeller,
)
from loaderviz.course.datasets.faces import (
    CopiedCrops,
    FaceLandmarks,
    LazyCrops,
    RandomCrop,
    Rescale,
    pad_faces,
)
from loaderviz.course.datasets.images import JpegImages, jpeg_folder
from loaderviz.course.datasets.shuffling import BufferedStream, ShuffledShards
from loaderviz.course.datasets.sleeping import (
    BulkRemoteTable,
    OneBuffer,
    RemoteTable,
    SleepingDataset,
    SleepingStream,
)
from loaderviz.course.datasets.source_files import SourceFiles
from loaderviz.course.datasets.streams import (
    CuttingStream,
    EndlessStream,
    FileLines,
    SavedStream,
    ShardedStream,
    SplitStream,
    Stream,
)
from loaderviz.course.datasets.word_lists import WordArray, WordList
from loaderviz.working_dataset import WorkingDataset, WorkingStream

__all__ = [
    "AnotherInstead",
    "BrokenRows",
    "BufferedStream",
    "BulkRemoteTable",
    "CopiedCrops",
    "CopiedDice",
    "CuttingStream",
    "Dice",
    "DiceStream",
    "DoubledRows",
    "EndlessStream",
    "EpochDice",
    "FaceLandmarks",
    "FileLines",
    "JpegImages",
    "LazyCrops",
    "LengthBuckets",
    "LineChunks",
    "MultiStreamDataLoader",
    "NoneInstead",
    "OneBuffer",
    "RandomCrop",
    "RemoteTable",
    "Rescale",
    "SavedStream",
    "SeedTeller",
    "ShardedStream",
    "ShuffledShards",
    "SleepingDataset",
    "SleepingStream",
    "SlotStreams",
    "SourceFiles",
    "SplitStream",
    "Stream",
    "WordArray",
    "WordList",
    "WorkingDataset",
    "WorkingStream",
    "collate_what_is_there",
    "jpeg_folder",
    "pad_faces",
    "splits",
]
