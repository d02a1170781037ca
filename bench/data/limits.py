#!/usr/bin/env python3
"""What this machine gives: one thread that copies the same rows out of the same files into one
place, batch by batch, with nobody to hand them to.
"""

import numpy as np

import files
import meter

ROWS = {"windows": (files.tokens, meter.WINDOW_BATCH), "records": (files.records, meter.RECORD_BATCH),
        "arrays": (files.arrays, 1), "arrays-read": (files.arrays, 1)}
PLACES = 8  # so that an array's place is in no cache
SHUFFLED = 1 << 18


def gathered(rows, batch):
    numbers = np.random.Generator(np.random.Philox(meter.SEED))
    indices = numbers.integers(0, len(rows), SHUFFLED).reshape(-1, batch)
    places = np.empty((PLACES, batch, rows.shape[1]), rows.dtype)
    number = 0
    while True:
        place = places[number % PLACES]
        np.take(rows, indices[number % len(indices)], axis=0, out=place, mode="clip")
        yield place
        number += 1


def copied(rows):
    places = np.empty((PLACES, rows.shape[1]), rows.dtype)
    number = 0
    while True:
        place = places[number % PLACES]
        np.copyto(place, rows[number % len(rows)])
        yield place
        number += 1


def main():
    options = meter.arguments(__doc__, tuple(ROWS), ("one-thread",))
    make_rows, batch = ROWS[options.row]
    rows = np.asarray(make_rows(options.data))
    rows.sum()  # all of it is in memory from here on
    make = (lambda: copied(rows)) if batch == 1 else (lambda: gathered(rows, batch))
    meter.leave(meter.measure(make, batch, options, meter.touch_of(options.row)))


if __name__ == "__main__":
    main()
