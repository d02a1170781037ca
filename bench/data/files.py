#!/usr/bin/env python3
"""Makes the files that bench/data reads, with a fixed seed; what is there already is kept.

    build/peers/loaders/bin/python bench/data/files.py build/bench-data
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import meter

TOKENS = "tokens.bin"  # int32, flat
RECORDS = "records.bin"  # RECORD_BYTES each
WINDOWS = 32_768  # of WINDOW_TOKENS int32: 256 MiB
RECORD_COUNT = 1_000_000  # 100 MB
VOCABULARY = 50_257
PIECE = 1 << 22


def tokens(folder):
    return np.memmap(folder / TOKENS, dtype=np.int32, mode="r").reshape(-1, meter.WINDOW_TOKENS)


def records(folder):
    return np.memmap(folder / RECORDS, dtype=np.uint8, mode="r").reshape(-1, meter.RECORD_BYTES)


def arrays(folder):
    """The tokens again, 8 MiB at a time."""
    return np.memmap(folder / TOKENS, dtype=np.int32, mode="r").reshape(-1, meter.ARRAY_BYTES // 4)


def make(path, count, dtype, high):
    """`count` numbers below `high`."""
    size = count * np.dtype(dtype).itemsize
    if path.exists() and path.stat().st_size == size:
        return
    numbers = np.random.Generator(np.random.Philox(meter.SEED))
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        for begin in range(0, count, PIECE):
            numbers.integers(0, high, min(PIECE, count - begin), dtype=dtype).tofile(file)
    unfinished.rename(path)


def make_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / TOKENS, WINDOWS * meter.WINDOW_TOKENS, np.int32, VOCABULARY)
    make(folder / RECORDS, RECORD_COUNT * meter.RECORD_BYTES, np.uint8, 256)


if __name__ == "__main__":
    make_all(pathlib.Path(sys.argv[1]))
