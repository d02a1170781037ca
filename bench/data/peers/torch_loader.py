#!/usr/bin/env python3
"""torch's DataLoader. Variants: the number of worker processes; `gathered`: a whole batch is taken
at once (`__getitems__`), which is the best that a map-style dataset can do.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.utils.data

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import files
import meter

ROWS = {"windows": (files.tokens, meter.WINDOW_BATCH), "records": (files.records, meter.RECORD_BATCH),
        "arrays": (files.arrays, 1), "arrays-read": (files.arrays, 1)}
VARIANTS = ("w0", "w0-gathered", "w1", "w2", "w2-gathered")


class Rows(torch.utils.data.Dataset):
    """Each item is a fresh copy: a worker that hands out the same tensor again sends no bytes."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.rows[index]))


class Gathered(Rows):
    def __getitems__(self, indices):
        return torch.from_numpy(self.rows[indices])


class Forever(torch.utils.data.Sampler):
    """One permutation after the other."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        numbers = np.random.Generator(np.random.Philox(meter.SEED))
        while True:
            yield from numbers.permutation(self.count).tolist()


def loader(options):
    make_rows, batch = ROWS[options.row]
    workers, _, gathered = options.variant.partition("-")
    rows = make_rows(options.data)
    return torch.utils.data.DataLoader(
        Gathered(rows) if gathered else Rows(rows), sampler=Forever(len(rows)),
        batch_size=None if batch == 1 else batch, num_workers=int(workers[1:]),
        collate_fn=(lambda gathered_batch: gathered_batch) if gathered else None)


def main():
    options = meter.arguments(__doc__, tuple(ROWS), VARIANTS)
    torch.set_num_threads(1)
    touch = meter.touch_of(options.row)
    meter.leave(meter.measure(lambda: loader(options), ROWS[options.row][1], options,
                              touch and (lambda array: touch(array.numpy()))))


if __name__ == "__main__":
    main()
