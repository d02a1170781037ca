#!/usr/bin/env python3
"""Grain. Variants: the number of worker processes; without any, reading threads or (`-bare`) none."""

import logging
import pathlib
import sys

import grain
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import files
import meter

ROWS = {"windows": (files.tokens, meter.WINDOW_BATCH), "records": (files.records, meter.RECORD_BATCH),
        "arrays": (files.arrays, 1), "arrays-read": (files.arrays, 1)}
VARIANTS = ("w0", "w0-bare", "w1", "w2")
BARE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class Rows:
    """A random access source; each item is a fresh copy."""

    def __init__(self, make_rows, folder):
        self.make_rows, self.folder = make_rows, folder
        self.rows = make_rows(folder)

    def __reduce__(self):
        # To a worker goes the path, not what is mapped.
        return Rows, (self.make_rows, self.folder)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return np.array(self.rows[index])


def dataset(options):
    make_rows, batch = ROWS[options.row]
    items = grain.MapDataset.source(Rows(make_rows, options.data)).seed(meter.SEED).shuffle().repeat()
    if batch > 1:
        items = items.batch(batch)
    workers, _, bare = options.variant.partition("-")
    if workers == "w0":
        return items.to_iter_dataset(BARE if bare else None)
    return items.to_iter_dataset(BARE).mp_prefetch(
        grain.MultiprocessingOptions(num_workers=int(workers[1:])))


def main():
    options = meter.arguments(__doc__, tuple(ROWS), VARIANTS)
    logging.getLogger().setLevel(logging.ERROR)
    touch = meter.touch_of(options.row)
    meter.leave(meter.measure(lambda: dataset(options), ROWS[options.row][1], options, touch))


if __name__ == "__main__":
    main()
